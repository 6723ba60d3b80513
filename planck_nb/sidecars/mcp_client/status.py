"""The states of a sidecar, and the events about it."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

SidecarState: TypeAlias = Literal["idle", "building", "starting", "connected", "failed"]
"""idle: not started; building: its environment is built; starting: also again after it was lost; connected; failed."""

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
    """The state of a sidecar.

    Args:
        name: Its name.
        state: "idle", "building", "starting", "connected" or "failed".
        reason: One sentence on why it is in this state; empty if there is nothing to say.
        since: When it entered this state, in seconds since the epoch.
        restarts: How often it was restarted because it was lost.
        transport: "stdio" or "http".
        tools: How many tools it offers.
        compactors: The names of its compactors.
        server: The name and version that the server gives itself.
        protocol: The version of MCP that is spoken; empty if it is not connected.
        process: The id of its process, None if there is none.
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
    """Something that happened to a sidecar.

    Args:
        sidecar: Its name.
        kind: "building", "starting", "connected", "disconnected" (the connection was lost), "exited" (its process
            ended), "failed", "stopped", "tools_changed", "progress" (a line about the build) or "compactor_failed".
        text: One sentence about it; may be empty.
        time: When it happened, in seconds since the epoch.
    """

    sidecar: str
    kind: SidecarEventKind
    text: str = ""
    time: float = field(default_factory=clock.time)
