"""The names and defaults that both sides of a sidecar share: the author's and the kernel's.

A sidecar is an ordinary MCP server. What goes beyond MCP is in `_meta`, so that other MCP clients can ignore it.
"""

from __future__ import annotations

from typing import Final

ENTRY_POINT_GROUP: Final = "planck_nb.sidecars"
"""The group of entry points by which a sidecar's module is discovered."""

TOKEN_VARIABLE: Final = "PLANCK_NB_SIDECAR_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable that holds the bearer token of a sidecar served over HTTP."""

ROLE: Final = "dev.planck/role"
"""The key in the `_meta` of a tool for its role; a tool without it is a plain tool."""

ROLE_TOOL: Final = "tool"
"""The role of a tool that models call."""

ROLE_COMPACTOR: Final = "compactor"
"""The role of a tool that compacts the messages of an agent; models do not see it."""

ROLE_OBSERVER: Final = "observer"
"""The role of a tool that receives the events of a session; models do not see it."""

TIMEOUT: Final = "dev.planck/timeout_ms"
"""The key in the `_meta` of a tool for the time that a call may take by default, an integer in milliseconds."""

RUNS: Final = "dev.planck/runs"
"""The key in the `_meta` of a tool for how the sidecar runs it: one of the `RUNS_...` values."""

RUNS_ASYNC: Final = "async"
"""The tool runs on the sidecar's event loop and is cancelled there."""

RUNS_PROCESS: Final = "process"
"""The tool runs in a process of its own, which is killed if the call is cancelled."""

RUNS_THREAD: Final = "thread"
"""The tool runs in a thread of the sidecar; it may still be running after a call was cancelled."""

AGENT_ID: Final = "dev.planck/agent_id"
"""The key in the `_meta` of a call for the id of the agent that calls, a string."""

CALL_ID: Final = "dev.planck/call_id"
"""The key in the `_meta` of a call for the id of the call, a string."""

SESSION_ID: Final = "dev.planck/session_id"
"""The key in the `_meta` of a call for the id of the session, a string."""

COMPACTOR_PREFIX: Final = "planck_compact_"
"""The start of the name of a tool that stands for a compactor; the compactor's name follows."""

OBSERVER_PREFIX: Final = "planck_observe_"
"""The start of the name of a tool that stands for an observer; the observer's name follows."""

ACTION_SKIP: Final = "skip"
"""The `action` of a compactor that leaves the messages as they are."""

ACTION_COMPACT: Final = "compact"
"""The `action` of a compactor that replaces the messages with `summary`, except for those in `keep_ids`."""

DEFAULT_TIMEOUT_MS: Final = 300_000
"""The time that a call of a tool may take by default, in milliseconds."""

DEFAULT_COMPACTOR_TIMEOUT_MS: Final = 120_000
"""The time that a compactor may take by default, in milliseconds."""

MIN_TIMEOUT_MS: Final = 1
"""The shortest time that can be set, in milliseconds."""

MAX_TIMEOUT_MS: Final = 3_600_000
"""The longest time that can be set, in milliseconds."""

MAX_MESSAGE_BYTES: Final = 10 * 1024 * 1024
"""The largest message that either side accepts, in bytes."""


def clamp_timeout_ms(timeout_ms: float) -> int:
    """Return a timeout within the bounds that both sides accept.

    Args:
        timeout_ms: A time in milliseconds.

    Returns:
        The nearest whole number from `MIN_TIMEOUT_MS` to `MAX_TIMEOUT_MS`; the smallest one for "not a number".

    Example:
        >>> clamp_timeout_ms(0), clamp_timeout_ms(1500.0), clamp_timeout_ms(1e12)
        (1, 1500, 3600000)
    """
    if not timeout_ms >= MIN_TIMEOUT_MS:  # also false for "not a number"
        return MIN_TIMEOUT_MS
    return MAX_TIMEOUT_MS if timeout_ms > MAX_TIMEOUT_MS else round(timeout_ms)
