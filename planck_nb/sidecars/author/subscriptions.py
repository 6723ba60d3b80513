"""Clients with subscriptions to resources."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated

from planck_nb.base.async_tasks import spawn
from planck_nb.sidecars.author.resource_changes import add_listener


class Subscriptions:
    """A sender for changed resources, to subscribed clients.

    Args:
        bus: Sends them to clients with the newest protocol.
    """

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._bus = bus
        self._sessions: dict[str, dict[int, ServerSession]] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Send changes while the context is open."""
        loop = asyncio.get_running_loop()

        def changed(uri: str) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: spawn(self._send(uri), name="planck-resource-changed"))

        stop = add_listener(changed)
        try:
            yield
        finally:
            stop()

    def add(self, uri: str, session: ServerSession) -> None:
        """Subscribe a client to a resource."""
        self._sessions.setdefault(uri, {})[_connection(session)] = session

    def remove(self, uri: str, session: ServerSession) -> None:
        """End a client's subscription."""
        self._sessions.get(uri, {}).pop(_connection(session), None)

    async def _send(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri=uri))
        for connection, session in list(self._sessions.get(uri, {}).items()):
            try:
                await session.send_resource_updated(uri)
            except Exception:  # noqa: BLE001 - the client has gone
                self._sessions[uri].pop(connection, None)


def _connection(session: ServerSession) -> int:
    """Return the client's identity.

    The session itself is made for each request.
    """
    return id(session._connection)  # noqa: SLF001 - the SDK lacks a public name for it; the session keeps it alive
