"""Tool calls over MCP: their places, their progress and their questions."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.base.errors import PlanckError, ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.sidecars.author.call_results import call_result, failure
from planck_nb.sidecars.author.elicitation import Elicited, asking_with
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.offer import Offer
from planck_nb.sidecars.author.sidecar_tools import SidecarTool
from planck_nb.sidecars.author.worker_pool import WorkerCall, WorkerPool
from planck_nb.sidecars.conventions import AGENT_ID, CALL_ID, RUNS_PROCESS, RUNS_THREAD

Context = ServerRequestContext[Any, Any]

_ANSWER_TIMEOUT = 600.0
"""Seconds for which a call waits for its client's answer."""

_QUESTION = "question"
"""Key for the only question in a round."""

Send = Callable[[float, str], Awaitable[None]]
"""A function which sends a notification, by number and text."""


@dataclass(frozen=True, slots=True)
class _Question:
    message: str
    schema: JsonObject
    answer: asyncio.Future[Elicited]


class _ServedCall:
    """A tool call; its client may come back with answers several times."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.task: asyncio.Task[JsonObject] | None = None
        self.question: _Question | None = None
        self.asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.expiry: asyncio.TimerHandle | None = None

    async def send_progress(self, count: float, text: str) -> None:
        await self.context.session.report_progress(count, None, text)

    async def ask(self, message: str, schema: JsonObject) -> Elicited:
        capabilities = self.context.session.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            raise ToolError("The client cannot ask its user questions; call the tool with all that it needs.")
        if self.context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self._ask_in_result(message, schema)
        reply = await self.context.session.elicit_form(message, schema, self.context.request_id)
        return Elicited(reply.action, reply.content or {})

    async def _ask_in_result(self, message: str, schema: JsonObject) -> Elicited:
        self.question = _Question(message, schema, asyncio.get_running_loop().create_future())
        self.asked.set_result(None)
        return await self.question.answer


class ProgressNotes:
    """Progress notifications for a call, in order and without waiting.

    Args:
        send: Sends a notification to the client.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self._count = 0
        self._sending: asyncio.Task[None] | None = None
        self.report = ProgressReporter(self._put)
        """Shows text, from any thread; quick texts are joined."""

    def _put(self, text: str) -> None:
        if self._sending is None:  # most tools report nothing
            self._sending = asyncio.get_running_loop().create_task(self._send_all())
        self._texts.put_nowait(text)

    async def finish(self) -> None:
        """Send the remaining texts; called when the tool has ended."""
        self.report.close()
        if self._sending is not None:
            self._texts.put_nowait(None)
            await self._sending

    async def _send_all(self) -> None:
        while (text := await self._texts.get()) is not None:
            self._count += 1
            with suppress(Exception):  # the client has gone, and the call will notice
                await self.send(float(self._count), encodable(text))


class ToolCalls:
    """Calls to a sidecar's tools.

    Args:
        live: The sidecar's offers.
    """

    def __init__(self, live: LiveOffer) -> None:
        self._live = live
        self._pool = WorkerPool(live.reference, live.offer.processes, live.digests)
        self._reloads = live.reloads
        self._waiting: dict[str, _ServedCall] = {}

    async def __call__(
        self, context: Context, params: types.CallToolRequestParams, changed: Callable[[], Awaitable[None]]
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool.

        `changed` is awaited first if the code was loaded again.
        """
        if params.request_state is not None:
            return await self._resume(context, params)
        try:
            offer = await self._live.current()
            if params.name not in offer.tools:
                offer = self._live.renewed()
        except PlanckError as error:
            return _as_result(failure(str(error)))
        await self._notice_reload(changed)
        if params.name not in offer.tools:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool: {params.name}")
        return await self._start(context, params, offer)

    async def aclose(self) -> None:
        """End idle processes and waiting calls."""
        for call in self._waiting.values():
            if call.task is not None:
                call.task.cancel()
        await self._pool.aclose()

    async def _notice_reload(self, changed: Callable[[], Awaitable[None]]) -> None:
        if self._reloads != self._live.reloads:
            self._reloads = self._live.reloads
            self._pool.renew()
            await changed()

    async def _start(
        self, context: Context, params: types.CallToolRequestParams, offer: Offer
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = offer.tools[params.name]
        call = _ServedCall(context)
        meta: Mapping[str, Any] = dict(context.meta or {})
        running = self._run(call, tool, dict(params.arguments or {}), meta)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return _as_result(await running)
        call.task = asyncio.get_running_loop().create_task(running)
        return await self._until_asked(call)

    async def _run(self, call: _ServedCall, tool: SidecarTool, args: JsonObject, meta: Mapping[str, Any]) -> JsonObject:
        notes = ProgressNotes(call.send_progress)
        agent_id, call_id = str(meta.get(AGENT_ID, "")), str(meta.get(CALL_ID, ""))
        try:
            if tool.runs == RUNS_PROCESS:
                return await self._pool.call(WorkerCall(tool.name, args, agent_id, call_id, notes.report))
            with asking_with(call.ask):
                return await call_result(tool, args, agent_id=agent_id, call_id=call_id, progress=notes.report)
        except asyncio.CancelledError:
            if tool.runs == RUNS_THREAD:
                _log(f"{tool.name} was cancelled; it runs in a thread and may still be running.")
            raise
        finally:
            await notes.finish()

    async def _until_asked(self, call: _ServedCall) -> types.CallToolResult | types.InputRequiredResult:
        """Wait until the call ends or asks a question.

        The question is then the result.
        """
        if call.task is None:
            raise RuntimeError("The call was not started.")
        either: list[asyncio.Future[Any]] = [call.task, call.asked]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.task.cancel()
            raise
        if call.task.done() or call.question is None:
            return _as_result(await call.task)
        state = secrets.token_urlsafe()
        self._waiting[state] = call
        call.expiry = asyncio.get_running_loop().call_later(_ANSWER_TIMEOUT, self._expire, state)
        request = types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=call.question.message, requested_schema=call.question.schema)
        )
        return types.InputRequiredResult(input_requests={_QUESTION: request}, request_state=state)

    async def _resume(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        call = self._waiting.pop(params.request_state or "", None)
        if call is None or call.question is None:
            raise MCPError(
                types.INVALID_PARAMS, f"{params.name} no longer waits for an answer; call it again from the beginning."
            )
        if call.expiry is not None:
            call.expiry.cancel()
        question, call.question = call.question, None
        call.context = context
        call.asked = asyncio.get_running_loop().create_future()
        reply = (params.input_responses or {}).get(_QUESTION)
        if not question.answer.done():
            question.answer.set_result(_elicited(reply))
        return await self._until_asked(call)

    def _expire(self, state: str) -> None:
        call = self._waiting.pop(state, None)
        if call is not None and call.task is not None:
            call.task.cancel()


def _elicited(given: object) -> Elicited:
    if isinstance(given, types.ElicitResult):
        return Elicited(given.action, given.content or {})
    return Elicited("cancel")


def _as_result(result: JsonObject) -> types.CallToolResult:
    return types.CallToolResult.model_validate(result, by_name=False)


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the kernel shows it with `%planck sidecar logs`
