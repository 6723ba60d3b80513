"""A sidecar's observers: functions which receive a session's events.

They are served as tools which models do not see.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, overload

from planck_nb.agent.events import AgentEvent, decode_event
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.author.names import name_of
from planck_nb.sidecars.author.running import runs_of
from planck_nb.sidecars.author.sidecar_tools import SidecarTool, checked_timeout_ms
from planck_nb.sidecars.conventions import DEFAULT_TIMEOUT_MS, OBSERVER_PREFIX, ROLE_OBSERVER, RUNS_ASYNC

_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "events": {"type": "array", "items": {"type": "object"}, "description": "Events, as JSON objects."},
        "session_id": {"type": "string"},
    },
    "required": ["events"],
}

_PAIR = 2
"""An observer accepts events and the session id."""


@overload
def observer(function: Callable[..., Any], /) -> SidecarTool: ...


@overload
def observer(
    *, name: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS, process: bool | None = False
) -> Callable[[Callable[..., Any]], SidecarTool]: ...


def observer(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    process: bool | None = False,
) -> SidecarTool | Callable[[Callable[..., Any]], SidecarTool]:
    """Make an observer from a Python function.

    Use it as `@observer` or `@observer(name=…)`.

    Args:
        function: Called with a list of `planck_nb.events` in their order, and optionally with their session id. It may
            be async. Its result is ignored.
        name: The observer's name; by default the function's name.
        timeout_ms: Time limit for a call, in milliseconds.
        process: As for `tool`, but False by default: observers usually remember earlier events.

    Returns:
        The observer as a tool, or a decorator which makes it from a function.

    Raises:
        UsageError: If the name or `timeout_ms` is not valid.

    Example:
        >>> seen = []
        >>> @observer
        ... def remember(events, session_id):
        ...     seen.extend(events)
        >>> remember.name
        'planck_observe_remember'
    """

    def make(function: Callable[..., Any]) -> SidecarTool:
        called = name_of(function, name, "an observer")
        runs = runs_of(function, called, process=process)
        return SidecarTool(
            name=f"{OBSERVER_PREFIX}{called}",
            description=inspect.getdoc(function) or f"Observes sessions: {called}.",
            parameters=_PARAMETERS,
            execute_fn=_executed(function, is_async=runs == RUNS_ASYNC),
            timeout=None,
            role=ROLE_OBSERVER,
            runs=runs,
            timeout_ms=checked_timeout_ms(timeout_ms, called),
        )

    return make if function is None else make(function)


def _executed(function: Callable[..., Any], *, is_async: bool) -> Callable[[JsonObject], Any]:
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = inspect.signature(function).parameters.values()
    accepts_session = sum(item.kind in positional for item in parameters) >= _PAIR

    def call(args: JsonObject) -> Any:  # noqa: ANN401 - the function's own result
        items = args["events"]
        events = [event for item in items if (event := _decoded(item)) is not None] if isinstance(items, list) else []
        return function(events, str(args.get("session_id", ""))) if accepts_session else function(events)

    if is_async:

        async def execute_async(args: JsonObject) -> str:
            await call(args)
            return "ok"

        return execute_async

    def execute(args: JsonObject) -> str:
        call(args)
        return "ok"

    return execute


def _decoded(item: Any) -> AgentEvent | None:  # noqa: ANN401 - JSON data from the kernel
    try:
        return decode_event(item)
    except ValueError:  # from a version with other events
        kind = item.get("type") if isinstance(item, dict) else item
        print(f"An event of the unknown type {kind!r} was left out.", file=sys.stderr)  # noqa: T201 - goes to the logs
        return None
