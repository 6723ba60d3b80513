"""Creates the agents of a stored session again, with the tools that are still found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import append_message
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.ai.messages import UserMessage
from planck_nb.ai.model_lookup.stored_options import left_out_of
from planck_nb.ai.request import Options
from planck_nb.base.errors import AgentError
from planck_nb.base.visible import visible
from planck_nb.teams.granted_skills import GrantedSkills
from planck_nb.teams.roles import INTER_AGENT_TOOLS
from planck_nb.teams.start_options import MemberPromptParts, SkillSource
from planck_nb.workspace.agent_factory import AgentFactory
from planck_nb.workspace.stored_agents import FoundAgent, name_of
from planck_nb.workspace.teams import WorkspaceTeams
from planck_nb.workspace.toolbox import Toolbox

ToolResolver: TypeAlias = Callable[[str], Tool | None]
"""Finds a tool of the program or the notebook by name; returns None if there is none."""

_AT_ONCE = 50
"""Agents between two moments for other tasks.

Creating one takes about 0.4 ms.
"""

INTERRUPTED = (
    "Session resumed after interruption. Your last turn was cut off before it ended, and calls that had no result by "
    "then have none. Look at what is done before you go on."
)
"""The message that an agent gets once if the session is resumed after its last turn was interrupted."""


async def restore_agents(
    found: Iterable[FoundAgent],
    factory: AgentFactory,
    toolbox: Toolbox,
    find: ToolResolver | None,
    teams: WorkspaceTeams,
) -> list[str]:
    """Create agents of the session again.

    Other tasks run now and then, so the names must be reserved.

    Args:
        found: What was found of them.
        factory: Creates them.
        toolbox: The tools of the workspace.
        find: Finds a tool by name, before the workspace's own tools are searched.
        teams: Makes the inter-agent tools of members of teams.

    Returns:
        A sentence about each part that could not be restored.
    """
    problems: list[str] = []
    unfinished: list[Agent] = []
    found = list(found)
    known = toolbox.tools() if found else {}  # which reads files, so once for all agents
    for number, each in enumerate(found, 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        name = name_of(each.record)
        tools, missing = _former_tools(each, find, known, toolbox)
        if each.record.identity.team_id is not None:
            tools, missing = _with_team_tools(each, tools, missing, known, teams)
            limited = {tool.name: tool for tool in _skills(each, toolbox).tools()}
            tools = [limited.get(tool.name, tool) for tool in tools]
        options, lost = _options(each)
        try:
            agent = factory.restore(
                each.record,
                model=each.model,
                tools=tools,
                options=options,
                available_models=each.available_models,
                on_compact=each.compactor,
                prompt_parts=_prompt_parts(each, toolbox, teams),
            )
        except AgentError:
            problems.append(f"A second agent named {name} was left out.")
            continue
        if missing:
            problems.append(f"{name} lacks {', '.join(missing)}; pass them again with `--tools`.")
        if lost:
            problems.append(
                f"{name} continues without {visible(', '.join(lost))}, as request fields with secrets are never "
                f"stored; set the options of {name} again in Python, with `extra`."
            )
        problems += each.problems
        if each.record.unfinished:
            unfinished.append(agent)
    for agent in unfinished:
        await append_message(agent, UserMessage(INTERRUPTED))
    return problems


def _with_team_tools(
    found: FoundAgent, tools: list[Tool], missing: list[str], known: Mapping[str, Tool], teams: WorkspaceTeams
) -> tuple[list[Tool], list[str]]:
    """The tools of a member of a team with its inter-agent tools, and what is still missing.

    An orchestrator may grant those tools of its grants that are found again.
    """
    record = found.record
    own = {tool.name: tool for tool in tools} | dict(found.live.tools)
    grantable = [tool for name in record.grants.tools if (tool := known.get(name) or own.get(name)) is not None]
    made = teams.tools_for(record.identity.role, grantable, record.grants.skills, found.available_models)
    team_tools = [made[name] for name in record.tools if name in made]
    return [*tools, *team_tools], [name for name in missing if name not in made]


def _prompt_parts(found: FoundAgent, toolbox: Toolbox, teams: WorkspaceTeams) -> Callable[[], SystemPromptParts] | None:
    """What surrounds the system prompt of an agent that lists certain skills only."""
    names = found.record.skills
    return None if names is None else MemberPromptParts(_skills(found, toolbox), names, teams.prompt_parts)


def _skills(found: FoundAgent, toolbox: Toolbox) -> SkillSource:
    """The skills that an agent can load: all, or for a spawned worker only those that it was given."""
    record = found.record
    if record.identity.parent_id is None or not record.skills:
        return toolbox.skill_pool
    return GrantedSkills(toolbox.skill_pool, record.skills)


def _options(found: FoundAgent) -> tuple[Options, list[str]]:
    """The options that the agent had, and the names of the request fields that neither session nor process has."""
    stored = found.record.options
    options = Options.from_named(stored)
    names = left_out_of(stored)
    kept = {name: found.live.extra[name] for name in names if name in found.live.extra}
    if kept:
        options = replace(options, extra={**options.extra, **kept})
    return options, [name for name in names if name not in kept]


def _former_tools(
    found: FoundAgent, find: ToolResolver | None, known: Mapping[str, Tool], toolbox: Toolbox
) -> tuple[list[Tool], list[str]]:
    """The tools that the agent had, and the names of those that were not found.

    A function that this process still has is used as it is; a tool of the workspace is that of the current session.
    """
    if not found.record.authentic:  # its tools are those of the workspace
        return [known[name] for name in found.record.tools if name in known], []
    names = [
        name for name in found.record.tools if found.record.identity.team_id is None or name not in INTER_AGENT_TOOLS
    ]
    given = {name: _own_tool(found, name, known) or (find(name) if find else None) for name in names}
    given = {name: tool or known.get(name) or toolbox.find_other(name) for name, tool in given.items()}
    return [tool for tool in given.values() if tool], [name for name, tool in given.items() if not tool]


def _own_tool(found: FoundAgent, name: str, known: Mapping[str, Tool]) -> Tool | None:
    """The agent's own tool in this process; None if there is none, or it is one of the workspace."""
    tool = found.live.tools.get(name)
    return tool if tool is not None and (tool.function is not None or name not in known) else None
