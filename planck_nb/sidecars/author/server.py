"""A sidecar as an MCP server, whatever the transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.mcp_offer import (
    completions,
    mcp_prompts,
    mcp_resources,
    mcp_templates,
    mcp_tool,
    prompt_result,
    read_resource,
)
from planck_nb.sidecars.author.offer import Offer
from planck_nb.sidecars.author.resource_changes import add_listener
from planck_nb.sidecars.author.served_calls import Context, ToolCalls

_RESOURCE_NOT_FOUND = -32002

T = TypeVar("T")


class SidecarServer:
    """A server for a sidecar over MCP.

    Args:
        live: The sidecar's offers.
    """

    def __init__(self, live: LiveOffer) -> None:
        self._live = live
        self._calls = ToolCalls(live)
        self._bus = InMemorySubscriptionBus()
        self._subscriptions = Subscriptions(self._bus)
        offer = live.offer
        self.mcp: Server[Any] = Server(
            offer.name,
            version=offer.version,
            instructions=offer.instructions or None,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    def initialization_options(self) -> InitializationOptions:
        """Return the server's own description for the handshake."""
        return self.mcp.create_initialization_options(NotificationOptions(tools_changed=True))

    @asynccontextmanager
    async def _lifespan(self, _server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            with self._subscriptions.listening():
                yield {}
        finally:
            await self._calls.aclose()

    async def _offer(self) -> Offer:
        """Return the sidecar's current offers, or the last working ones.

        Its code may currently be broken.
        """
        with suppress(PlanckError):  # calls report it
            return await self._live.current()
        return self._live.offer

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        offer = await self._offer()
        with suppress(PlanckError):
            offer = self._live.renewed()
        return types.ListToolsResult(tools=[mcp_tool(tool) for tool in offer.tools.values()])

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        async def changed() -> None:
            await self._bus.publish(ToolsListChanged())
            if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                await context.session.send_tool_list_changed()

        return await self._calls(context, params, changed)

    async def _list_resources(self, _context: Context, _params: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=mcp_resources(await self._offer()))

    async def _list_templates(self, _context: Context, _params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=mcp_templates(await self._offer()))

    async def _read_resource(
        self, _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        result = await _reported(read_resource(await self._offer(), str(params.uri)))
        if result is None:
            raise MCPError(_RESOURCE_NOT_FOUND, f"There is no resource {params.uri}.", {"uri": str(params.uri)})
        return result

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._subscriptions.add(str(params.uri), context.session)
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscriptions.remove(str(params.uri), context.session)
        return types.EmptyResult()

    async def _complete(self, _context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values: list[str] = []
        if isinstance(params.ref, types.PromptReference):
            prompt = ((await self._offer()).prompts or {}).get(params.ref.name)
            values = completions(prompt, params.argument.name, params.argument.value)
        return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))

    async def _list_prompts(self, _context: Context, _params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=mcp_prompts(await self._offer()))

    async def _get_prompt(self, _context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = ((await self._offer()).prompts or {}).get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name}.")
        return await _reported(prompt_result(prompt, dict(params.arguments or {})))


async def _reported(awaitable: Awaitable[T]) -> T:
    """Await, and raise errors in MCP's form."""
    try:
        return await awaitable
    except PlanckError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error


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
