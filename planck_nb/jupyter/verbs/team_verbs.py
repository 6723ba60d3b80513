"""`%planck team`: the teams of the notebook, and the templates that they are made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from planck_nb.agent.agent_access import skills_of
from planck_nb.base.errors import AgentError, ConfigError, UsageError, did_you_mean
from planck_nb.jupyter.display.run_facts import model_name
from planck_nb.jupyter.namespace import tool_finder
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import MODEL, TEAM
from planck_nb.jupyter.parsing.parameters import FILE, WORD, Option, Parameter, choice
from planck_nb.jupyter.similar_words import nearest
from planck_nb.jupyter.team_prompts import name_of_team, started_text
from planck_nb.jupyter.verbs.declaration import Text, columns, table, verb
from planck_nb.teams import INTER_AGENT_TOOLS, Team, TeamTemplate
from planck_nb.teams.saving import PROMPTS_FOLDER
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import full_name

SUBJECT = "Teams"

_ACTIONS = {
    "list": "list the running teams and the templates",
    "new": "write a small team to begin with",
    "start": "start a team",
    "show": "show the members of a team or a template",
    "check": "list everything that is wrong with a template",
    "save": "save a running team as a template",
    "stop": "stop a team for good",
}
_OPTIONS_OF = {"name": "start", "model": "start", "overwrite": "save"}
_MODEL_WIDTH = 28


def _may_be_team_line(notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise an action with a word, and `save` with a folder."""
    action, *names = words
    if action not in _ACTIONS:
        return not names and bool(nearest(action, _ACTIONS))
    return len(names) <= 1 or (action == "save" and names[0] in notebook.workspace.teams)


@verb(
    "team",
    SUBJECT,
    "list teams and their templates; write a new one; start, show, check, save or stop one",
    Parameter("action", choice(**_ACTIONS), "what to do, by default list", optional=True),
    Parameter("team", TEAM, "a running team, or the alias or path of a template", optional=True),
    Parameter("path", FILE, "with save: the folder to write, by default in .planck/teams", optional=True),
    Option("name", "n", WORD, "with start: what the team is called here, by default the alias"),
    Option("model", "m", MODEL, "with start: a model for all members, instead of their own"),
    Option("overwrite", None, None, "with save: replace files that have other content"),
    example="team start review --model demo",
    synonyms=("teams",),
    shortcuts={"new team": "new"},
    shows=True,
    fits=_may_be_team_line,
)
async def team(  # noqa: PLR0917 - one branch for each action, one parameter for each of the declaration
    notebook: Notebook,
    action: str | None,
    team: str | None,
    path: Path | None,
    name: str | None,
    model: str | None,
    overwrite: bool,
) -> object:
    """Do one of the actions."""
    action = action or "list"
    given = {"name": name, "model": model, "overwrite": overwrite}
    for option, of in _OPTIONS_OF.items():
        if given[option] and action != of:
            raise UsageError(f"--{option} is for `%planck team {of}`.")
    if path is not None and action != "save":
        raise UsageError(f"`%planck team {action}` does not accept {str(path)!r}; only save needs a path.")
    workspace = notebook.workspace
    if action == "list":
        if team is not None:
            raise UsageError(f"`%planck team list` lists all teams; `%planck team show {team}` shows one.")
        return _listed(workspace)
    if action == "new":
        return _new(workspace, team)
    team = team or _only_team(workspace, action)
    if action == "start":
        return await _start(notebook, team, name or "", model)
    if action == "stop":
        return await _stop(notebook, team)
    if action == "save":
        return _saved(workspace, team, path, overwrite=overwrite)
    return _shown(workspace, team) if action == "show" else _checked(notebook, team)


def _new(workspace: Workspace, name: str | None) -> Text:
    """Write a team, and explain its use."""
    if name is None:
        raise UsageError("`%planck team new` needs a name, such as `%planck team new helpers`.")
    template = workspace.new_team(name).template
    members = _names(spec.name for spec in (template.orchestrator, *template.workers))
    file = Path(_place(workspace, template), "TEAM.json").as_posix()  # which is there, unlike a README
    return Text(
        f"Wrote the team {name} in {_place(workspace, template)}: {members}, all with the demo model. Try it:\n\n"
        f'    %planck --team {name} delegate_task to "reader" the task "Please read \'{file}\'."\n\n'
        f"`%planck --team {name} --model anthropic:claude-sonnet-4-6 PROMPT` gives all members a real model. "
        "To make the team your own, edit each member's provider, model_id, description and tools in TEAM.json, and "
        f"what it is told in {PROMPTS_FOLDER}/. Then `%planck team check {name}` lists mistakes, and `%planck trust` "
        "shows the change and asks you to trust it."
    )


async def _stop(notebook: Notebook, name: str) -> Text:
    await notebook.workspace.stop_team(name)
    default = notebook.controller.check_default()
    return Text(f"The team {name} stopped for good. What it said stays in the session.\n{default}".rstrip())


def _only_team(workspace: Workspace, action: str) -> str:
    """The name of the team that runs, for actions on one that runs."""
    running = list(workspace.teams)
    if action in {"show", "save"} and len(running) == 1:
        return running[0]
    needed = "the alias or path of a template" if action in {"start", "check"} else "the name of a team"
    several = f" There are {', '.join(running)}." if len(running) > 1 and action not in {"start", "check"} else ""
    raise UsageError(f"`%planck team {action}` needs {needed}; `%planck team list` lists them.{several}")


