"""The loopback address to which a browser comes back after a person has signed in (RFC 8252)."""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from planck_nb.base.threads import run_in_thread

PATH = "/callback"
_HOST = "127.0.0.1"
_READ_SECONDS = 10.0
_POLL_SECONDS = 0.1
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

    A thread answers the browser, because `input` may block the event loop at that moment, where there is no other way
    to ask the person.

    Args:
        port: Where to listen. If another program uses it, no browser arrives.
        state: The secret that the browser must bring.

    Yields:
        What it brings.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[Mapping[str, str]] = loop.create_future()

    def keep(found: Mapping[str, str]) -> None:
        if not arrived.done():
            arrived.set_result(found)

    def on_arrival(found: Mapping[str, str]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(keep, found)

    ended = threading.Event()
    thread: threading.Thread | None = None
    with suppress(OSError):
        server = _CallbackServer(port, state, on_arrival)
        thread = threading.Thread(target=server.serve_until, args=(ended,), name="planck-sign-in", daemon=True)
        thread.start()
    try:
        yield arrived
    finally:
        arrived.cancel()
        ended.set()
        if thread is not None:
            await run_in_thread(thread.join)


class _CallbackServer(ThreadingHTTPServer):
    """Answers the browser and passes on what it brings."""

    def __init__(self, port: int, state: str, on_arrival: Callable[[Mapping[str, str]], None]) -> None:
        super().__init__((_HOST, port), _CallbackHandler)
        self.timeout = _POLL_SECONDS
        self.state = state
        self.on_arrival = on_arrival

    def serve_until(self, ended: threading.Event) -> None:
        """Answer requests until `ended` is set."""
        with self:
            while not ended.is_set():
                self.handle_request()

    def handle_error(self, *_: object) -> None:
        """Ignore a connection that breaks."""


class _CallbackHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _CallbackServer
    timeout = _READ_SECONDS

    def do_GET(self) -> None:
        """Accept the address that the server of the sidecar sent the browser to, and no other."""
        found = parameters(self.path, self.server.state) if self.path.partition("?")[0] == PATH else None
        page = b"" if found is None else _PAGE
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(page)
        if found is not None:
            self.server.on_arrival(found)

    def version_string(self) -> str:
        """Return what is sent as `Server`."""
        return "planck_nb"

    def log_message(self, *_: object) -> None:
        """Log nothing: the address contains what signs in."""
