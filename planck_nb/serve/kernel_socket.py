"""The kernel's socket for `planck-nb mcp`.

The kernel opens it; code is never run over it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import hmac
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, ConfigError, PlanckError, UsageError
from planck_nb.base.event_loops import has_running_loop
from planck_nb.base.forks import forget_in_forks
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.serve.bounds import bounded_text
from planck_nb.serve.kernel_calls import KernelCalls
from planck_nb.serve.runtime_folder import KernelAddress, new_socket_path
from planck_nb.serve.wire import MAX_LINE_BYTES, encode_line, read_line
from planck_nb.tools.private_folders import runtime_folder
from planck_nb.workspace import Workspace

_log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 32
_MESSAGE_CHARACTERS = 1_000
_REQUEST_TIMEOUT = 10.0
"""Seconds in which a client has to send its request."""

_MAX_WAITING = 1024 * 1024
"""Most unread bytes for which a client still gets progress."""

_open: WeakSet[KernelSocket] = WeakSet()
_UCRED = struct.Struct("3i")


class KernelSocket:
    """A kernel's open socket, from `start_kernel_socket` and `open_kernel_socket`.

    Args:
        workspace: Its agents can be listed, prompted and watched.
        address: The socket's place, and the client's token.
        listening: The bound socket, listening already.
    """

    def __init__(self, workspace: Workspace, address: KernelAddress, listening: socket.socket) -> None:
        self._address = address
        self._calls = KernelCalls(workspace)
        self._listening = listening
        self._connections: set[asyncio.Task[None]] = set()
        self._closed = False
        # Agents must not inherit the context from the cell which opened the socket, such as its output stream.
        self._serving = asyncio.get_running_loop().create_task(
            self._serve(), name="planck-kernel-socket", context=contextvars.Context()
        )
        # The event loop must let go of the socket before it is closed.
        self._serving.add_done_callback(lambda _: listening.close())
        atexit.register(self._remove)
        _open.add(self)

    def __repr__(self) -> str:
        return f"<KernelSocket {self.path}{' closed' if self._closed else ''}>"

    @property
    def path(self) -> Path:
        """Return the socket's path."""
        return self._address.socket

    @property
    def process(self) -> int:
        """Return the kernel's process id, for `planck-nb mcp --kernel`."""
        return self._address.pid

    @property
    def is_open(self) -> bool:
        """Return whether clients can connect."""
        return not self._closed

    def close(self) -> None:
        """Close the socket and cancel its clients' calls, which aborts their runs.

        May be called twice.
        """
        if self._closed:
            return
        self._remove()
        self._closed = True
        atexit.unregister(self._remove)
        for task in (self._serving, *self._connections):
            task.cancel()

    async def aclose(self) -> None:
        """Close the socket like `close`, and wait for its clients' calls."""
        self.close()
        await cancel_and_wait(self._serving, *self._connections)

    def _remove(self) -> None:
        if not self._closed and os.getpid() == self._address.pid:
            self._address.remove()

    def forget(self) -> None:
        """Leave the socket to the kernel, in its forked process."""
        self._closed = True
        with suppress(OSError):
            os.close(self._listening.detach())

    async def _serve(self) -> None:
        server = await asyncio.start_unix_server(self._accept, sock=self._listening, limit=MAX_LINE_BYTES)
        async with server:
            await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._connections.add(task)
        try:
            await self._answer(reader, writer)
        except Exception:  # noqa: BLE001 - the client gets a sentence, and the kernel's log has the rest
            _log.exception("A call over the kernel's socket failed.")
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._admit(writer)
            request = await self._request(reader)
            answer: JsonObject = {"result": await self._call(request, reader, writer)}
        except asyncio.CancelledError:
            if not self._closed:
                raise
            answer = _failure(AgentError("The kernel has closed its socket; the call was stopped."))
        except PlanckError as error:
            answer = _failure(error)
        except Exception as error:
            writer.write(encode_line(_failure(error)))
            raise
        with suppress(OSError):  # the client has gone
            writer.write(encode_line(answer))
            await writer.drain()

    def _admit(self, writer: asyncio.StreamWriter) -> None:
        """Raise AgentError for too many calls, or another user's client."""
        if len(self._connections) > _MAX_CONNECTIONS:
            raise AgentError(f"The kernel answers {_MAX_CONNECTIONS} calls already; try again later.")
        if not _is_same_user(writer):
            raise AgentError("Only the user of the kernel may use its socket; run the client as that user.")

    async def _request(self, reader: asyncio.StreamReader) -> JsonObject:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                request = await read_line(reader)
        except TimeoutError:
            raise AgentError(
                f"No request came within {_REQUEST_TIMEOUT:g} s; connect again and send it at once."
            ) from None
        token = request.get("token")
        if not isinstance(token, str) or not hmac.compare_digest(token.encode(), self._address.token.encode()):
            raise AgentError("The token is wrong; it is in the file beside the socket.")
        return request

    async def _call(
        self, request: JsonObject, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> JsonObject:
        """Make a call; cancel it when the client closes the connection."""

        def progress(text: str) -> None:
            if writer.transport.get_write_buffer_size() < _MAX_WAITING and not writer.is_closing():
                writer.write(encode_line({"progress": text}))

        call = spawn(self._calls(request.get("method"), request.get("params"), progress), name="planck-kernel-call")
        departure = spawn(reader.read(1), name="planck-kernel-client")
        try:
            await asyncio.wait([call, departure], return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                await cancel_and_wait(call)
                raise AgentError("The client has closed the connection.")
            return call.result()
        finally:
            await cancel_and_wait(call, departure)


forget_in_forks(_open, KernelSocket.forget)


def start_kernel_socket(workspace: Workspace, *, folder: Path | None = None) -> KernelSocket:
    """Let the user's `planck-nb mcp` list, prompt and watch a workspace's agents.

    A prompt from outside has the same rights as one in the notebook: the workspace's approvals apply.

    Args:
        workspace: The workspace.
        folder: The folder for the socket; by default the user's runtime folder.

    Returns:
        The open socket, to be closed with its `close`. It is removed when the kernel ends.

    Raises:
        UsageError: An event loop is not running, or the system lacks Unix sockets.
        ConfigError: The folder is not safe, or the socket cannot be made in it.
    """
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        raise UsageError("A kernel can be reached by other programs only on systems with Unix sockets.")
    if not has_running_loop():
        raise UsageError("Opening the socket needs a running event loop; call it in a cell or an async function.")
    path = new_socket_path(runtime_folder() if folder is None else folder)
    config = workspace.config
    address = KernelAddress(
        path,
        secrets.token_urlsafe(32),
        os.getpid(),
        str(config.root.absolute()),
        str(workspace.sessions_dir.absolute()),
        time.time(),
        workspace.owner,
    )
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(0o600)  # nobody can connect before `listen`
        listening.listen(_MAX_CONNECTIONS)
        listening.setblocking(False)
        address.write()
    except OSError as error:
        listening.close()
        address.remove()
        raise ConfigError(
            f"The socket {path} cannot be created ({error.strerror or error}); choose another folder."
        ) from error
    return KernelSocket(workspace, address, listening)


@asynccontextmanager
async def open_kernel_socket(workspace: Workspace, *, folder: Path | None = None) -> AsyncIterator[KernelSocket]:
    """Open a socket like `start_kernel_socket`, and close it when the block ends.

    Args:
        workspace: The workspace.
        folder: The folder for the socket; by default the user's runtime folder.

    Yields:
        The open socket.

    Raises:
        UsageError: The system lacks Unix sockets.
        ConfigError: The folder is not safe, or the socket cannot be made in it.
    """
    kernel_socket = start_kernel_socket(workspace, folder=folder)
    try:
        yield kernel_socket
    finally:
        await kernel_socket.aclose()


def _is_same_user(writer: asyncio.StreamWriter) -> bool:
    """Return whether the client is a process with this user.

    On systems other than Linux, the folder's mode must suffice.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    connection = writer.get_extra_info("socket")
    _, user, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return bool(user == os.getuid())


def _failure(error: Exception) -> JsonObject:
    message = one_line(visible(bounded_text(str(error) or type(error).__name__)), _MESSAGE_CHARACTERS)
    return {"error": {"kind": type(error).__name__, "message": message}}
