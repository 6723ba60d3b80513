"""A server on loopback that answers each request with the bytes of a script, good or bad."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Handler: TypeAlias = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request and the connection it came over."""

    path: str
    headers: dict[str, str]
    body: Any
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self, status: str = "200 OK", kind: str = "text/event-stream", **headers: str) -> None:
        """Send a head that announces chunks."""
        lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        await self.writer.drain()

    async def send(self, data: bytes) -> None:
        """Send one chunk."""
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()

    async def end(self) -> None:
        """End the answer properly."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def answer(self, status: str, body: str, kind: str = "application/json", **headers: str) -> None:
        """Send a whole answer."""
        await self.head(status, kind, **headers)
        await self.send(body.encode())
        await self.end()

    def reset(self) -> None:
        """Break the connection as a crashed server does."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def closed(self) -> None:
        """Wait until the client has closed the connection."""
        while await self.reader.read(4096):
            pass


@dataclass
class Server:
    """A running server."""

    url: str
    exchanges: list[Exchange] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def serving(*handlers: Handler) -> AsyncIterator[Server]:
    """Answer the first request with the first handler, and so on; the last one answers all that follow."""
    server = Server("")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while True:
                exchange = await _read(reader, writer)
                server.exchanges.append(exchange)
                await handlers[min(len(server.exchanges), len(handlers)) - 1](exchange)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for exchange in server.exchanges:
            exchange.writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(first.split()[1], headers, json.loads(body or b"null"), reader, writer)
