"""Models of Acme for planck_nb: a provider with its own wire format and signed requests, in one module.

It is an example. Acme's format has one JSON object per line: `{"text": …}`, `{"call": {"id", "name", "arguments"}}`,
`{"error": …}`, and at the end `{"done": true, "tokens": [input, output]}`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from planck_nb import ai
from planck_nb.ai import dialects
from planck_nb.errors import ProviderError


class Acme:
    """The wire format: a request from a context, events from lines."""

    framing: Literal["sse", "ndjson"] = "ndjson"

    def request(self, model: ai.Model, context: ai.Context, options: ai.Options, key: str | None) -> ai.WireRequest:
        """The request for one reply. There is no key, because requests are signed."""
        body: dict[str, Any] = {
            "model": model.id,
            "system": context.system,
            "messages": [turn for message in dialects.prepare(context.messages, model) for turn in turns(message)],
            "tools": [{"name": tool.name, "schema": tool.parameters} for tool in context.tools],
        }
        if options.max_tokens is not None:
            body["limit"] = options.max_tokens
        return ai.WireRequest(f"{dialects.base_url_of(model)}/generate", {**body, **options.extra})

    def decoder(self, model: ai.Model) -> AcmeDecoder:
        """A decoder for one reply."""
        return AcmeDecoder(model)

    def error(self, model: ai.Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error for an HTTP status; Acme's bodies have a usual shape."""
        return dialects.body_error(model, status, headers, body)


def turns(message: ai.Message) -> Iterable[dict[str, Any]]:
    """A message in Acme's words."""
    if message.type == "tool_result":
        for result in message.content:
            yield {"role": "tool", "call": result.id, "text": result.text}
    elif message.type == "assistant":
        calls = [{"id": call.id, "name": call.name, "arguments": call.args} for call in message.tool_calls]
        yield {"role": "assistant", "text": message.text, "calls": calls}
    else:
        yield {"role": "user", "text": message.text}


class AcmeDecoder:
    """Turns the lines of one reply into events. A part has an index; its chunks come first, then its end."""

    def __init__(self, model: ai.Model) -> None:
        self._model = model
        self._parts = 0
        self._in_text = False
        self._finished = False

    def feed(self, data: bytes) -> Iterable[ai.StreamEvent]:
        """The events of one line."""
        line = dialects.read_object(data, self._model)
        if "error" in line:
            raise dialects.status_error(self._model, 500, str(line["error"]))
        if text := line.get("text"):
            if not self._in_text:
                self._in_text, self._parts = True, self._parts + 1
            yield ai.TextChunk(self._parts - 1, text)
        if call := line.get("call"):
            yield from self._end_text()
            yield ai.ToolCallStart(self._parts, call["id"], call["name"])
            yield ai.ToolArgsChunk(self._parts, call["arguments"])
            yield ai.PartEnd(self._parts)
            self._parts += 1
        if line.get("done"):
            yield from self._end_text()
            self._finished = True
            yield ai.UsageUpdate(ai.Usage(*line["tokens"]))
            yield ai.Finish("stop")

    def end(self) -> Iterable[ai.StreamEvent]:
        """The bytes ended, which is an error before the line that is the last."""
        if not self._finished:
            raise dialects.truncated(self._model)
        return ()

    def _end_text(self) -> Iterable[ai.StreamEvent]:
        if self._in_text:
            self._in_text = False
            yield ai.PartEnd(self._parts - 1)


def sign(request: ai.OutgoingRequest) -> dict[str, str]:
    """The credentials of one request: a signature of what is sent."""
    secret = os.environ["ACME_SECRET"].encode()
    signature = hmac.new(secret, f"{request.method} {request.url}\n".encode() + request.body, hashlib.sha256)
    return {"Authorization": f"ACME {signature.hexdigest()}"}


def register() -> None:
    """Make the provider known. The entry point in pyproject.toml refers to this function."""
    ai.register(ai.Provider("acme", base_url="https://llm.acme.example", auth=sign), Acme())
