"""Tool calls on workers, such as a Dask client's."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import json
import platform
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from planck_nb.agent.calling.tool import ToolContext, drain, failure_text
from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.base.threads import run_in_thread

_SEND_SECONDS = 1.0
"""Seconds for one report, as the kernel may block."""

_MAX_TEXT = 100_000
"""Characters of a report which are sent; fewer are shown."""

_MAX_LINE = 12 * _MAX_TEXT + 10
"""Bytes of one, each character escaped."""


class Submits(Protocol):
    """An executor; its futures have `result`, `cancel` and `add_done_callback`."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:  # noqa: ANN401, D102 - as in the library
        ...


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A call's output, or a sentence about its failure."""

    output: ToolOutput | None
    failure: str
    has_reported: bool


def check_function(name: str, executor: object, function: Callable[..., Any]) -> None:
    """Check whether workers can run a function.

    Args:
        name: The tool's name.
        executor: Where it is to run.
        function: The function.

    Raises:
        UsageError: The executor lacks `submit`, the function is async, or cloudpickle is missing.
    """
    if not callable(getattr(executor, "submit", None)):
        raise UsageError(f"`on` of {name} is a {type(executor).__name__} without `submit`; pass an executor.")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{name} is async and runs on the event loop; leave out `on`, or make it a plain function.")
    try:
        import cloudpickle  # type: ignore[import-untyped] # noqa: F401, PLC0415 - for tools on workers alone
    except ImportError:
        raise UsageError("Tools on workers need cloudpickle; run `%pip install cloudpickle`.") from None


async def call_on(
    executor: Submits, name: str, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext
) -> ToolOutput:
    """Run a function on a worker.

    Args:
        executor: Where it runs.
        name: The tool's name.
        function: The function.
        arguments: Its arguments. One that is `context` gets another there, whose progress comes back.
        context: The context of the call.

    Returns:
        The result, converted by the worker.

    Raises:
        ToolError: The function failed, could not be sent, or lost its worker.
    """
    reports = _Reports(context.progress)
    with reports.listen() as report:
        on_worker = replace(context, progress=report)
        arguments = {key: on_worker if value is context else value for key, value in arguments.items()}
        payload = _pickled(name, function, arguments, on_worker)
        try:
            future = executor.submit(_apply, payload)
        except Exception as error:
            raise ToolError(
                f"{name} was not started, because no worker takes calls ({failure_text(error)})."
            ) from error
        await _end_of(future)
        try:
            value = await run_in_thread(future.result)  # which may fetch it from another machine
            outcome: _Outcome = await value if inspect.isawaitable(value) else value
        except (Exception, asyncio.CancelledError) as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise ToolError(
                f"{name} lost its worker before it returned ({failure_text(error)}); "
                "it may have run, wholly, in part or more than once."
            ) from error
        if outcome.has_reported:
            await reports.last.wait()
    if outcome.output is None:
        raise ToolError(outcome.failure)
    return outcome.output


def _pickled(name: str, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext) -> bytes:
    import cloudpickle  # noqa: PLC0415 - as above

    try:
        payload: bytes = cloudpickle.dumps((function, arguments, context))
    except Exception as error:
        raise ToolError(
            f"{name} cannot be sent to a worker ({failure_text(error)}); let it open files and connections itself."
        ) from error
    return payload


async def _end_of(future: Any) -> None:  # noqa: ANN401 - of any library
    """Wait for a future.

    A cancellation is passed on. It ends only calls before their start.
    """
    loop = asyncio.get_running_loop()
    end = asyncio.Event()

    def tell(_future: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end.set)

    future.add_done_callback(tell)
    try:
        await end.wait()
    except asyncio.CancelledError:
        future.cancel()
        raise


def _apply(payload: bytes) -> _Outcome:
    """On a worker: call the function, and convert its result."""
    import cloudpickle  # noqa: PLC0415 - as above

    function, arguments, context = cloudpickle.loads(payload)
    output, failure = None, ""
    try:
        value = function(**arguments)
        if inspect.isgenerator(value):
            value = drain(value, context.progress, threading.Event())
        output = as_output(value)
    except ToolError as error:
        failure = str(error)
    except Exception as error:  # noqa: BLE001 - the kernel may be unable to load its class
        failure = failure_text(error)
    return _Outcome(output, failure, has_reported=context.progress.close())


class _Report:
    """Reporter for a worker on the kernel's machine.

    Args:
        port: The kernel's port for this call.
        token: What the kernel expects first.
        machine: The kernel's machine.
    """

    def __init__(self, port: int, token: str, machine: str) -> None:
        self._port = port
        self._token = token
        self._machine = machine
        self._socket: socket.socket | None = None

    def __call__(self, text: str) -> None:
        if self._machine != _machine():
            return
        try:
            if self._socket is None:
                self._socket = socket.create_connection(("127.0.0.1", self._port), _SEND_SECONDS)
                self._socket.sendall(f"{self._token}\n".encode())
            self._socket.sendall(json.dumps(text[-_MAX_TEXT:]).encode() + b"\n")
        except OSError:  # the call was given up, or the kernel blocks
            self._machine = ""
            self.close()

    def close(self) -> bool:
        """End the connection; return whether all texts were sent."""
        if self._socket is None:
            return False
        self._socket.close()
        self._socket = None
        return True


class _Reports:
    """Receiver for a worker's reports.

    Callbacks read the sockets, so each connection ends with the call.

    Args:
        show: Called with each text.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self.last = asyncio.Event()
        """All texts have been received."""
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._token = secrets.token_hex(16)
        self._connections: dict[socket.socket, _Connection] = {}

    @contextmanager
    def listen(self) -> Iterator[_Report]:
        """Listen on this machine, and give what sends the reports."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            self._loop.add_reader(listener, self._accept, listener)
            try:
                yield _Report(listener.getsockname()[1], self._token, _machine())
            finally:
                self._loop.remove_reader(listener)
                for connection in tuple(self._connections):
                    self._close(connection)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # the other side has left
            connection, _ = listener.accept()
            connection.setblocking(False)
            self._connections[connection] = _Connection()
            self._loop.add_reader(connection, self._read, connection)

    def _read(self, connection: socket.socket) -> None:
        state = self._connections[connection]
        try:
            data = connection.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, state.rest = (state.rest + data).split(b"\n")
        for line in lines:
            if state.is_known:
                with suppress(ValueError):  # damaged JSON
                    self._show(str(json.loads(line)))
            else:
                state.is_known = hmac.compare_digest(line, self._token.encode())
        is_stranger = bool(lines) and not state.is_known
        if not data or is_stranger or len(state.rest) > _MAX_LINE:
            self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._loop.remove_reader(connection)
        connection.close()
        if self._connections.pop(connection).is_known:
            self.last.set()


@dataclass(slots=True)
class _Connection:
    """A connection's unfinished line, and its right to report."""

    rest: bytes = b""
    is_known: bool = False


def _machine() -> str:
    """Return a name for this machine and its network."""
    with suppress(OSError):
        network = Path("/proc/self/ns/net").readlink()
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text()} {network}"
    return platform.node()
