"""Serves a sidecar over standard input and output."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.parent_watch import end_with_client
from planck_nb.sidecars.author.server import SidecarServer


async def serve_stdio(live: LiveOffer) -> None:
    """Serve until standard input ends. What tools and their children print goes to standard error.

    Args:
        live: What the sidecar offers.
    """
    end_with_client()
    server = SidecarServer(live)
    async with stdio_server() as (incoming, outgoing):
        await server.mcp.run(incoming, outgoing, server.initialization_options())
