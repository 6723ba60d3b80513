"""Names and defaults for both a sidecar's author and the kernel.

A sidecar is an ordinary MCP server. Additions to MCP are in `_meta`, so other MCP clients can ignore them.
"""

from __future__ import annotations

from typing import Final

ENTRY_POINT_GROUP: Final = "planck_nb.sidecars"
"""Entry point group by which a sidecar's module is discovered."""

TOKEN_VARIABLE: Final = "PLANCK_NB_SIDECAR_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the bearer token for a sidecar over HTTP."""

FIXED_SOURCES: Final = "PLANCK_NB_FIXED_SOURCES"
"""Environment variable with a time in nanoseconds, ":" and a folder.

Agents' commands can write there, except in its `.planck`. So a sidecar loads no sources from this folder which were
changed or written after that time, when they were compared with trusted ones.
"""

ROLE: Final = "dev.planck/role"
"""Key in a tool's `_meta` for its role; plain tools lack it."""

ROLE_TOOL: Final = "tool"
"""Role for a tool which models call."""

ROLE_COMPACTOR: Final = "compactor"
"""Role for a tool which compacts an agent's messages; hidden from models."""

ROLE_OBSERVER: Final = "observer"
"""Role for a tool which receives a session's events; hidden from models."""

TIMEOUT: Final = "dev.planck/timeout_ms"
"""Key in a tool's `_meta` for a call's default time, in milliseconds."""

RUNS: Final = "dev.planck/runs"
"""Key in a tool's `_meta` for one of the `RUNS_...` values."""

RUNS_ASYNC: Final = "async"
"""The tool runs on the sidecar's event loop and is cancelled there."""

RUNS_PROCESS: Final = "process"
"""The tool runs in its own process.

The process is killed after a cancellation.
"""

RUNS_THREAD: Final = "thread"
"""The tool runs in a sidecar's thread.

It may still be running after a cancellation.
"""

AGENT_ID: Final = "dev.planck/agent_id"
"""Key in a call's `_meta` for the calling agent's id, a string."""

CALL_ID: Final = "dev.planck/call_id"
"""Key in a call's `_meta` for the call's id, a string."""

SESSION_ID: Final = "dev.planck/session_id"
"""Key in a call's `_meta` for the session id, a string."""

COMPACTOR_PREFIX: Final = "planck_compact_"
"""First part of a compactor's tool name, before the compactor's name."""

OBSERVER_PREFIX: Final = "planck_observe_"
"""First part of an observer's tool name, before the observer's name."""

ACTION_SKIP: Final = "skip"
"""The `action` which leaves the messages as they are."""

ACTION_COMPACT: Final = "compact"
"""The `action` which replaces the messages with `summary`.

Those in `keep_ids` stay.
"""

DEFAULT_TIMEOUT_MS: Final = 300_000
"""Default time for a tool call, in milliseconds."""

DEFAULT_COMPACTOR_TIMEOUT_MS: Final = 120_000
"""Default time for a compactor, in milliseconds."""

MIN_TIMEOUT_MS: Final = 1
"""Shortest possible time, in milliseconds."""

MAX_TIMEOUT_MS: Final = 3_600_000
"""Longest possible time, in milliseconds."""

MAX_MESSAGE_BYTES: Final = 10 * 1024 * 1024
"""Largest message for either side, in bytes."""


def clamp_timeout_ms(timeout_ms: float) -> int:
    """Return a timeout within the bounds for both sides.

    Args:
        timeout_ms: A time in milliseconds.

    Returns:
        The nearest whole number from `MIN_TIMEOUT_MS` to `MAX_TIMEOUT_MS`; the smallest for "not a number".

    Example:
        >>> clamp_timeout_ms(0), clamp_timeout_ms(1500.0), clamp_timeout_ms(1e12)
        (1, 1500, 3600000)
    """
    if not timeout_ms >= MIN_TIMEOUT_MS:  # also false for "not a number"
        return MIN_TIMEOUT_MS
    return MAX_TIMEOUT_MS if timeout_ms > MAX_TIMEOUT_MS else round(timeout_ms)
