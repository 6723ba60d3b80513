"""The loopback address to which a browser comes back after a person has signed in (RFC 8252)."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

PATH = "/callback"
_HOST = "127.0.0.1"
_LONGEST_LINE = 16_384
_READ_SECONDS = 10.0
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>planck_nb</title>"
    b"<p>You can close this page and go back to the notebook.</p>"
)


def free_port(preferred: int = 0) -> int:
    """Return the preferred port if it can be listened on, else another one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((_HOST, preferred))
            return int(probe.getsockname()[1])
    return free_port() if preferred else 0


def address(port: int) -> str:
    """Return the address that a browser is sent back to."""
    return f"http://{_HOST}:{port}{PATH}"


def parameters(url: str, state: str) -> dict[str, str] | None:
    """Return what the address at which a browser ended contains; None if it does not belong to this sign-in."""
    with suppress(ValueError):
        found = dict(parse_qsl(urlsplit(url.strip()).query))
        if hmac.compare_digest(found.get("state", "").encode(), state.encode()) and found.keys() & {"code", "error"}:
            return found
    return None


@asynccontextmanager
async def listening(port: int, state: str) -> AsyncIterator[asyncio.Future[Mapping[str, str]]]:
    """Listen for the browser. Requests that do not belong to this sign-in are refused and change nothing.

    Args:
        port: Where to listen. If another program has it, nobody comes.
        state: The secret that the browser must bring.

    Yields:
        What it brings.
    """
    arrived: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_READ_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                found = _brought(head, state)
                status = "404 Not Found" if found is None else "200 OK"
                page = b"" if found is None else _PAGE
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
                    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                    + page
                )
                await writer.drain()
                if found is not None and not arrived.done():
                    arrived.set_result(found)
        writer.close()

    server: asyncio.Server | None = None
    with suppress(OSError):
        server = await asyncio.start_server(answer, _HOST, port, limit=_LONGEST_LINE)
    try:
        yield arrived
    finally:
        arrived.cancel()
        if server is not None:
            server.close()


def _brought(head: str, state: str) -> dict[str, str] | None:
    method, _, rest = head.partition(" ")
    target = rest.partition(" ")[0]
    return parameters(target, state) if method == "GET" and target.partition("?")[0] == PATH else None
