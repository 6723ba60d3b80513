"""`Supervisor`: keeps a sidecar connected, from its start to its end.

The streams in an MCP connection belong to the task which opened them: only that task may close them, and if the server
dies, the SDK may cancel it. So each connection has its own task, which the supervisor's task watches and replaces.
"""

from __future__ import annotations

import asyncio
import time as clock
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import SidecarError, SidecarSignInError
from planck_nb.base.installed_packages import install_command
from planck_nb.base.programs import hidden_sentence
from planck_nb.base.threads import run_in_thread
from planck_nb.sidecars.conventions import ENTRY_POINT_GROUP, FIXED_SOURCES
from planck_nb.sidecars.mcp_client.link.authorization import Authorize
from planck_nb.sidecars.mcp_client.link.settings import Build, LinkTiming
from planck_nb.sidecars.mcp_client.link.start_failures import reason_of_end, start_failure, with_last_line
from planck_nb.sidecars.mcp_client.link.state import LinkState
from planck_nb.sidecars.mcp_client.offers.fingerprint import fingerprint
from planck_nb.sidecars.mcp_client.transports.child_environment import sidecar_environment
from planck_nb.sidecars.mcp_client.transports.npx import SEARCH_FOLDER, npx_environment, runs_npx

if TYPE_CHECKING:
    import httpx2

    from planck_nb.sidecars.mcp_client.link.connection import Connection
    from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests

T = TypeVar("T")

_NEEDED = "mcp"
"""The package for connections, and this package's extra with it."""

_CLOSE_SECONDS = 3.0
"""Seconds for closing a connection, beyond its process's grace."""


