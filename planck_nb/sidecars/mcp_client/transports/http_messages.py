"""HTTP responses with valid JSON-RPC messages only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from httpx2 import EventSource, ServerSentEvent
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, RequestId

from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES
from planck_nb.sidecars.mcp_client.transports.message_text import is_answer, read_messages
from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests, not_mcp

_FIRST_ERROR = 400
_ACCEPTED = 202
_EVENTS = "text/event-stream"
_REPLACED = ("content-encoding", "content-length", "content-type", "transfer-encoding")
"""Headers about the original body, which another one replaces."""


class MessageTransport(httpx2.AsyncBaseTransport):
    """A transport which reads messages leniently.

    What the MCP library would refuse is repaired, or becomes an error for the request which it answers.

    Args:
        transport: The transport for the requests.
        requests: The connection's open requests.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport, requests: OpenRequests) -> None:
        self._transport = transport
        self._requests = requests

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, for httpx2."""
        response = await self._transport.handle_async_request(request)
        status, kind = response.status_code, response.headers.get("content-type", "")
        answers = _request_id(request) if status < _FIRST_ERROR and status != _ACCEPTED else None
        wire = httpx2.Response(status, headers=response.headers, stream=response.stream)  # decodes compressed bodies
        if kind.lower().startswith(_EVENTS):
            stream = _Stream(_ended(wire.aiter_bytes()))
            source = httpx2.Response(status, headers={"content-type": kind}, stream=stream, request=request)
            content = _events(EventSource(source, MAX_MESSAGE_BYTES), self._requests, answers)
        elif answers is not None:  # whatever the server says that it is
            content, kind = _message(wire.aiter_bytes(), self._requests, answers), "application/json"
        else:
            content = _bounded(wire.aiter_bytes())
        headers = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _REPLACED]
        return httpx2.Response(
            status,
            headers=[*headers, *([("content-type", kind)] if kind else [])],
            stream=_Stream(content, response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


class TooLargeError(httpx2.StreamError):
    """A server's answer is too long."""


class _Stream(httpx2.AsyncByteStream):
    """A body.

    Args:
        content: Its bytes.
        original: The body on the wire, closed with it.
    """

    def __init__(self, content: AsyncIterator[bytes], original: Any = None) -> None:  # noqa: ANN401 - typed as sync or async
        self._content = content
        self._original = original

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._content:
            yield chunk

    async def aclose(self) -> None:
        if self._original is not None:
            await self._original.aclose()


def _request_id(request: httpx2.Request) -> RequestId | None:
    """Return the id of the JSON-RPC request in an HTTP request."""
    try:
        message = json.loads(request.content) if request.method == "POST" else None
    except (httpx2.RequestNotRead, ValueError):
        return None
    request_id = message.get("id") if isinstance(message, dict) and "method" in message else None
    return request_id if isinstance(request_id, int | str) else None


async def _bounded(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            raise TooLargeError(f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB")
        yield chunk


async def _message(chunks: AsyncIterator[bytes], requests: OpenRequests, answers: RequestId) -> AsyncIterator[bytes]:
    """Yield the message in a body, or an error in its place."""
    try:
        body = b"".join([chunk async for chunk in _bounded(chunks)])
    except httpx2.StreamError as error:  # too large
        messages: list[JSONRPCMessage] = [not_mcp(answers, str(error))]
    else:
        if is_answer(body, answers):
            yield body
            return
        messages = read_messages(body, requests, answers=answers, is_whole=True)
    candidates = [message for message in messages if isinstance(message, JSONRPCResponse | JSONRPCError)]
    answer = candidates[-1] if candidates else not_mcp(answers, "it is not an answer")
    yield answer.model_dump_json(by_alias=True, exclude_unset=True).encode()


async def _events(source: EventSource, requests: OpenRequests, answers: RequestId | None) -> AsyncIterator[bytes]:
    """Yield the events in a stream, with one message each."""
    async for event in source:
        texts = [event.data]
        if event.event == "message" and event.data:
            data = event.data.encode("utf-8", "replace")
            if not is_answer(data, answers):
                messages = read_messages(data, requests, answers=answers)
                texts = [message.model_dump_json(by_alias=True, exclude_unset=True) for message in messages]
        yield "".join(_event(event, text) for text in texts or [""]).encode()


async def _ended(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks, and an end for the last event."""
    async for chunk in chunks:
        yield chunk
    yield b"\n\n"


def _event(event: ServerSentEvent, data: str) -> str:
    fields = {"event": event.event, "id": event.id, "retry": event.retry}
    lines = [f"{name}: {value}\n" for name, value in fields.items() if value not in ("", "message", None)]
    return "".join([*lines, *(f"data: {line}\n" for line in data.split("\n")), "\n"])
