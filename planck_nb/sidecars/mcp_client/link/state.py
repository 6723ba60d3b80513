"""`LinkState`: a sidecar's state, shared by the parts of a link."""

from __future__ import annotations

import asyncio
import time as clock
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from planck_nb.base.secrets import redact
from planck_nb.base.visible import visible
from planck_nb.sidecars.conventions import COMPACTOR_PREFIX, ROLE_COMPACTOR, ROLE_TOOL
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks
from planck_nb.sidecars.mcp_client.link.status import SidecarEvent, SidecarEventKind, SidecarState, SidecarStatus
from planck_nb.sidecars.mcp_client.offers.definitions import LeftOut, ToolDefinition
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines

if TYPE_CHECKING:
    from planck_nb.sidecars.mcp_client.link.connection import Connection


class OlderProtocolNeeded(Exception):
    """A call failed, because its server asks in an older protocol."""


class LinkState:
    """A sidecar's state, changed only on its link's event loop.

    Args:
        spec: The sidecar.
        callbacks: Called after changes.
    """

    def __init__(self, spec: SidecarSpec, callbacks: LinkCallbacks) -> None:
        self.spec = spec
        self._secrets = spec.secrets()
        self.callbacks = callbacks
        self.log = LogLines()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The link's event loop, None before its first start."""
        self.connection: Connection | None = None
        self.definitions: dict[str, ToolDefinition] = {}
        """The sidecar's offers by name; they stay during a restart."""
        self.left_out: tuple[LeftOut, ...] = ()
        """The tools which cannot be used; they stay as well."""
        self.status = SidecarStatus(spec.name, since=clock.time(), transport=spec.transport)
        self.needs_older_protocol = False
        """True for a server which asks as in the older protocol."""
        self.changed = asyncio.Event()
        """Set and replaced after every state change."""

    @property
    def name(self) -> str:
        """Return the sidecar's name."""
        return self.spec.name

    def enter(self, state: SidecarState, reason: str = "") -> None:
        """Change the state, and wake everything that waits for a change."""
        before, reason = self.status, redact(reason, self._secrets)
        self.status = replace(
            before,
            state=state,
            reason=reason,
            since=clock.time(),
            process=before.process if state == "connected" else None,
        )
        if self.connection is not None and state == "connected":
            self.describe(self.connection)
        event, self.changed = self.changed, asyncio.Event()
        event.set()

    def adopt(self, connection: Connection) -> None:
        """Use what a connection has listed."""
        self.definitions = dict(connection.tools)
        self.left_out = connection.left_out.get("tool", ())

    def describe(self, connection: Connection) -> None:
        """Put the offers and the server's identity into the status."""
        definitions = self.definitions.values()
        self.status = replace(
            self.status,
            tools=sum(item.role == ROLE_TOOL for item in definitions),
            compactors=tuple(
                item.name.removeprefix(COMPACTOR_PREFIX) for item in definitions if item.role == ROLE_COMPACTOR
            ),
            server=visible(connection.server[:100]),
            protocol=connection.protocol,
        )

    def fail(self, reason: str) -> None:
        """Enter the state "failed", with a sentence."""
        self.enter("failed", reason)
        self.emit("failed", reason)
        self.announce_tools()

    def emit(self, kind: SidecarEventKind, text: str = "") -> None:
        """Pass an event on."""
        if (handler := self.callbacks.on_event) is not None:
            self._call_back(lambda: handler(SidecarEvent(self.name, kind, redact(text, self._secrets))))

    def announce_tools(self) -> None:
        """Announce that the tools may have changed."""
        if self.callbacks.on_tools is not None:
            self._call_back(self.callbacks.on_tools)

    def show_progress(self, line: str) -> None:
        """Log a line about the build, and emit it as an event."""
        self.log.add(line)
        self.emit("progress", line)

    def note_process(self, process: int) -> None:
        """Put the sidecar's process id into the status."""
        self.status = replace(self.status, process=process)

    def not_running(self) -> str:
        """Return a sentence about why the sidecar cannot be called."""
        if self.status.state == "failed":
            return self.status.reason
        return f"The sidecar {self.name} is not running; start it with `%planck sidecar start {self.name}`."

    def _call_back(self, callback: Callable[[], None]) -> None:
        """Call a callback, whose failure must not end the supervision."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - as it says
            self.log.add(f"A callback failed: {type(error).__name__}: {error}")
