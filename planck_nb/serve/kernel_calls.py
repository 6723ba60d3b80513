"""Calls over a kernel's socket: list, prompt and watch its agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import TRANSIENT, AgentEvent, encode_event
from planck_nb.agent.run_result import RunResult
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.event_log import Subscription
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.serve.bounds import MAX_ANSWER_LENGTH, bounded_data, bounded_text
from planck_nb.teams import Team
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import find_agent, full_name, named_agents

MAX_PROMPT_LENGTH = 200_000
"""Longest prompt in characters."""

MAX_WATCH_SECONDS = 120.0
"""Longest time in which a call watches events."""

DEFAULT_WATCH_SECONDS = 10
"""Length, in seconds, unless the caller sets one."""

MAX_EVENTS = 500
"""Largest number of events from a call."""

DEFAULT_EVENTS = 100
"""Events in a result unless the caller sets a number."""

Progress = Callable[[str], None]

_MAX_PROGRESS_LENGTH = 200


class KernelCalls:
    """Calls on a workspace, by name.

    Args:
        workspace: The workspace, whose policy decides what its agents may do.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._methods: dict[str, Callable[[JsonObject, Progress], Awaitable[JsonObject]]] = {
            "list_agents": self._list_agents,
            "prompt": self._prompt,
            "watch": self._watch,
        }

    async def __call__(self, method: object, params: object, progress: Progress) -> JsonObject:
        """Make a call.

        Args:
            method: Its name.
            params: Its parameters.
            progress: Called with sentences about its progress.

        Raises:
            PlanckError: The call is unknown, its parameters are wrong, or it failed.
        """
        call = self._methods.get(method) if isinstance(method, str) else None
        if call is None or not isinstance(params, dict):
            raise AgentError("The kernel has no such call; use the same version of planck_nb on both sides.")
        return await call(params, progress)

    async def _list_agents(self, _params: JsonObject, _progress: Progress) -> JsonObject:
        workspace = self._workspace
        agents = [_described(name, agent) for name, agent in named_agents(workspace).items()]
        teams = [
            {
                "name": name,
                "title": bounded_text(team.name or ""),
                "description": bounded_text(team.description or ""),
                "orchestrator": full_name(workspace, team.orchestrator),
                "members": [full_name(workspace, agent) for agent in team.agents],
            }
            for name, team in workspace.teams.items()
        ]
        return {"session_id": workspace.session_id, "agents": agents, "teams": teams}

    async def _prompt(self, params: JsonObject, progress: Progress) -> JsonObject:
        name, text = params.get("name"), params.get("text")
        if not isinstance(name, str) or not isinstance(text, str):
            raise AgentError("A prompt needs a name and a text.")
        if len(text) > MAX_PROMPT_LENGTH:
            raise UsageError(f"The prompt has {len(text):,} characters; it may have {MAX_PROMPT_LENGTH:,}.")
        target = self._target(name)
        run = target.prompt(text)
        following = spawn(self._follow(run, progress), name="planck-kernel-progress")
        try:
            result = await run  # cancelling it aborts the run
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await following
        finally:
            await cancel_and_wait(following)
        return _answer(name, result)

    async def _follow(self, events: AsyncIterable[AgentEvent], progress: Progress) -> None:
        async for event in events:
            if sentence := progress_text(event, self._name_of(event.agent_id)):
                progress(sentence)

    async def _watch(self, params: JsonObject, progress: Progress) -> JsonObject:
        workspace = self._workspace
        name, since, deltas = params.get("name"), params.get("since"), bool(params.get("deltas"))
        seconds = min(max(_number(params, "seconds", 0), 0.0), MAX_WATCH_SECONDS)
        max_events = int(min(max(_number(params, "max_events", MAX_EVENTS), 1), MAX_EVENTS))
        target = None if not isinstance(name, str) or not name else self._target(name)
        events_so_far: list[JsonObject] = []
        deadline = time.monotonic() + seconds
        size = 0
        end = workspace.subscribe().position
        # A position beyond the end is from another session.
        start = since if isinstance(since, int) and 0 <= since <= end else None
        async with workspace.subscribe(since=start) as events:
            while len(events_so_far) < max_events and size < MAX_ANSWER_LENGTH:
                event = await _next(events, None if events.position < end else deadline - time.monotonic())
                if event is None:
                    break
                if not _is_of(event, target) or (event.type in TRANSIENT and not deltas):
                    continue
                name_of = self._name_of(event.agent_id)
                data = bounded_data(encode_event(event))
                events_so_far.append({"agent": name_of, **data})
                size += len(str(data))
                if sentence := progress_text(event, name_of):
                    progress(sentence)
            return {"events": events_so_far, "next": events.position, "missed": events.missed}

    def _target(self, name: str) -> Agent | Team:
        """Find an agent or a team, or raise AgentError."""
        team = self._workspace.teams.get(name)
        if team is not None and name not in self._workspace.agents:
            return team
        return find_agent(self._workspace, name)

    def _name_of(self, agent_id: str) -> str:
        for name, agent in named_agents(self._workspace).items():
            if agent.id == agent_id:
                return name
        return agent_id


