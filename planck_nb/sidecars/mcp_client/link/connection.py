"""A connection to a sidecar, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl

from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import SidecarError, SidecarSignInError
from planck_nb.base.secrets import redact
from planck_nb.base.version import __version__
from planck_nb.sidecars.conventions import MAX_TIMEOUT_MS
from planck_nb.sidecars.mcp_client.link.call_origin import CallOrigin, current_origin
from planck_nb.sidecars.mcp_client.link.call_progress import CallProgress
from planck_nb.sidecars.mcp_client.link.questions import Ask, Question, QuestionAnswer, answer_of, question_of
from planck_nb.sidecars.mcp_client.link.sampling import Sample, sampling_request
from planck_nb.sidecars.mcp_client.offers.definitions import LeftOut, ToolDefinition, tool_definition
from planck_nb.sidecars.mcp_client.offers.listing import list_all
from planck_nb.sidecars.mcp_client.offers.result_check import ResultCheck
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines

_MAX_QUESTIONS = 8
"""Largest number of open questions, so a person is not flooded."""

_QUESTION_CHECK = 0.2
"""Seconds between two checks for open questions."""

_LONGEST_PROGRESS = 10
"""Longest call with progress, in multiples of its time limit."""

_SUBSCRIBE_AGAIN = 1.0
"""Seconds between a subscription's end and the next subscription."""

