"""`SidecarLink`: keeps one sidecar running and connected, and makes calls to it.

The streams of an MCP connection belong to the task that opened them: only that task may close them, and if the server
dies, the SDK may cancel it. A notebook has a new task for every cell. So each connection is served by a task of its
own, which a second task supervises and replaces; and each call runs in an inner task, so that the loss of a connection
never cancels its caller.
"""

from __future__ import annotations

import asyncio
import os
import time as clock
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.base.aio import await_in_loop, cancel_and_wait, is_running_here, run_in_thread, spawn
from planck_nb.base.errors import SidecarError, SidecarLostError, SidecarTimeoutError, ToolError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import redact, remember_secret
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.conventions import (
    AGENT_ID,
    CALL_ID,
    COMPACTOR_PREFIX,
    MAX_TIMEOUT_MS,
    MIN_TIMEOUT_MS,
    ROLE_COMPACTOR,
    ROLE_TOOL,
    SESSION_ID,
    clamp_timeout_ms,
)
from planck_nb.sidecars.link.child_environment import sidecar_environment
from planck_nb.sidecars.link.definitions import PromptDefinition, ResourceDefinition, ToolDefinition
from planck_nb.sidecars.link.fingerprint import fingerprint
from planck_nb.sidecars.link.link_settings import Build, LinkCallbacks, LinkTiming
from planck_nb.sidecars.link.log_lines import LogLines
from planck_nb.sidecars.link.results import output_of
from planck_nb.sidecars.link.sidecar_spec import SidecarSpec
from planck_nb.sidecars.link.status import SidecarEvent, SidecarEventKind, SidecarState, SidecarStatus

if TYPE_CHECKING:
    from mcp import Client

    from planck_nb.ai.messages import ImagePart, TextPart
    from planck_nb.sidecars.link.connection import Connection

T = TypeVar("T")

_OWN_LIMIT_GRACE = 2.0
"""Seconds that a tool which has the time limit as its own argument may take longer to report that it was reached."""

_CLOSE_SECONDS = 3.0
"""Seconds beyond the grace of its process that a connection has to close."""

_REASON_CHARACTERS = 500
_READ_SECONDS = 60.0
_DENIED = (401, 403)
_WRONG_HOST = 421


