"""Servers on the loopback interface: an ASGI application in this process, and a proxy that adds a token."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any


@asynccontextmanager
async def app_server(app: Any, listener: socket.socket | None = None) -> AsyncIterator[str]:
    """Serve an application on the loop of the test, and give its address without a slash at the end."""
    import uvicorn

    listener = listener or socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, interface="asgi3", log_level="error", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


@asynccontextmanager
async def token_proxy(target: int, token: str) -> AsyncIterator[int]:
    """Listen at a port, and pass each request on to the port `target` with a bearer token; one a connection."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n"))[:-2]
                head = re.sub(rb"(?im)^connection:.*\r\n", b"", head)
                length = re.search(rb"(?im)^content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                upstream, sender = await asyncio.open_connection("127.0.0.1", target)
                added = f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
                sender.write(head + added + body)
                gone = asyncio.create_task(reader.read(1))  # the client closes its connection to cancel a request
                while True:
                    arriving = asyncio.create_task(upstream.read(65_536))
                    await asyncio.wait((arriving, gone), return_when=asyncio.FIRST_COMPLETED)
                    if not arriving.done() or not arriving.result():
                        arriving.cancel()
                        break
                    writer.write(arriving.result())
                    await writer.drain()
                gone.cancel()
                sender.close()
        finally:
            writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