def _listed(workspace: Workspace) -> object:
    """A table of the teams; a text if some templates are not used, so that the reasons can be read."""
    found = workspace.team_templates()
    rows = [
        {
            "team": name,
            "state": "running",
            "description": team.description or "",
            "members": _names(agent.name for agent in team.agents),
            "template": _place(workspace, team.template),
        }
        for name, team in workspace.teams.items()
    ]
    rows += [
        {
            "team": template.alias,
            "state": "",
            "description": template.description or "",
            "members": _names(spec.name for spec in (template.orchestrator, *template.workers)),
            "template": _place(workspace, template),
        }
        for template in found
        if template.alias not in workspace.teams
    ]
    skipped = [failure.reason for failure in found.skipped]
    if not rows:
        folders = ", ".join(_relative(workspace, folder) for folder in workspace.config.teams_dirs) or "no folder"
        where = f"No teams. Templates are looked for in {folders}: <alias>/TEAM.json or <alias>.json."
        return Text("\n".join([where, *skipped]))
    shown = table(rows, ["team", "state", "description", "members", "template"])
    return shown if not skipped else Text("\n".join([shown.to_string(index=False), "", "Not used:", *skipped]))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _place(workspace: Workspace, template: TeamTemplate) -> str:
    """Where a template is, as a path relative to the notebook's folder if it is in there."""
    file = template.dir if template.path is None or template.path.name == "TEAM.json" else template.path
    return template.source if file is None else _relative(workspace, file)


def _relative(workspace: Workspace, path: Path) -> str:
    try:
        return path.relative_to(workspace.config.root.absolute()).as_posix()
    except ValueError:
        return str(path)


async def _start(notebook: Notebook, alias: str, name: str, model: str | None) -> Text:
    workspace = notebook.workspace
    wanted = name or alias
    if wanted in workspace.teams:
        raise AgentError(
            f"A team named {wanted} is running already; prompt it with %%planck --team {wanted}, or start another one "
            "with --name."
        )
    chosen = await workspace.find_model(model) if model else None
    team = await workspace.start_team(alias, name=name, model=chosen, find=tool_finder(notebook.names))
    started = name_of_team(workspace, team)
    return Text(f"{started_text(workspace, team)}\nPrompt it with %%planck --team {started}.")


def _shown(workspace: Workspace, name: str) -> Text:
    """The members of a running team, or else those of a template."""
    team = workspace.teams.get(name)
    template = workspace.team_template(name) if team is None else team.template
    members = _described_specs(template) if team is None else _described_agents(workspace, team)
    state = "not running" if team is None else "running"
    lines = [f"{name}: {state}, {_place(workspace, template)}", *filter(None, [template.description]), "", *members]
    report = template.report if team is None else team.report
    return Text("\n".join([*lines, *(["", *map(str, report)] if report else [])]))


def _described_agents(workspace: Workspace, team: Team) -> list[str]:
    rows: list[tuple[str, str]] = []
    for agent in team.agents:
        names, skills = (tool.name for tool in agent.tools), skills_of(agent) or ()
        parent = next((other.name for other in team.agents if other.id == agent.state.parent_id), "")
        rows += [
            (
                full_name(workspace, agent),
                _facts(agent.role, model_name(agent.model), parent and f"started by {parent}"),
            ),
            *_powers(names, skills, agent.grants.tools, agent.description),
        ]
    return _lines(rows)


def _described_specs(template: TeamTemplate) -> list[str]:
    rows: list[tuple[str, str]] = []
    for spec in (template.orchestrator, *template.workers):
        role = "orchestrator" if spec is template.orchestrator else "worker"
        grants = spec.grants.tools if spec.grants else ()
        rows += [
            (spec.name, _facts(role, f"{spec.provider}:{spec.model_id}")),
            *_powers(spec.tools, spec.skills, grants, spec.description),
        ]
    return _lines(rows)


def _facts(*facts: str) -> str:
    return ", ".join(filter(None, facts))


def _powers(
    tools: Iterable[str], skills: Iterable[str], grants: Iterable[str], description: str | None
) -> list[tuple[str, str]]:
    """What a member is for, can call and may give to others. All members have the tools of their role."""
    own = [name for name in tools if name not in INTER_AGENT_TOOLS]
    named = {"": description or "", "tools: ": _names(own), "skills: ": _names(skills), "may grant: ": _names(grants)}
    return [("", f"{label}{text}") for label, text in named.items() if text]


def _lines(rows: list[tuple[str, str]]) -> list[str]:
    width = min(max((len(left) for left, _ in rows), default=0), _MODEL_WIDTH)
    return [line.rstrip() for line in columns(rows, width)]


def _checked(notebook: Notebook, alias: str) -> Text:
    """Nothing but a sentence if all is right. Raises `ConfigError` with all that is wrong."""
    problems = notebook.workspace.check_team(alias, find=tool_finder(notebook.names))
    if problems:
        listed = "\n".join(f"- {problem}" for problem in dict.fromkeys(map(str, problems)))
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ConfigError(f"The template {alias} has {count}:\n{listed}")
    return Text(f"The template {alias} has no problems.")


def _saved(workspace: Workspace, name: str, path: Path | None, *, overwrite: bool) -> Text:
    if name not in workspace.teams:
        running = f"{did_you_mean(name, workspace.teams)}" if workspace.teams else "No team is running."
        raise AgentError(f"No team named {name} is running, so it cannot be saved. {running}".rstrip())
    try:
        saved = workspace.save_team(name, path, overwrite=overwrite)
    except ConfigError as error:
        raise ConfigError(str(error).replace("pass overwrite=True", "add --overwrite")) from error
    lines = [f"Saved the team {name} in {_place(workspace, saved.template)}."]
    lines += map(str, saved.left_out)
    skipped = workspace.team_templates().skipped
    lines += (failure.reason for failure in skipped if failure.path in {saved.template.path, saved.template.dir})
    return Text("\n".join(lines))
