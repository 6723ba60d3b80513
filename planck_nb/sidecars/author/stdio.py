"""A sidecar over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper

from mcp.server.stdio import stdio_server

from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.parent_watch import end_with_client
from planck_nb.sidecars.author.server import SidecarServer


async def serve_stdio(live: LiveOffer) -> None:
    """Serve until standard input ends.

    Tools' and their children's prints go to standard error.

    Args:
        live: The sidecar's offers.
    """
    end_with_client()
    server = SidecarServer(live)
    async with stdio_server() as (incoming, outgoing):
        with _printing_to_stderr():
            await server.mcp.run(incoming, outgoing, server.initialization_options())


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Print to standard error, and leave the stream's buffer empty.

    Otherwise the buffer would reach the client when the server ends.

    Modules may hold the stream itself, for instance in a log handler; while the server runs, its file descriptor leads
    to standard error, too.
    """
    stream = sys.stdout
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(line_buffering=True)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        with suppress(OSError, ValueError):
            stream.flush()
