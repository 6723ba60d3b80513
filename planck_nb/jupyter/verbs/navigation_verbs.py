"""Verbs that go back in a session, and from one session to another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from planck_nb.agent.agent import Agent
from planck_nb.base.errors import UsageError
from planck_nb.base.text import counted
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.namespace import tool_finder
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import MODEL, NEWEST, SERVER_OPTIONS, SESSION
from planck_nb.jupyter.parsing.parameters import WORD, Extent, Kind, Option, Parameter, positive_integer
from planck_nb.jupyter.session_prompts import session_prompts
from planck_nb.jupyter.team_prompts import server_of
from planck_nb.jupyter.verbs.declaration import Text, readable, table, verb
from planck_nb.sessions import Branch
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import full_name, named_agents

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "Going back and continuing"
_SHOWN = 20
_LAST = "last"
_NEWEST = 0
"""Stands for the newest branch."""


def _branch(text: str) -> int:
    return _NEWEST if text == _LAST else positive_integer(text)


@verb(
    "rewind",
    SUBJECT,
    "go back to before a prompt, or return; without an id, list the prompts",
    Parameter(
        "prompt_id",
        Kind(
            "ID",
            suggest=lambda _notebook: {_LAST: "the newest prompt"},
            fits=lambda _notebook, text: text == _LAST or text.lstrip("-").isdecimal(),
        ),
        "the prompt, as `%planck rewind` numbers it, or `last`",
        optional=True,
    ),
    Parameter("prompt", Kind("PROMPT", extent=Extent.TEXT), "a prompt to continue with", optional=True),
    Option("list", None, None, "list what rewinding undid"),
    Option("return", "r", Kind("BRANCH", _branch), "go back to such a branch, by its number, or `last`"),
    example="rewind last and in euros?",
    shortcuts={"branches": "--list"},
    shows=True,
)
async def rewind(
    notebook: Notebook,
    prompt_id: str | None,
    prompt: str | None,
    list: bool,  # noqa: A002 - the option
    return_: int | None,
) -> object:
    """Rewind the session, return to a branch, or list prompts or branches."""
    if return_ is not None or list:
        if prompt_id is not None:
            raise UsageError("`%planck rewind` needs either an ID or an option; --return goes back to a branch.")
        return _table(await _known_branches(notebook)) if return_ is None else await _return(notebook, return_)
    workspace, controller = notebook.workspace, notebook.controller
    prompts = await session_prompts(workspace)
    if prompt_id is None:
        return readable(prompts.drop(columns="agent_id"), empty="There is no prompt to go back to yet.")
    agent_ids = dict(zip(map(int, prompts["id"]), prompts["agent_id"], strict=True))
    wanted = max(agent_ids, default=0) if prompt_id == _LAST else int(prompt_id) if prompt_id.isdecimal() else 0
    if wanted not in agent_ids:
        if not agent_ids:
            raise UsageError("There is no prompt to go back to yet.")
        raise UsageError(f"There is no prompt {prompt_id} to go back to; `%planck rewind` lists them with their ids.")
    stopped = _will_stop(notebook)
    notices = await workspace.rewind(wanted, find=tool_finder(notebook.names))
    notices = [*notices, stopped, controller.check_default()]
    if prompt:
        agent = workspace.find_agent(agent_ids[wanted])
        started = await controller.start(prompt, {"agent": full_name(workspace, agent)}, notebook.names)
        return replace(started, notice="\n".join(filter(None, [*notices, started.notice])))
    done = f"Back to before prompt {wanted}. `%planck rewind --list` lists what was undone."
    return Text("\n".join([done, *filter(None, notices)]))


async def _return(notebook: Notebook, number: int) -> Text:
    """Go back to the branch with this number."""
    workspace = notebook.workspace
    known = [branch.id for branch in await _known_branches(notebook)]
    branch = max(known, default=0) if number == _NEWEST else number
    if branch not in known:
        said = f"There is no branch {branch}" if branch else "Nothing was undone"
        raise UsageError(f"{said} in this session; `%planck rewind --list` lists the branches.")
    stopped = _will_stop(notebook)
    notices = await workspace.return_to(branch, find=tool_finder(notebook.names))
    notices = [*notices, *filter(None, [stopped, notebook.controller.check_default()])]
    return Text("\n".join([f"Back on branch {branch}.", *notices]))


@verb(
    "fork",
    SUBJECT,
    "continue in a new session that starts as a copy of this one",
    Parameter("name", WORD, "the name of the new session", optional=True),
    Option("before", None, Kind("ID", positive_integer), "the id of the first message to leave out"),
    example="fork trial --before 7",
)
async def fork(notebook: Notebook, name: str | None, before: int | None) -> Text:
    """Fork the session."""
    workspace = notebook.workspace
    if workspace.session_id is None:
        raise UsageError("This notebook has no session to fork yet; the first prompt makes one.")
    old = workspace.session.name
    if before is not None and before > (newest := await _newest_message(workspace)):
        raise UsageError(f"There is no message {before} to leave out; the newest one has the id {newest}.")
    stopped = _will_stop(notebook)
    notices = await workspace.fork(name, before=before, find=tool_finder(notebook.names))
    done = f"This notebook continues in {workspace.session.name}; {old} stays as it is."
    return Text("\n".join(filter(None, [done, stopped, *notices, notebook.controller.check_default()])))


@verb(
    "resume",
    SUBJECT,
    "continue a stored session",
    Parameter(
        "session", SESSION, "the session; by default, or as `last`, the last one used that is not open", optional=True
    ),
    Option("model", "m", MODEL, "a model for agents whose own cannot be found; if all can, for all agents"),
    *SERVER_OPTIONS,
    Option("trust", None, None, "restore the rules, addresses and functions of a session that you did not write"),
    Option("take-over", None, None, "open it although an ended process on another computer seems to have it open"),
    example="resume calm-fox",
)
async def resume(  # noqa: PLR0917 - one parameter for each of the declaration above
    notebook: Notebook,
    session: str | None,
    model: str | None,
    base_url: str | None,
    key_var: str | None,
    trust: bool,
    take_over: bool,
) -> Text:
    """Resume the session."""
    workspace = notebook.workspace
    session = None if session in NEWEST else session
    server = server_of(base_url, key_var, model, "--model")
    if take_over and not session:
        raise UsageError("--take-over needs the name of the session.")
    chosen = await workspace.find_model(model, **server) if model else None
    workspace.compactors.own = notebook.names
    stopped = _will_stop(notebook)
    notices = await workspace.resume(
        session, find=tool_finder(notebook.names), model=chosen, trust=trust, take_over=take_over
    )
    groups = [f"the team {name}: {_listed(team.agents)}" for name, team in workspace.teams.items()]
    if workspace.agents or not groups:
        groups.insert(0, _listed(workspace.agents.values()))
    done = f"This notebook continues {workspace.session.name} with {'; '.join(groups)}."
    return Text("\n".join(filter(None, [done, stopped, *notices, notebook.controller.check_default()])))


def _will_stop(notebook: Notebook) -> str:
    """A sentence about the agents that run, and stop when the session is left or rewound; empty if none does."""
    running = [name for name, agent in named_agents(notebook.workspace).items() if agent.status != "idle"]
    return f"This stopped {', '.join(running)}, with what was written so far." if running else ""


async def _newest_message(workspace: Workspace) -> int:
    """The id of the newest message of the session, 0 without any."""
    found = await workspace.query_async(
        "SELECT coalesce(max(id), 0) AS newest FROM messages WHERE session_id = getvariable('session')"
    )
    return int(found["newest"][0])


def _listed(agents: Collection[Agent]) -> str:
    shown = [f"{agent.name} ({counted(len(agent.state.messages), 'message')})" for agent in islice(agents, _SHOWN)]
    more = len(agents) - len(shown)
    return ", ".join(shown) + (f" and {counted(more, 'other agent')}" if more else "") or "no agent"


async def _known_branches(notebook: Notebook) -> list[Branch]:
    workspace = notebook.workspace
    return await run_in_thread(workspace.session.branches) if workspace.session_id else []


def _table(branches: Iterable[Branch]) -> pd.DataFrame:
    rows = [
        {
            "branch": branch.id,
            "before": branch.before_id,
            "messages": branch.messages,
            "last": branch.last_text,
            "left_at": branch.left_at,
        }
        for branch in branches
    ]
    return table(rows, ["branch", "before", "messages", "last", "left_at"], empty="Nothing was undone in this session.")
