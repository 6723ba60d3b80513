"""The team that a prompt goes to: the one that is running, or one that is started for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.namespace import tool_finder
from planck_nb.teams import Team, TeamTemplate
from planck_nb.workspace import Workspace

_OF_AGENTS = ("compactor", "max-tokens", "system", "temperature", "thinking")
"""Options that the template of a team has for each of its members."""


def require_team_options(options: Mapping[str, Any]) -> None:
    """Check the options of a prompt to a team. Raises `UsageError` for one that is for single agents."""
    if "new" in options:
        raise UsageError("--new is for agents outside teams; stop the team and start it again.")
    for name in _OF_AGENTS:
        if name in options:
            raise UsageError(f"--{name} is for single agents; a team's template sets it for each member.")


def server_of(base_url: str | None, key_var: str | None, model: str | None, needs: str) -> dict[str, str | None]:
    """Return `SERVER_OPTIONS` as arguments for `Workspace.find_model`.

    Args:
        base_url: From `--base-url`.
        key_var: From `--key-var`.
        model: Their model.
        needs: The name for a model in an error, as in "--model".

    Raises:
        UsageError: They are there without a model.
    """
    if not model and (base_url or key_var):
        name, meaning = ("--base-url", "the address") if base_url else ("--key-var", "for the key")
        raise UsageError(f"{name} needs {needs}: it is {meaning} of that model's server.")
    return {"base_url": base_url, "key_variable": key_var}


async def model_of(workspace: Workspace, options: Mapping[str, Any]) -> Model | None:
    """Find the model that the options name, None if they name none.

    Raises:
        UsageError: There is a server's address or key without a model.
        PlanckError: There is no such model, or its settings are not trusted.
    """
    model = options.get("model")
    server = server_of(options.get("base-url"), options.get("key-var"), model, "--model")
    return await workspace.find_model(model, **server) if model else None


async def team_to_prompt(
    workspace: Workspace, name: str, options: Mapping[str, Any], namespace: Mapping[str, object]
) -> tuple[Team, str]:
    """Find the team to prompt, and start it if it is not running.

    Args:
        workspace: The workspace.
        name: The name of a running team, or the alias or path of a template.
        options: The options of the prompt; a model in them is that of all members from now on.
        namespace: The variables of the notebook, whose functions members can name as tools.

    Returns:
        The team, and what to say about its start or its new members, which is empty if it was running as it is.

    Raises:
        PlanckError: There is no such team, or it cannot be started.
    """
    model = await model_of(workspace, options)
    team = workspace.teams.get(name)
    if team is None:
        template = workspace.team_template(name)
        team = _running(workspace, template)
        if team is None:
            team = await workspace.start_team(template, model=model, find=tool_finder(namespace))
            return team, started_text(workspace, team)
    added = await workspace.update_team(name_of_team(workspace, team))
    if model is not None:
        for agent in team.agents:
            agent.model = model
    return team, added_text(workspace, team, [agent.name for agent in added])


def name_of_team(workspace: Workspace, team: Team) -> str:
    """Return the name of a running team."""
    return next((name for name, other in workspace.teams.items() if other is team), "")


def started_text(workspace: Workspace, team: Team) -> str:
    """Return what to say about a team that was started: its members, and what is not as its template has it."""
    leader, *workers = (agent.name for agent in team.agents)
    members = ", ".join([f"{leader} (orchestrator)", *workers])
    return "\n".join([f"The team {name_of_team(workspace, team)} is running: {members}.", *map(str, team.report)])


def added_text(workspace: Workspace, team: Team, names: Sequence[str]) -> str:
    """Return what to say about members that were added from a changed template; empty if there are none."""
    if not names:
        return ""
    return f"The team {name_of_team(workspace, team)} has new members from its template: {', '.join(names)}."


def _running(workspace: Workspace, template: TeamTemplate) -> Team | None:
    """The running team that was started from this template under its own name, perhaps in an earlier process."""
    team = workspace.teams.get(template.alias)
    return team if team is not None and team.alias == template.alias and team.dir in {None, template.dir} else None