class Supervisor:
    """Builder, starter and watcher of a sidecar, restarting it after losses.

    Args:
        state: Its link's state.
        cwd: Working directory for a process without its own, and the folder for a sidecar with `roots`.
        environment: The kernel's environment.
        timing: Times.
        auth: Makes the authentication for a server over HTTP.
        build: Builds the sidecar's needs before each start by a user.
    """

    def __init__(
        self,
        state: LinkState,
        *,
        cwd: Path,
        environment: Mapping[str, str],
        timing: LinkTiming,
        auth: Authorize | None,
        build: Build | None,
    ) -> None:
        self.stopping = asyncio.Event()
        """Set to end `run`."""
        self._state = state
        self._cwd = cwd
        self._compared = 0
        """The time of the latest comparison with what is trusted, in nanoseconds."""
        self._environment = environment
        self._timing = timing
        self._authorize = auth
        self._build = build
        self._accepted = ""
        self._refused = ""
        self._last_http_status = 0
        self._owner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Have the sidecar supervised by a task, unless it is.

        A task which is about to end is awaited.
        """
        if self._owner is not None and self.stopping.is_set():
            await asyncio.wait([self._owner])
        if self._owner is None or self._owner.done():
            self._state.loop = asyncio.get_running_loop()
            self.stopping = asyncio.Event()
            self._state.status = replace(self._state.status, restarts=0)
            self._state.enter("starting" if self._build is None else "building")
            self._owner = spawn(self._run(), name=f"planck-sidecar-{self._state.name}")

    async def stop(self) -> None:
        """Stop the sidecar and everything started by it."""
        if self._owner is not None and not self._owner.done():
            self.stopping.set()
            await asyncio.wait([self._owner])

    async def _run(self) -> None:
        """Build and supervise.

        After any failure, callers waiting for the start get the error.
        """
        try:
            await self._build_and_supervise()
        except Exception as error:  # noqa: BLE001 - such as from a callback
            self._state.fail(f"The sidecar {self._state.name} was given up: {type(error).__name__}: {error}")
        finally:
            if self._state.status.state not in ("idle", "failed"):
                self._state.enter("idle")
                self._state.emit("stopped")

    async def _build_and_supervise(self) -> None:
        if self._is_refused():
            return
        if self._build is not None:
            self._state.emit("building")
            try:
                await self._unless_stopped(self._build(self._state.show_progress))
            except SidecarError as error:
                if not self.stopping.is_set():
                    self._state.fail(str(error))
                return
        self._state.enter("starting")
        self._state.emit("starting")
        await self._supervise()

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something unless the link is stopped.

        A stop cancels it and raises `SidecarError`.
        """
        doing, stopping = asyncio.create_task(work), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise SidecarError(f"The sidecar {self._state.name} was stopped.")
            return doing.result()
        finally:
            await cancel_and_wait(stopping, doing)

    async def _supervise(self) -> None:
        delay, failures, was_connected = self._timing.first_delay, 0, False
        loop = asyncio.get_running_loop()
        while not self._is_refused():
            try:
                connection, serving = await self._open()
            except SidecarError as error:
                reason = str(error)
                failures += 1
                is_final = (
                    not was_connected or failures >= self._timing.attempts or isinstance(error, SidecarSignInError)
                )
                if is_final and not self.stopping.is_set():
                    self._state.fail(reason)
                if is_final or self.stopping.is_set():
                    return
            else:
                was_connected, start = True, loop.time()
                reason = await self._until_lost(connection, serving)
                if self.stopping.is_set():
                    return
                if self._state.needs_older_protocol and not connection.is_older:
                    continue
                is_steady = loop.time() - start >= self._timing.steady
                delay, failures = (self._timing.first_delay, 0) if is_steady else (delay, failures + 1)
                if failures >= self._timing.attempts:
                    self._give_up(f"it was lost {failures} times in a row; the last time, {reason}")
                    return
            self._state.status = replace(self._state.status, restarts=self._state.status.restarts + 1)
            self._state.enter("starting", reason)
            if await self._stopped_within(delay):
                return
            delay = min(2 * delay, self._timing.longest_delay)
            self._state.emit("starting")

    def _give_up(self, reason: str) -> None:
        sentence = f"The sidecar {self._state.name} was given up: {reason}."
        self._state.fail(with_last_line(sentence, self._state.spec, self._state.log))

    def _is_refused(self) -> bool:
        """Return whether the sidecar must not be started; then it has failed."""
        refusal = self._state.callbacks.refusal
        self._compared = clock.time_ns()
        reason = "" if refusal is None else refusal(self._state.spec)
        if reason:
            self._state.fail(reason)
        return bool(reason)

    async def _open(self) -> tuple[Connection, asyncio.Task[None]]:
        """Connect, or raise `SidecarError` after a failure or a long wait."""
        await run_in_thread(_load)
        self._last_http_status = 0
        connection = self._connection()
        serving = asyncio.create_task(connection.serve(), name=f"planck-sidecar-{self._state.name}-connection")
        serving.add_done_callback(lambda task: _note_end(connection, task))
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            ends = (serving, connection.ready, connection.lost, stopping)
            if not await connection.first_of(*ends, seconds=self._timing.start):
                connection.lose(f"it did not answer within {self._timing.start:g} s; check that it speaks MCP")
        finally:
            stopping.cancel()
            if not connection.ready.done() or connection.lost.done():
                await self._close(connection, serving)
        if self.stopping.is_set():
            await self._close(connection, serving)
            raise SidecarError(f"The sidecar {self._state.name} was stopped.")
        if not connection.ready.done() or connection.lost.done():
            raise self._failure_of(connection, serving)
        is_accepted = False
        try:
            is_accepted = await self._unless_stopped(self._is_accepted(connection))
        finally:
            if not is_accepted:
                await self._close(connection, serving)
        if not is_accepted:
            raise SidecarError(self._refused)
        self._state.connection = connection
        self._state.adopt(connection)
        self._state.enter("connected")
        self._state.announce_tools()
        older = f"It asks questions in the protocol {connection.protocol}." if connection.is_older else ""
        self._state.emit("connected", older)
        return connection, serving

    def _connection(self) -> Connection:
        """Make a connection for opening later."""
        from planck_nb.sidecars.mcp_client.link.connection import Connection  # noqa: PLC0415 - loaded just before

        connection: Connection | None = None

        def on_end(reason: str) -> None:
            if connection is not None:
                connection.lose(reason)

        def sign_in() -> httpx2.Auth | None:
            return None if self._authorize is None or connection is None else self._authorize(connection)

        connection = Connection(
            self._state.spec,
            self._transport(on_end, sign_in),
            log=self._state.log,
            ask=self._state.callbacks.ask,
            sample=self._state.callbacks.sample,
            root=self._cwd,
            question_seconds=self._timing.question,
            on_tools=lambda: self._tools_changed(connection),
            is_older=self._state.needs_older_protocol,
        )
        return connection

    async def _until_lost(self, connection: Connection, serving: asyncio.Task[None]) -> str:
        """Wait for a connection's end, close it, and return the reason."""
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait((connection.lost, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            connection.lose("it was stopped")
            self._state.connection = None
            await self._close(connection, serving)
        reason = connection.lost.result()
        if connection.failure is not None and not self.stopping.is_set():
            self._state.fail(str(connection.failure))
            self.stopping.set()
        if not self.stopping.is_set():
            self._state.enter("starting", reason)
            if not self._state.needs_older_protocol or connection.is_older:
                self._state.emit("exited" if reason.startswith("its process ") else "disconnected", reason)
        return reason

    async def _close(self, connection: Connection, serving: asyncio.Task[None]) -> None:
        connection.close()
        if connection.ready.done():
            await asyncio.wait([serving], timeout=self._timing.stop_grace + _CLOSE_SECONDS)
        if not serving.done():
            await cancel_and_wait(serving)

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        return self.stopping.is_set()

    def _transport(
        self, on_end: Callable[[str], None], sign_in: Callable[[], httpx2.Auth | None]
    ) -> AbstractAsyncContextManager[Any]:
        from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests  # noqa: PLC0415 - loads mcp
        from planck_nb.sidecars.mcp_client.transports.repaired_streams import repaired_streams  # noqa: PLC0415

        requests = OpenRequests()
        return repaired_streams(self._messages(requests, on_end, sign_in), requests)

    def _messages(
        self, requests: OpenRequests, on_end: Callable[[str], None], sign_in: Callable[[], httpx2.Auth | None]
    ) -> AbstractAsyncContextManager[Any]:
        if self._state.spec.url:
            from planck_nb.sidecars.mcp_client.transports.http_transport import connect_http  # noqa: PLC0415 - loads mcp

            return connect_http(self._state.spec, requests, sign_in=sign_in, on_status=self._note_http_status)
        from planck_nb.sidecars.mcp_client.transports.process_transport import run_process  # noqa: PLC0415 - loads mcp

        spec = self._state.spec
        command = [spec.command, *spec.args]
        cwd = self._cwd if spec.cwd is None else self._cwd / spec.cwd.expanduser()
        environment = {
            **sidecar_environment(self._environment, spec.env),
            **({"PYTHONSAFEPATH": "1"} if ENTRY_POINT_GROUP in spec.args else {}),
            FIXED_SOURCES: f"{self._compared}:{self._cwd}",
        }
        if spec.npx_shell is not None and runs_npx(command) and cwd.is_dir():
            environment |= npx_environment(spec.npx_shell, cwd)
            cwd = SEARCH_FOLDER
        return run_process(
            self._state.name,
            command,
            requests,
            cwd=cwd,
            environment=environment,
            log=self._state.log,
            on_end=on_end,
            on_start=self._state.note_process,
            grace=self._timing.stop_grace,
        )

    async def _is_accepted(self, connection: Connection) -> bool:
        tools = tuple(connection.tools.values())
        digest = fingerprint(self._state.spec, tools)
        accept = self._state.callbacks.accept
        if accept is None or digest == self._accepted:
            self._accepted = digest
            return True
        decision = accept(self._state.spec, digest, tools)
        if not isinstance(decision, bool):
            decision = await decision
        if decision:
            self._accepted = digest
            return True
        clause = "has changed what it offers" if self._accepted else "is not trusted"
        self._refused = f"The sidecar {self._state.name} {clause}; look at its tools, trust it, and start it again."
        return False

    def _tools_changed(self, connection: Connection | None) -> None:
        if connection is None or connection is not self._state.connection:
            return
        spawn(self._adopt(connection), name=f"planck-sidecar-{self._state.name}-tools")

    async def _adopt(self, connection: Connection) -> None:
        """Use a changed list of tools, if it is accepted."""
        try:
            is_accepted = await self._is_accepted(connection)
        except Exception as error:  # noqa: BLE001 - from the callback
            is_accepted, self._refused = (
                False,
                f"The sidecar {self._state.name} was given up: {type(error).__name__}: {error}",
            )
        if is_accepted:
            self._state.adopt(connection)
            self._state.describe(connection)
            self._state.announce_tools()
            self._state.emit("tools_changed")
            return
        self._state.definitions, self._state.connection = {}, None
        self.stopping.set()
        connection.lose("it is no longer trusted")
        self._state.fail(self._refused)

    def _failure_of(self, connection: Connection, serving: asyncio.Task[None]) -> SidecarError:
        if connection.failure is not None:
            return connection.failure
        return start_failure(
            self._state.spec,
            serving.exception() if serving.done() and not serving.cancelled() else None,
            http_status=self._last_http_status,
            lost=connection.lost.result() if connection.lost.done() else "the connection was closed",
            log=self._state.log,
        )

    def _note_http_status(self, status: int) -> None:
        self._last_http_status = status


def _load() -> None:
    """Import the connections' needs, which takes half a second. Raises `SidecarError`."""
    if hidden := hidden_sentence([_NEEDED]):  # without running that file
        raise SidecarError(hidden)
    try:
        import planck_nb.sidecars.mcp_client.transports.http_transport  # noqa: PLC0415
        import planck_nb.sidecars.mcp_client.transports.process_transport  # noqa: F401, PLC0415
    except ImportError as error:
        package = (error.name or _NEEDED).partition(".")[0]
        if hidden := hidden_sentence([package]):
            raise SidecarError(hidden) from error
        problem = f"cannot be imported: {error}"
        if isinstance(error, ModuleNotFoundError):
            package, problem = _NEEDED, f"is not installed; run {install_command(_NEEDED)}"
        raise SidecarError(f"Sidecars need the package {package}, which {problem}.") from error


def _note_end(connection: Connection, task: asyncio.Task[None]) -> None:
    """Note a connection's end, normal or after the server's.

    If the server is gone, the SDK cancels the connection's task.
    """
    connection.lose(reason_of_end(None if task.cancelled() else task.exception()))
