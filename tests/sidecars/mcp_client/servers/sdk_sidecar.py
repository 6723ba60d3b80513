"""A server made with the bare SDK: over stdio, or over HTTP as its users would serve it. `python … [PORT_FILE]`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

STATE = Path(os.environ.get("STATE", "."))
app = MCPServer("sdk", version="2")


@app.tool()
async def echo(text: str) -> str:
    return text


@app.tool()
async def pause(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@app.tool()
async def never(mark: str) -> str:
    (STATE / f"{mark}-begun").write_text("yes")
    try:
        await asyncio.Event().wait()
    finally:
        (STATE / mark).write_text("cancelled")
    return ""


@app.tool()
async def die() -> str:
    os._exit(3)


@app.tool(structured_output=False)
async def big(size: int) -> str:
    return "b" * size


@app.tool(structured_output=False)
async def big_after_progress(size: int, ctx: Context) -> str:
    """Over HTTP the answer is then an event of a stream."""
    await ctx.report_progress(1, 2, "half")
    return "b" * size


@app.tool()
async def numbers() -> dict[str, int]:
    return {"n": 1}


class Confirmed(BaseModel):
    sure: bool


@app.tool()
async def book(day: str, ctx: Context) -> str:
    """Ask as servers did before the newest protocol."""
    with (STATE / "asked").open("a") as file:
        file.write(day)
    result = await ctx.elicit(f"On {day}?", Confirmed)
    return f"{result.action} {day}"


@app.tool()
async def book_carefully(day: str, ctx: Context) -> str:
    """Ask, and describe what goes wrong."""
    try:
        return await book(day, ctx)
    except Exception as error:
        raise ToolError(f"not booked: {error}") from error


@app.tool()
async def grow(ctx: Context) -> str:
    """Offer one more tool."""

    def grown() -> str:
        return "new"

    app.add_tool(grown, name="grown")
    await ctx.notify_tools_changed()
    return "grown"


class WithToken:
    """Lets in only those who send the token."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner = inner
        self._header = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != self._header:
            await PlainTextResponse("no", status_code=401)(scope, receive, send)
        else:
            await self._inner(scope, receive, send)


def main() -> None:
    if len(sys.argv) == 1:
        app.run()
        return
    port_file = Path(sys.argv[1])
    port = int(port_file.read_text()) if port_file.exists() else 0
    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    inner: ASGIApp = app.streamable_http_app(max_request_body_size=16 * 2**20)
    if token := os.environ.get("TOKEN"):
        inner = WithToken(inner, token)
    server = uvicorn.Server(uvicorn.Config(inner, log_level="error"))
    port_file.write_text(str(listening.getsockname()[1]))
    asyncio.run(server.serve(sockets=[listening]))


if __name__ == "__main__":
    main()
