"""A sidecar's states, and the events about it."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

SidecarState: TypeAlias = Literal["idle", "building", "starting", "connected", "failed"]
"""A sidecar's states.

idle: not started; building: its environment is built; starting: also again after a loss; connected; failed.
"""

SidecarEventKind: TypeAlias = Literal[
    "building",
    "starting",
    "connected",
    "disconnected",
    "exited",
    "failed",
    "stopped",
    "tools_changed",
    "progress",
    "compactor_failed",
]


@dataclass(frozen=True, slots=True)
class SidecarStatus:
    """A sidecar's state.

    Args:
        name: Its name.
        state: "idle", "building", "starting", "connected" or "failed".
        reason: A sentence about the state's cause; may be empty.
        since: Time when it entered this state, in seconds since the epoch.
        restarts: Number of restarts after losses.
        transport: "stdio" or "http".
        tools: Number of tools.
        compactors: Names of its compactors.
        server: The server's own name and version.
        protocol: The MCP version in use; empty without a connection.
        process: Its process id, None for a server elsewhere.
    """

    name: str
    state: SidecarState = "idle"
    reason: str = ""
    since: float = 0.0
    restarts: int = 0
    transport: str = "stdio"
    tools: int = 0
    compactors: tuple[str, ...] = ()
    server: str = ""
    protocol: str = ""
    process: int | None = None


@dataclass(frozen=True, slots=True)
class SidecarEvent:
    """An event about a sidecar.

    Args:
        sidecar: Its name.
        kind: "building", "starting", "connected", "disconnected" (the connection was lost), "exited" (its process
            ended), "failed", "stopped", "tools_changed", "progress" (a line about the build) or "compactor_failed".
        text: One sentence about it; may be empty.
        time: Time of the event, in seconds since the epoch.
    """

    sidecar: str
    kind: SidecarEventKind
    text: str = ""
    time: float = field(default_factory=clock.time)
