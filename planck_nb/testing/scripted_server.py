"""A server with scripted replies, for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from planck_nb.ai.dialects.demo import Reply
from planck_nb.ai.models import Model, as_found

_WORDS_BEFORE_HOLD = 2


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reply with an HTTP status in place of an answer.

    Args:
        status: The status.
        text: What the server says.
        headers: Its headers, such as "retry-after".
    """

    status: int
    text: str = "no"
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedServer:
    """A Chat Completions server on this machine with scripted replies.

    A conversation gets the script's replies one after another, word by word; refusals come first, whoever asks.

    Args:
        script: The replies: strings, `Reply` objects or their JSON data.
        refusals: Refusals for the first requests.
        held: Whether each answer stops after two words until `release` is called.
        pace: Seconds between words.

    Example:
        >>> import asyncio
        >>> from planck_nb import ai
        >>> async def main():
        ...     async with ScriptedServer(["Hello there."]) as server, ai.Client() as client:
        ...         reply = await client.complete(server.model(), ai.Context(messages=[ai.UserMessage("hi")]))
        ...         return reply.text, len(server.requests)
        >>> asyncio.run(main())
        ('Hello there.', 1)
    """

    def __init__(
        self,
        script: Sequence[object],
        *,
        refusals: Sequence[Refusal] = (),
        held: bool = False,
        pace: float = 0.0,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        """All requests' bodies."""
        self.keys: list[str] = []
        """Their credentials."""
        self.answering = 0
        """Answers on their way."""
        self.ended_early = 0
        """Answers whose connection was closed before their end."""
        self._script = [Reply.parse(reply) for reply in script]
        self._refusals = list(refusals)
        self._is_held = held
        self._pace = pace
        self._released = asyncio.Event()
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._port = 0

    def model(self, name: str = "scripted", **facts: Any) -> Model:  # noqa: ANN401 - of `Model`
        """Make the server's model.

        Args:
            name: The model's id.
            facts: Further arguments for `Model`.

        Returns:
            The model, whose API key is "scripted-key".
        """
        address = f"http://127.0.0.1:{self._port}/v1"
        facts = {"api_key": "scripted-key", **facts}
        return as_found(Model(provider="openai", id=name, api="chat", base_url=address, **facts))

    def release(self) -> None:
        """Let all held answers go on."""
        self._released.set()

    async def until(self, *, requests: int = 0, answering: int | None = None, ended_early: int = 0) -> None:
        """Wait for requests and answers.

        Args:
            requests: At least so many requests.
            answering: Exactly so many answers being sent, None for any number.
            ended_early: At least so many answers with an early end.
        """

        def is_reached() -> bool:
            fits = answering is None or self.answering == answering
            return fits and len(self.requests) >= requests and self.ended_early >= ended_early

        async with self._changed:
            await self._changed.wait_for(is_reached)

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**30)
        application.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("authorization", "").removeprefix("Bearer "))
        await self._tell()
        if self._refusals:
            refusal = self._refusals.pop(0)
            error = {"error": {"message": refusal.text, "type": "scripted"}}
            return web.json_response(error, status=refusal.status, headers=refusal.headers)
        number_of_replies = sum(message["role"] == "assistant" for message in body["messages"])
        if number_of_replies >= len(self._script):
            error = {"error": {"message": f"the script ends after {len(self._script)} replies"}}
            return web.json_response(error, status=400)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.answering += 1
        await self._tell()
        is_whole = False
        try:
            async for chunk in self._chunks(self._script[number_of_replies], body):
                await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            if self._script[number_of_replies].error is None:
                await response.write(b"data: [DONE]\n\n")
            is_whole = True
        finally:
            self.answering -= 1
            self.ended_early += not is_whole
            await asyncio.shield(self._tell())
        return response

    async def _chunks(self, reply: Reply, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Make a reply's chunks."""
        results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        text = reply.text.replace("{result}", str(results[-1]) if results else "")
        if reply.thinking:
            yield _chunk({"reasoning_content": reply.thinking})
        for number, word in enumerate(_words(text)):
            if number == _WORDS_BEFORE_HOLD and self._is_held:
                await self._released.wait()
            yield _chunk({"content": word})
            if self._pace:
                await asyncio.sleep(self._pace)
        for index, call in enumerate(reply.calls):
            arguments = json.dumps(dict(call.args))
            function = {"name": call.name, "arguments": arguments}
            yield _chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]})
        if reply.error is not None:
            yield {"error": {"message": reply.error}}
            return
        reason = {"length": "length", "refusal": "content_filter"}.get(reply.stop_reason or "")
        counts = {"prompt_tokens": 10 * len(body["messages"]), "completion_tokens": len(_words(text)) + 1}
        finish = reason or ("tool_calls" if reply.calls else "stop")
        yield {**_chunk({}, finish), "usage": {**counts, "total_tokens": sum(counts.values())}}

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "model": "scripted", "choices": [choice]}