def _number(params: JsonObject, name: str, default: float) -> float:
    """Return a numeric parameter. Raises AgentError for other values."""
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise AgentError(f"{name} must be a number.")
    return value


async def _next(events: Subscription[AgentEvent], seconds: float | None) -> AgentEvent | None:
    """Return the next event, None if it does not come within `seconds`.

    A time limit of None waits as long as it takes.
    """
    try:
        async with asyncio.timeout(None if seconds is None else max(seconds, 0)):
            return await anext(events)
    except (TimeoutError, StopAsyncIteration):
        return None


def _is_of(event: AgentEvent, target: Agent | Team | None) -> bool:
    if target is None:
        return True
    agents = target.agents if isinstance(target, Team) and target.is_running else (target,)
    return any(isinstance(agent, Agent) and agent.id == event.agent_id for agent in agents)


def _described(name: str, agent: Agent) -> JsonObject:
    info = agent.info()
    return {
        "name": name,
        "id": info.id,
        "type": bounded_text(info.type),
        "description": bounded_text(info.description),
        "model": info.model,
        "status": info.status,
        "role": info.role,
        "turn": info.turn,
        "cost_usd": info.cost,
    }


def _answer(name: str, result: RunResult[Any]) -> JsonObject:
    usage = result.usage
    return {
        "agent": name,
        "text": bounded_text(result.text, MAX_ANSWER_LENGTH),
        "stop_reason": result.stop_reason,
        "aborted": result.aborted,
        "limit": bounded_text(result.limit),
        "warning": bounded_text(result.warning),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": result.cost,
    }


def progress_text(event: AgentEvent, name: str) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each event
    """Describe an event in a sentence; empty for a trivial event."""
    match event.type:
        case "queued":
            return f"{name} has a prompt waiting"
        case "turn_start":
            return f"{name} started its turn"
        case "tool_start":
            return f"{name} calls {_short(event.name)}"
        case "tool_end":
            return f"{_short(event.name)} {'failed' if event.error else 'ended'}"
        case "approval_request":
            return f"{_short(event.name)} of {name} waits for approval in the notebook"
        case "approval_decision":
            return f"{_short(event.name)} of {name} was {'allowed' if event.allowed else 'denied'}"
        case "message":
            text = event.message.text if event.message.type == "assistant" else ""
            return f"{name}: {_short(text)}" if text else ""
        case "delegated":
            return f"{name} gave a task to {_short(event.target_name)}"
        case "worker_spawned":
            return f"{name} started the worker {_short(event.name)}"
        case "compacting":
            return f"{name} shortens its conversation"
        case "retry":
            return f"{name} tries its request again"
        case "turn_end":
            return f"{name} ended its turn"
        case "aborted":
            return f"{name} was stopped"
        case "error":
            return f"{name} failed: {_short(event.reason)}"
        case _:
            return ""


def _short(text: str) -> str:
    return one_line(bounded_text(text), _MAX_PROGRESS_LENGTH)
