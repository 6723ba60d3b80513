"""Requests to a sidecar, which wait for its start.

They are never cancelled by its loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from planck_nb.base.errors import SidecarError, SidecarLostError, SidecarTimeoutError, ToolError, did_you_mean
from planck_nb.base.event_loops import await_in_loop, is_running_here
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.conventions import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS, clamp_timeout_ms
from planck_nb.sidecars.mcp_client.link.call_origin import CallOrigin, current_origin
from planck_nb.sidecars.mcp_client.link.call_progress import CallProgress
from planck_nb.sidecars.mcp_client.link.state import LinkState, OlderProtocolNeeded

if TYPE_CHECKING:
    from planck_nb.sidecars.mcp_client.link.connection import Connection

T = TypeVar("T")

_OWN_LIMIT_GRACE = 2.0
"""Additional seconds for a tool to report its own timeout."""

_READ_SECONDS = 60.0


class LinkCalls:
    """Makes requests to a sidecar, from any event loop.

    Args:
        state: Its link's state.
    """

    def __init__(self, state: LinkState) -> None:
        self._state = state

    async def read(self, read: Callable[[Connection], Coroutine[Any, Any, T]], what: str) -> T:
        """Make a request which may be repeated.

        Args:
            read: Makes it.
            what: The requested object, for errors.
        """
        from planck_nb.sidecars.mcp_client.link.responses import answer_to  # noqa: PLC0415 - loads mcp

        async def make(connection: Connection, seconds: float) -> T:
            request = asyncio.create_task(read(connection))
            return await answer_to(connection, request, seconds, what)

        return await self._request(make, _READ_SECONDS, what, repeat=True)

    async def call(
        self,
        tool: str,
        args: JsonObject,
        *,
        meta: JsonObject,
        origin: CallOrigin,
        timeout_ms: int | None,
        progress: Callable[[str], None] | None,
    ) -> Any:  # noqa: ANN401 - an mcp_types.CallToolResult, which is loaded with the first sidecar
        """Call a tool.

        Args:
            tool: Its name on the sidecar.
            args: Its arguments.
            meta: Facts about the call, for the sidecar.
            origin: The caller.
            timeout_ms: The time limit in milliseconds, None for the limit in the arguments or the tool.
            progress: Called with texts while the tool runs.
        """

        async def make(connection: Connection, seconds: float) -> Any:  # noqa: ANN401 - as above
            from planck_nb.sidecars.mcp_client.link.responses import (  # noqa: PLC0415 - loads mcp
                answer_to,
                require_back_channel,
            )

            definition = self._state.definitions.get(tool)
            if definition is None:
                hint = did_you_mean(tool, self._state.definitions)
                raise SidecarError(f"The sidecar {self._state.name} no longer offers {tool}. {hint}".rstrip())
            if connection.tools.get(tool) != definition:  # and this is not accepted yet
                raise SidecarError(
                    f"The sidecar {self._state.name} has changed {tool}; look at its tools before you use it."
                )
            arguments = args if definition.declares_timeout else {k: v for k, v in args.items() if k != "timeout_ms"}
            noted_progress = CallProgress(progress)
            token = current_origin.set(origin)
            try:
                request = asyncio.create_task(
                    connection.client.call_tool(
                        tool,
                        arguments,
                        progress_callback=noted_progress,
                        meta=meta or None,  # type: ignore[arg-type]
                    ),
                    name=f"planck-sidecar-{self._state.name}-{tool}",
                )
            finally:
                current_origin.reset(token)
            connection.origins[request] = origin
            try:
                result = await answer_to(connection, request, seconds, tool, noted_progress)
            finally:
                del connection.origins[request]
            require_back_channel(connection, result)
            return result

        definition = self._state.definitions.get(tool)
        limit = timeout_ms if timeout_ms is not None else _limit(args)
        limit = (definition.timeout_ms if definition else MAX_TIMEOUT_MS) if limit is None else limit
        seconds = clamp_timeout_ms(limit) / 1_000
        if definition is not None and definition.declares_timeout:
            seconds += _OWN_LIMIT_GRACE
        repeat = definition is not None and definition.may_be_repeated
        return await self._request(make, seconds, tool, repeat=repeat)

    async def _request(
        self, make: Callable[[Connection, float], Awaitable[T]], seconds: float, what: str, *, repeat: bool
    ) -> T:
        """Make a request on the link's loop.

        If it was lost and may be repeated, it is made once more, and also after a change of the protocol: there it has
        failed where it wanted to ask.
        """
        loop = self._state.loop
        if loop is not None and not is_running_here(loop) and loop.is_running():
            return await await_in_loop(loop, lambda: self._request(make, seconds, what, repeat=repeat))
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            connection = await self._connected(deadline, what)
            try:
                return await make(connection, max(deadline - connection.lost.get_loop().time(), 0.001))
            except OlderProtocolNeeded:
                await self._change_protocol(connection, deadline)
            except SidecarLostError:
                if not repeat:
                    raise
                repeat = False

    async def _change_protocol(self, connection: Connection, deadline: float) -> None:
        """Have the sidecar connected again with an older protocol.

        Its other calls may end before.
        """
        self._state.needs_older_protocol = True
        if calls := list(connection.origins):
            await asyncio.wait(calls, timeout=max(deadline - connection.lost.get_loop().time(), 0))
        connection.lose("it is connected again with an older protocol")

    async def _connected(self, deadline: float, what: str) -> Connection:
        """Return the connection, and wait for the sidecar's start."""
        state = self._state
        while True:
            connection = state.connection
            if connection is not None and not connection.lost.done():
                return connection
            if state.status.state not in ("starting", "building", "connected"):
                raise SidecarError(state.not_running())
            try:
                async with asyncio.timeout_at(deadline):
                    await state.changed.wait()
            except TimeoutError:
                raise SidecarTimeoutError(
                    f"The sidecar {state.name} is being started again ({state.status.reason or 'not ready yet'}) and "
                    f"was not ready in time for {what}; try again later."
                ) from None


def _limit(args: JsonObject) -> float | None:
    """Return the time limit in the arguments, or raise `ToolError`."""
    limit = args.get("timeout_ms")
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        raise ToolError(
            f"timeout_ms must be a number of milliseconds from {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS:,}, not {limit!r}."
        )
    return limit