class SidecarLink:
    """Keeps one sidecar running and connected.

    It belongs to the event loop in which it was started, and can be called from others. If the sidecar is lost, all
    calls in flight fail at once with `SidecarLostError`, and it is started again after a pause; calls made meanwhile
    wait for it.

    Args:
        spec: How to start or reach the sidecar.
        callbacks: What is called.
        cwd: The working directory of a process whose spec has none, and the folder that a sidecar with `roots` is told.
        environment: The kernel's environment, from which a few harmless variables are passed on; `os.environ` by
            default.
        timing: Times.
        auth: Signs in to a server over HTTP: an `httpx2.Auth`.
        build: Builds what the sidecar needs, before each start by a user; called with a function that shows a line.

    Example:
        >>> link = SidecarLink(SidecarSpec("files", command="some-server"))
        >>> link.status().state
        'idle'
    """

    def __init__(
        self,
        spec: SidecarSpec,
        *,
        callbacks: LinkCallbacks | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timing: LinkTiming | None = None,
        auth: Any = None,  # noqa: ANN401 - httpx2 is loaded with the first sidecar
        build: Build | None = None,
    ) -> None:
        self.spec = spec
        self._callbacks = callbacks or LinkCallbacks()
        self._cwd = cwd or Path.cwd()
        self._environment = os.environ if environment is None else environment
        self._timing = timing or LinkTiming()
        self._auth = auth
        self._build = build
        self._log = LogLines()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._connection: Connection | None = None
        self._changed: asyncio.Event = asyncio.Event()
        """Set and replaced whenever the state changes."""
        self._definitions: dict[str, ToolDefinition] = {}
        self._accepted = ""
        self._refused = ""
        self._status = SidecarStatus(spec.name, since=clock.time(), transport=spec.transport)
        self._last_http_status = 0
        for value, what in spec.secrets().items():
            remember_secret(value, what)

    @property
    def name(self) -> str:
        """The name of the sidecar."""
        return self.spec.name

    def status(self) -> SidecarStatus:
        """Return the state of the sidecar. Can be called from any thread and never waits."""
        return self._status

    def logs(self, count: int | None = None) -> list[str]:
        """Return the newest lines that the sidecar wrote to its error output, without control codes and secrets.

        Args:
            count: How many lines at most, None for all that are kept (500).

        Returns:
            The lines, the oldest first.
        """
        return self._log.lines(count)

    def note(self, line: str) -> None:
        """Add a line to the log."""
        self._log.add(line)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return what the sidecar offers: tools, compactors and observers. Empty if it was never connected.

        They stay while it is started again.
        """
        return tuple(self._definitions.values())

    def fingerprint(self) -> str:
        """Return the digest of the spec and of the tools, as `fingerprint` computes it."""
        return fingerprint(self.spec, self.definitions())

    async def start(self) -> None:
        """Start the sidecar, and return when it is connected. Does nothing if it is.

        Raises:
            SidecarError: If it cannot be started, or does not speak MCP.
        """
        if self._loop is not None and not is_running_here(self._loop) and self._loop.is_running():
            await await_in_loop(self._loop, self.start)
            return
        if self._owner is not None and self._stopping.is_set():
            await asyncio.wait([self._owner])
        if self._owner is None or self._owner.done():
            self._loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            self._status = replace(self._status, restarts=0)
            self._enter("starting" if self._build is None else "building")
            self._owner = spawn(self._own(), name=f"planck-sidecar-{self.name}")
        try:
            while self._status.state in ("starting", "building"):
                await self._changed.wait()
        except asyncio.CancelledError:
            self._stopping.set()
            raise
        if self._status.state != "connected":
            raise SidecarError(self._not_running())

    async def stop(self) -> None:
        """Stop the sidecar and everything that it started. Calls in flight fail. Does nothing if it is not running."""
        if self._loop is not None and not is_running_here(self._loop) and self._loop.is_running():
            await await_in_loop(self._loop, self.stop)
            return
        owner = self._owner
        if owner is not None and not owner.done():
            self._stopping.set()
            await asyncio.wait([owner])
        if self._status.state != "idle":
            self._enter("idle")
            self._emit("stopped")

    async def restart(self) -> None:
        """Stop the sidecar and start it again; its restarts are counted anew, and what it offers is fetched again.

        Raises:
            SidecarError: If it cannot be started.
        """
        await self.stop()
        await self.start()

    async def call(
        self,
        tool: str,
        args: JsonObject,
        *,
        agent_id: str = "",
        call_id: str = "",
        session_id: str = "",
        timeout_ms: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> ToolOutput:
        """Call a tool and return its result. Cancelling this cancels the call in the sidecar.

        A call that was in flight when the sidecar was lost is made again only if the tool declares that it only reads
        or that it may be repeated.

        Args:
            tool: The name of the tool on the sidecar.
            args: Its arguments. `timeout_ms` among them is the time limit, and is passed on only if the tool itself has
                that argument.
            agent_id: The agent that calls, passed on.
            call_id: The call, passed on.
            session_id: The session, passed on.
            timeout_ms: The time limit in milliseconds, from 1 to 3,600,000; by default that of the tool.
            progress: Called with texts while the tool runs.

        Returns:
            Text and pictures.

        Raises:
            ToolError: If the tool reports that it failed.
            SidecarError: If the sidecar does not run, no longer offers the tool, or answers something else.
            SidecarLostError: If it was lost before it answered.
            SidecarTimeoutError: If the time was up.
        """
        result = await self.call_raw(
            tool,
            args,
            agent_id=agent_id,
            call_id=call_id,
            session_id=session_id,
            timeout_ms=timeout_ms,
            progress=progress,
        )
        return output_of(result)

    async def call_raw(
        self,
        tool: str,
        args: JsonObject,
        *,
        agent_id: str = "",
        call_id: str = "",
        session_id: str = "",
        timeout_ms: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Any:  # noqa: ANN401 - an mcp_types.CallToolResult, which is loaded with the first sidecar
        """Call a tool like `call`, and return the result as the MCP library does: an `mcp_types.CallToolResult`."""
        meta = {AGENT_ID: agent_id, CALL_ID: call_id, SESSION_ID: session_id}

        async def make(connection: Connection, seconds: float) -> Any:  # noqa: ANN401 - as above
            from planck_nb.sidecars.link.connection import CallOrigin, current_origin  # noqa: PLC0415 - loads mcp
            from planck_nb.sidecars.link.responses import answer_to  # noqa: PLC0415 - loads mcp

            definition = self._definitions.get(tool)
            if definition is None:
                known = did_you_mean(tool, self._definitions)
                raise SidecarError(f"The sidecar {self.name} no longer offers {tool}. {known}".rstrip())
            if connection.tools.get(tool) != definition:  # and nobody has accepted that yet
                raise SidecarError(f"The sidecar {self.name} has changed {tool}; look at its tools before you use it.")
            given = args if definition.declares_timeout else {k: v for k, v in args.items() if k != "timeout_ms"}
            origin = CallOrigin(agent_id, call_id)
            token = current_origin.set(origin)
            try:
                request = asyncio.create_task(
                    connection.client.call_tool(
                        tool,
                        given,
                        progress_callback=None if progress is None else _ProgressCallback(progress),
                        meta={key: value for key, value in meta.items() if value} or None,  # type: ignore[arg-type]
                    ),
                    name=f"planck-sidecar-{self.name}-{tool}",
                )
            finally:
                current_origin.reset(token)
            connection.origins[request] = origin
            try:
                return await answer_to(connection, request, seconds, tool)
            finally:
                del connection.origins[request]

        definition = self._definitions.get(tool)
        limit = timeout_ms if timeout_ms is not None else _limit(args)
        limit = (definition.timeout_ms if definition else MAX_TIMEOUT_MS) if limit is None else limit
        seconds = clamp_timeout_ms(limit) / 1_000
        if definition is not None and definition.declares_timeout:
            seconds += _OWN_LIMIT_GRACE
        repeat = definition is not None and definition.may_be_repeated
        return await self._request(make, seconds, tool, repeat=repeat)

    async def list_resources(self) -> tuple[ResourceDefinition, ...]:
        """Return the resources and templates of resources that the sidecar offers.

        Raises:
            SidecarError: If it does not run or does not answer.
        """
        from planck_nb.sidecars.link import offers  # noqa: PLC0415 - loads mcp

        return await self._read(offers.resources, "the list of its resources")

    async def read_resource(self, uri: str) -> list[TextPart | ImagePart]:
        """Read a resource.

        Args:
            uri: Its address, such as "file:///notes.md".

        Returns:
            Its content as parts of a message.

        Raises:
            SidecarError: If the sidecar has no such resource, does not run or does not answer.
        """
        from planck_nb.sidecars.link import offers  # noqa: PLC0415 - loads mcp

        return await self._read(lambda client: offers.resource(client, uri), uri)

    async def list_prompts(self) -> tuple[PromptDefinition, ...]:
        """Return the prompts that the sidecar offers.

        Raises:
            SidecarError: If it does not run or does not answer.
        """
        from planck_nb.sidecars.link import offers  # noqa: PLC0415 - loads mcp

        return await self._read(offers.prompts, "the list of its prompts")

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[TextPart | ImagePart]:
        """Fetch a prompt, with its arguments filled in.

        Args:
            name: The name of the prompt.
            arguments: Its arguments.

        Returns:
            The content of its messages, as parts of one user message; those of the assistant are marked.

        Raises:
            SidecarError: If the sidecar has no such prompt, does not run or does not answer.
        """
        from planck_nb.sidecars.link import offers  # noqa: PLC0415 - loads mcp

        return await self._read(lambda client: offers.prompt(client, name, dict(arguments or {})), name)

    # Calls

    async def _read(self, read: Callable[[Client], Coroutine[Any, Any, T]], what: str) -> T:
        """Make a request that may be repeated."""
        from planck_nb.sidecars.link.responses import answer_to  # noqa: PLC0415 - loads mcp

        async def make(connection: Connection, seconds: float) -> T:
            request = asyncio.create_task(read(connection.client))
            return await answer_to(connection, request, seconds, what)

        return await self._request(make, _READ_SECONDS, what, repeat=True)

    async def _request(
        self, make: Callable[[Connection, float], Awaitable[T]], seconds: float, what: str, *, repeat: bool
    ) -> T:
        """Make a request on the loop of the link; once more if it was lost and may be repeated."""
        loop = self._loop
        if loop is not None and not is_running_here(loop) and loop.is_running():
            return await await_in_loop(loop, lambda: self._request(make, seconds, what, repeat=repeat))
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            connection = await self._connected(deadline, what)
            try:
                return await make(connection, max(deadline - connection.lost.get_loop().time(), 0.001))
            except SidecarLostError:
                if not repeat:
                    raise
                repeat = False

    async def _connected(self, deadline: float, what: str) -> Connection:
        """The connection; waits while the sidecar is starting."""
        while True:
            connection = self._connection
            if connection is not None and not connection.lost.done():
                return connection
            if self._status.state not in ("starting", "building", "connected"):
                raise SidecarError(self._not_running())
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                raise SidecarTimeoutError(
                    f"The sidecar {self.name} is being started again ({self._status.reason or 'not ready yet'}) and "
                    f"was not ready in time for {what}; try again later."
                ) from None

    # The supervisor

    async def _own(self) -> None:
        """Build and supervise. Whatever goes wrong, those who wait for the start are told."""
        try:
            await self._build_and_supervise()
        except Exception as error:  # noqa: BLE001 - such as of a callback
            self._fail(f"The sidecar {self.name} was given up: {type(error).__name__}: {error}")
        finally:
            if self._status.state not in ("idle", "failed"):
                self._enter("idle")
                self._emit("stopped")

    async def _build_and_supervise(self) -> None:
        if self._build is not None:
            self._emit("building")
            try:
                await self._unless_stopped(self._build(self._show_progress))
            except SidecarError as error:
                if not self._stopping.is_set():
                    self._fail(str(error))
                return
        self._enter("starting")
        self._emit("starting")
        await self._supervise()

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something, which is cancelled if the link is stopped. Raises `SidecarError` in that case."""
        doing, stopping = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise SidecarError(f"The sidecar {self.name} was stopped.")
            return doing.result()
        finally:
            await cancel_and_wait(stopping, doing)

    def _show_progress(self, line: str) -> None:
        self._log.add(line)
        self._emit("progress", line)

    async def _supervise(self) -> None:
        delay, failures, was_connected = self._timing.first_delay, 0, False
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, serving = await self._open()
            except SidecarError as error:
                reason = str(error)
                failures += 1
                if self._stopping.is_set():
                    return
                if not was_connected or failures >= self._timing.attempts:
                    self._fail(reason)
                    return
            else:
                was_connected, begun = True, loop.time()
                reason = await self._until_lost(connection, serving)
                if self._stopping.is_set():
                    return
                if loop.time() - begun >= self._timing.steady:
                    delay, failures = self._timing.first_delay, 0
                else:
                    failures += 1
                if failures >= self._timing.attempts:
                    reason = f"it was lost {failures} times in a row; the last time, {reason}"
                    self._fail(self._with_last_words(f"The sidecar {self.name} was given up: {reason}."))
                    return
            self._status = replace(self._status, restarts=self._status.restarts + 1)
            self._enter("starting", reason)
            if await self._stopped_within(delay):
                return
            delay = min(2 * delay, self._timing.longest_delay)
            self._emit("starting")

    async def _open(self) -> tuple[Connection, asyncio.Task[None]]:
        """Connect. Raises `SidecarError` with a sentence if that fails or takes too long."""
        try:
            await run_in_thread(_load)
        except ModuleNotFoundError as error:
            raise SidecarError(
                f"Sidecars need the package {error.name}, which is not installed; run `pip install 'planck-nb[mcp]'`."
            ) from error
        from planck_nb.sidecars.link.connection import Connection  # noqa: PLC0415 - loaded just before

        self._last_http_status = 0
        connection: Connection | None = None

        def on_end(reason: str) -> None:
            if connection is not None:
                connection.lose(reason)

        connection = Connection(
            self.spec,
            self._transport(on_end),
            log=self._log,
            ask=self._callbacks.ask,
            sample=self._callbacks.sample,
            root=self._cwd,
            question_seconds=self._timing.question,
            on_tools=lambda: self._tools_changed(connection),
        )
        serving = asyncio.create_task(connection.serve(), name=f"planck-sidecar-{self.name}-connection")
        serving.add_done_callback(lambda task: _note_end(connection, task))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                (serving, connection.ready, connection.lost, stopping),
                timeout=self._timing.start,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not any(future.done() for future in (serving, connection.ready, connection.lost, stopping)):
                connection.lose(f"it did not answer within {self._timing.start:g} s; check that it speaks MCP")
        finally:
            stopping.cancel()
            if not connection.ready.done() or connection.lost.done():
                await self._close(connection, serving)
        if self._stopping.is_set():
            await self._close(connection, serving)
            raise SidecarError(f"The sidecar {self.name} was stopped.")
        if not connection.ready.done() or connection.lost.done():
            raise self._why_not_connected(connection, serving)
        accepted = False
        try:
            accepted = await self._unless_stopped(self._is_accepted(connection))
        finally:
            if not accepted:
                await self._close(connection, serving)
        if not accepted:
            raise SidecarError(self._refused)
        self._connection = connection
        self._definitions = dict(connection.tools)
        self._enter("connected")
        self._emit("connected")
        self._tell_tools()
        return connection, serving

    async def _until_lost(self, connection: Connection, serving: asyncio.Task[None]) -> str:
        """Wait for the end of a connection and close it. Returns why it ended."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((connection.lost, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            connection.lose("it was stopped")
            self._connection = None
            await self._close(connection, serving)
        reason = connection.lost.result()
        if not self._stopping.is_set():
            self._enter("starting", reason)
            self._emit("exited" if "process" in reason else "disconnected", reason)
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
                await self._stopping.wait()
        return self._stopping.is_set()

    def _transport(self, on_end: Callable[[str], None]) -> AbstractAsyncContextManager[Any]:
        if self.spec.url:
            from planck_nb.sidecars.link.http_transport import connect_http  # noqa: PLC0415 - loads mcp

            return connect_http(self.spec, auth=self._auth, on_status=self._note_http_status)
        from planck_nb.sidecars.link.process_transport import run_process  # noqa: PLC0415 - loads mcp

        return run_process(
            self.name,
            [self.spec.command, *self.spec.args],
            cwd=self._cwd if self.spec.cwd is None else self._cwd / self.spec.cwd.expanduser(),
            environment=sidecar_environment(self._environment, self.spec.env),
            log=self._log,
            on_end=on_end,
            on_start=self._note_process,
            grace=self._timing.stop_grace,
        )

    async def _is_accepted(self, connection: Connection) -> bool:
        offered = tuple(connection.tools.values())
        digest = fingerprint(self.spec, offered)
        accept = self._callbacks.accept
        if accept is None or digest == self._accepted:
            self._accepted = digest
            return True
        decision = accept(self.spec, digest, offered)
        if not isinstance(decision, bool):
            decision = await decision
        if decision:
            self._accepted = digest
            return True
        changed = "has changed what it offers" if self._accepted else "is not trusted"
        self._refused = f"The sidecar {self.name} {changed}; look at its tools, trust it, and start it again."
        return False

    def _tools_changed(self, connection: Connection | None) -> None:
        if connection is None or connection is not self._connection:
            return
        spawn(self._adopt(connection), name=f"planck-sidecar-{self.name}-tools")

    async def _adopt(self, connection: Connection) -> None:
        """Use a changed list of tools, if it is accepted."""
        try:
            accepted = await self._is_accepted(connection)
        except Exception as error:  # noqa: BLE001 - of the callback
            accepted, self._refused = False, f"The sidecar {self.name} was given up: {type(error).__name__}: {error}"
        if accepted:
            self._definitions = dict(connection.tools)
            self._describe(connection)
            self._emit("tools_changed")
            self._tell_tools()
            return
        self._definitions, self._connection = {}, None
        self._stopping.set()
        connection.lose("it is no longer trusted")
        self._fail(self._refused)

    # State

    def _enter(self, state: SidecarState, reason: str = "") -> None:
        kept = self._status
        self._status = replace(
            kept, state=state, reason=reason, since=clock.time(), process=kept.process if state == "connected" else None
        )
        if self._connection is not None and state == "connected":
            self._describe(self._connection)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _describe(self, connection: Connection) -> None:
        offered = self._definitions.values()
        self._status = replace(
            self._status,
            tools=sum(item.role == ROLE_TOOL for item in offered),
            compactors=tuple(
                item.name.removeprefix(COMPACTOR_PREFIX) for item in offered if item.role == ROLE_COMPACTOR
            ),
            server=visible(connection.server[:100]),
            protocol=connection.protocol,
        )

    def _fail(self, reason: str) -> None:
        self._enter("failed", reason)
        self._emit("failed", reason)
        self._tell_tools()

    def _emit(self, kind: SidecarEventKind, text: str = "") -> None:
        if (handler := self._callbacks.on_event) is not None:
            self._call_back(lambda: handler(SidecarEvent(self.name, kind, text)))

    def _tell_tools(self) -> None:
        if self._callbacks.on_tools is not None:
            self._call_back(self._callbacks.on_tools)

    def _call_back(self, callback: Callable[[], None]) -> None:
        """Call a callback, whose failure must not end the supervision."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - as it says
            self._log.add(f"A callback failed: {type(error).__name__}: {error}")

    def _note_process(self, process: int) -> None:
        self._status = replace(self._status, process=process)

    def _note_http_status(self, status: int) -> None:
        self._last_http_status = status

    def _not_running(self) -> str:
        if self._status.state == "failed":
            return self._status.reason
        return f"The sidecar {self.name} is not running; start it with `%planck sidecar start {self.name}`."

    def _why_not_connected(self, connection: Connection, serving: asyncio.Task[None]) -> SidecarError:
        error = serving.exception() if serving.done() and not serving.cancelled() else None
        if isinstance(error, SidecarError) and str(error).startswith("The sidecar"):
            return error
        found = _innermost(error)
        if self._last_http_status in _DENIED:
            named = f" in {self.spec.token_variable}" if self.spec.token_variable else ""
            reason = f"refused to let us in (HTTP {self._last_http_status}); give it the right token{named}"
        elif self._last_http_status == _WRONG_HOST:
            reason = "does not accept this host name (HTTP 421); use the address that it was started with"
        elif self._last_http_status:
            reason = f"answered with HTTP {self._last_http_status}; check its address {self.spec.url}"
        elif found is not None and type(found).__module__.startswith("httpx2"):
            reason = f"cannot be reached at {self.spec.url} ({found or type(found).__name__}); check that it runs"
        else:
            reason = f"did not start: {connection.lost.result()}"
        return SidecarError(self._with_last_words(f"The sidecar {self.name} {reason}."))

    def _with_last_words(self, sentence: str) -> str:
        """The sentence, with the last line that the process wrote."""
        lines = [line for line in self._log.lines(20) if line.strip()] if self.spec.command else []
        return f"{sentence} It wrote: {one_line(lines[-1], _REASON_CHARACTERS)}" if lines else sentence


def _load() -> None:
    """Import what connections need, which takes half a second."""
    import planck_nb.sidecars.link.http_transport  # noqa: PLC0415
    import planck_nb.sidecars.link.process_transport  # noqa: F401, PLC0415


def _note_end(connection: Connection, task: asyncio.Task[None]) -> None:
    """The task that serves a connection has ended: by itself, or cancelled by the SDK because the server is gone."""
    error = None if task.cancelled() else task.exception()
    found = _innermost(error)
    if found is None:
        connection.lose("the connection was closed")
    else:
        connection.lose(one_line(visible(redact(str(found))) or type(found).__name__, _REASON_CHARACTERS).rstrip("."))


def _innermost(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _limit(args: JsonObject) -> float | None:
    """The time limit among the arguments. Raises `ToolError` if it is none."""
    given = args.get("timeout_ms")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ToolError(
            f"timeout_ms must be a number of milliseconds from {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS:,}, not {given!r}."
        )
    return given


class _ProgressCallback:
    """Shows what a tool reports, for the SDK."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._show((visible(message) if message else text) + "\n")
