"""The loopback address for a browser after a sign-in (RFC 8252)."""

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
    """Return the preferred port if available, else another one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((_HOST, preferred))
            return int(probe.getsockname()[1])
    return free_port() if preferred else 0


def address(port: int) -> str:
    """Return the address for the browser's return."""
    return f"http://{_HOST}:{port}{PATH}"


def parameters(url: str, state: str) -> dict[str, str] | None:
    """Return the query in a browser's final address.

    It is None for an address from elsewhere than this sign-in.
    """
    with suppress(ValueError):
        query = dict(parse_qsl(urlsplit(url.strip()).query))
        if hmac.compare_digest(query.get("state", "").encode(), state.encode()) and query.keys() & {"code", "error"}:
            return query
    return None


@asynccontextmanager
async def listening(port: int, state: str) -> AsyncIterator[asyncio.Future[Mapping[str, str]]]:
    """Listen for the browser.

    Requests from elsewhere than this sign-in are refused and change nothing.

    A thread answers the browser, because `input` may block the event loop at that moment, where the person can be asked
    in this way only.

    Args:
        port: The port. If another program uses it, the browser cannot arrive.
        state: The secret which the browser must bring.

    Yields:
        The browser's query.
    """
    loop = asyncio.get_running_loop()
    arrival: asyncio.Future[Mapping[str, str]] = loop.create_future()

    def keep(query: Mapping[str, str]) -> None:
        if not arrival.done():
            arrival.set_result(query)

    def on_arrival(query: Mapping[str, str]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(keep, query)

    over = threading.Event()
    thread: threading.Thread | None = None
    with suppress(OSError):
        server = _CallbackServer(port, state, on_arrival)
        thread = threading.Thread(target=server.serve_until, args=(over,), name="planck-sign-in", daemon=True)
        thread.start()
    try:
        yield arrival
    finally:
        arrival.cancel()
        over.set()
        if thread is not None:
            await run_in_thread(thread.join)


class _CallbackServer(ThreadingHTTPServer):
    """A server which answers the browser and passes its query on."""

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
    """A handler for one request."""

    server: _CallbackServer
    timeout = _READ_SECONDS

    def do_GET(self) -> None:
        """Accept only the address from the sidecar's server."""
        query = parameters(self.path, self.server.state) if self.path.partition("?")[0] == PATH else None
        page = b"" if query is None else _PAGE
        self.send_response(404 if query is None else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(page)
        if query is not None:
            self.server.on_arrival(query)

    def version_string(self) -> str:
        """Return what is sent as `Server`."""
        return "planck_nb"

    def log_message(self, *_: object) -> None:
        """Log nothing: the address contains what signs in."""