for _name in ("mcp", "client"):  # the SDK's; without a handler Python would print its warnings into a cell
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Connection:
    """A connection, opened and closed by `serve` in one task.

    Calls are made from other tasks.

    Args:
        spec: The sidecar.
        transport: Opens its message streams.
        log: Gets the sidecar's log.
        ask: Asks a person, None without a person.
        sample: Has a model reply, None if that is not allowed.
        root: The folder to tell the sidecar, if its spec allows that.
        question_seconds: Time for a person's answer.
        on_tools: Called when the list of tools has changed.
        is_older: Whether to use the newest protocol with a handshake, in which servers can ask at any time.
    """

    def __init__(
        self,
        spec: SidecarSpec,
        transport: AbstractAsyncContextManager[Any],
        *,
        log: LogLines,
        ask: Ask | None,
        sample: Sample | None,
        root: Path,
        question_seconds: float,
        on_tools: Callable[[], None],
        is_older: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        """Done with a reason as soon as calls remain unanswered."""
        self.failure: SidecarSignInError | None = None
        """The reason why connecting again is pointless."""
        self.tools: dict[str, ToolDefinition] = {}
        self.left_out: dict[str, tuple[LeftOut, ...]] = {}
        """Unusable items in its newest lists, by kind."""
        self.sidecar = spec.name
        self.is_older = is_older
        self.server = ""
        self.protocol = ""
        self.open_questions = 0
        self.waited = 0.0
        """Seconds with open questions; calls' time limits exclude them."""
        self.origins: dict[asyncio.Task[Any], CallOrigin] = {}
        """The calls in flight."""
        self._spec = spec
        self._secrets = spec.secrets()
        self._log = log
        self._ask = ask
        self._root = root
        self._question_seconds = question_seconds
        self._on_tools = on_tools
        self._closing = asyncio.Event()
        self._checks: dict[str, ResultCheck] = {}
        self._listing = asyncio.Lock()
        self._waits_to_list = False
        self._sample = sample if spec.sampling else None
        self.client = Client(
            transport,
            cache=None,
            mode="legacy" if is_older else "auto",
            client_info=types.Implementation(name="planck_nb", version=__version__),
            elicitation_callback=self._elicit,
            sampling_callback=self._reply if self._sample is not None else None,
            list_roots_callback=self._roots if spec.roots else None,
            logging_callback=self._note,
            message_handler=self._handle,
        )

    async def ask(self, question: Question) -> QuestionAnswer | None:
        """Show planck_nb's own question about the sidecar to the person.

        The result is None without a person.
        """
        return None if self._ask is None else await self._ask(question)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Return a context in which time limits are paused."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        self.open_questions += 1
        try:
            yield
        finally:
            self.open_questions -= 1
            self.waited += loop.time() - start

    def failed(self, error: SidecarSignInError) -> None:
        """Give up the connection for good, because the sign-in failed."""
        self.failure = error
        self.lose(str(error).rstrip("."))

    async def first_of(
        self, *futures: asyncio.Future[Any], seconds: float, progress: CallProgress | None = None
    ) -> bool:
        """Wait up to this long, without the time for open questions.

        Each progress starts the time anew, up to ten times as long; the protocol
        [asks for a maximum](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts).

        Returns:
            Whether any future is done.
        """
        loop = asyncio.get_running_loop()
        earlier, start = self.waited, loop.time()
        latest = start + min(_LONGEST_PROGRESS * seconds, max(MAX_TIMEOUT_MS / 1_000, seconds))
        while True:
            newest = start if progress is None else max(progress.newest, start)
            left = min(newest + seconds, latest) + self.waited - earlier - loop.time()
            if left <= 0 and not self.open_questions:
                return False
            timeout = _QUESTION_CHECK if self.open_questions else left
            await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if any(future.done() for future in futures):
                return True

    def lose(self, reason: str) -> None:
        """Give up all calls in flight; the first reason counts."""
        if not self.lost.done():
            self.lost.set_result(reason)

    def check(self) -> None:
        """Find out whether the server still answers.

        If it is gone, the SDK ends the connection.
        """
        if self.ready.done() and not self.lost.done():
            spawn(self._refresh(), name=f"planck-sidecar-{self._spec.name}-check")

    def close(self) -> None:
        """Have `serve` end."""
        self._closing.set()

    async def serve(self) -> None:
        """Open the connection, keep it open until `close`, and close it."""
        async with self.client as client:
            info = client.server_info
            self.server = redact(" ".join(filter(None, (info.name, info.version))) if info else "", self._secrets)
            self.protocol = client.protocol_version
            client.session.validate_tool_result = self._check_result  # type: ignore[method-assign] # which would block
            await self.list_tools()
            if not self.ready.done():
                self.ready.set_result(None)
            changes = asyncio.create_task(self._follow_changes(), name=f"planck-sidecar-{self._spec.name}-changes")
            try:
                await self._closing.wait()
            finally:
                await cancel_and_wait(changes)

    async def list_tools(self) -> None:
        """Fetch all tools, or raise the SDK's errors or `SidecarError`."""
        async with self._listing:
            self._waits_to_list = False
            tools: dict[str, ToolDefinition] = {}
            if self.client.server_capabilities.tools is not None:
                for tool in await self.fetch_list(
                    "tool", "tools", lambda at: self.client.list_tools(cursor=at), "name"
                ):
                    definition = tool_definition(tool).redacted(self._secrets)
                    if definition.name == tool.name:  # a name with a secret would go to the model
                        tools[tool.name] = definition
            self.tools = tools

    async def fetch_list(
        self, kind: str, field: str, fetch: Callable[[str | None], Awaitable[Any]], key: str
    ) -> list[Any]:
        """Fetch a list, and note its unusable items.

        Args:
            kind: An item's kind, for people.
            field: The list's field in a page.
            fetch: Fetches the page at a cursor.
            key: The field which identifies an item.
        """
        try:
            listing = await list_all(fetch, field, key)
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                raise
            self._log.add(f"It has no list of {field}: {error}")
            return []
        left_out = tuple(LeftOut(kind, redact(name, self._secrets), reason) for name, reason in listing.left_out)
        if listing.remark:
            self._log.add(listing.remark)
        for item in left_out if left_out != self.left_out.get(kind) else ():
            self._log.add(f"The {kind} {item.name} is left out, because {item.reason}.")
        self.left_out[kind] = left_out
        return listing.items

    async def _check_result(self, name: str, result: types.CallToolResult) -> None:
        """Check a call's result instead of the SDK.

        Raises `SidecarError` for a result unlike its schema.
        """
        definition = self.tools.get(name)
        if definition is None or definition.output_schema is None:
            return
        check = self._checks.get(name)
        if check is None or check.schema is not definition.output_schema:
            check = self._checks[name] = ResultCheck(definition.output_schema)
        is_absent = result.structured_content is None and "structured_content" not in result.model_fields_set
        if is_absent and result.content:  # the text is all that a model needs
            return
        problem = "it is missing" if is_absent else await check.problem(result.structured_content)
        if problem:
            raise SidecarError(
                f"{name} of the sidecar {self.sidecar} returned content that does not match its own schema: {problem}."
            )

    async def _follow_changes(self) -> None:
        """Subscribe to the lists' changes, if the server's protocol requires it."""
        tools = self.client.server_capabilities.tools
        if self.protocol not in MODERN_PROTOCOL_VERSIONS or not (tools and tools.list_changed):
            return
        with suppress(MCPError, TimeoutError):  # the server does not offer it after all
            while True:
                with suppress(SubscriptionLost):
                    async with self.client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            await self._refresh()
                await asyncio.sleep(_SUBSCRIBE_AGAIN)
                await self._refresh()

    async def _refresh(self) -> None:
        """Fetch the tools again.

        However often a server announces changes, only one fetch waits.
        """
        if self._waits_to_list:
            return
        before = self.tools, self.left_out.get("tool")
        self._waits_to_list = True
        with suppress(MCPError, SidecarError, ValueError, RuntimeError):  # the former list stays
            await self.list_tools()
        if (self.tools, self.left_out.get("tool")) != before:
            self._on_tools()

    async def _handle(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification) and self.ready.done():
            await self._refresh()

    async def _note(self, params: types.LoggingMessageNotificationParams) -> None:
        self._log.add(f"{params.level}: {params.data}")

    def _origin(self) -> CallOrigin:
        """Return the call behind a server's request.

        Before 2026-07-28 the protocol does not say.
        """
        if (origin := current_origin.get(None)) is not None:
            return origin
        calls = [origin for origin in self.origins.values() if origin.agent_id]  # observers' calls belong to no agent
        return calls[0] if len(calls) == 1 else CallOrigin()

    async def _elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the name is the SDK's
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        origin = self._origin()
        question = question_of(
            self._spec.name,
            params,
            agent_id=origin.agent_id,
            call_id=origin.call_id,
            seconds=self._question_seconds,
        )
        if self.open_questions >= _MAX_QUESTIONS:
            self._log.add(f"A question was declined, because {_MAX_QUESTIONS} others are open.")
            return types.ElicitResult(action="decline")
        with self.waiting():
            answer, problem = await answer_of(question, self._ask)
        if problem:
            self._log.add(f"{question.message}\n{problem}")
        content: Any = dict(answer.content) if answer.action == "accept" and not question.url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def _reply(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the name is the SDK's
        params: types.CreateMessageRequestParams,
    ) -> types.CreateMessageResult | types.ErrorData:
        if self.open_questions >= _MAX_QUESTIONS:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Too many requests wait for the user.")
        with self.waiting():
            return await self._sampled(params)

    async def _sampled(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult | types.ErrorData:
        origin = self._origin()
        request = sampling_request(self._spec.name, params, agent_id=origin.agent_id, call_id=origin.call_id)
        try:
            reply = await self._sample(request) if self._sample is not None else None
        except Exception as error:  # noqa: BLE001 - reported to the sidecar, whatever it is
            self._log.add(f"A reply for the sidecar failed: {type(error).__name__}: {error}")
            return types.ErrorData(code=types.INTERNAL_ERROR, message="The model did not reply.")
        if reply is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="The user did not allow the request.")
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason=reply.stop_reason,
        )

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG002 - as above
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(self._root.absolute().as_uri()), name=self._root.name)]
        )
