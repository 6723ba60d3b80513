"""Reads JSON-RPC messages, also odd ones.

The MCP library's strict reader comes first. Other texts are read leniently, because a call with an unrecognised answer
would wait until its time limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mcp_types import (
    INTERNAL_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_REQUESTS

from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable_data, one_line
from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests, not_mcp

_METHODS = {method for method, _ in (*SERVER_REQUESTS, *SERVER_NOTIFICATIONS)}
_START = re.compile(r"[{\[]")
_OUTCOMES = ("result", "error")
_STARTS = 5
"""Places in a line to look for a message after other text."""

_START_CHARACTERS = 80

_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]*")'
_ID_AT_THE_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_ID_AT_THE_END = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_ANSWER = re.compile(rb'\s*\{.{0,200}"(?:result|error)"\s*:', re.DOTALL)


def is_answer(data: bytes, request_id: RequestId | None) -> bool:
    """Return whether a text is a valid answer to a request."""
    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        return False
    return isinstance(message, JSONRPCResponse | JSONRPCError) and message.id == request_id


def read_messages(
    data: bytes, requests: OpenRequests, *, answers: RequestId | None = None, is_whole: bool = False
) -> list[JSONRPCMessage]:
    """Read the messages in a text, usually one.

    Repaired are lone surrogates, invalid UTF-8, control characters, a missing `jsonrpc`, batches, several messages on
    one line, text before a message, and errors of another shape. An answer to an open request which cannot be used is
    returned as an error for this request.

    Args:
        data: A line, an event's data, or a body.
        requests: The open requests.
        answers: The request with an expected answer, if the transport says so; an answer's own id is ignored.
        is_whole: Whether the text can only be this answer.

    Returns:
        The messages; empty for something else, such as a line for people.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        values = list(_values(text))
        messages = [message for at, value in values for message in _messages_in(value, requests, answers, at == 0)]
        if messages or (values and values[0][0] == 0 and not is_whole):  # or a log's line in JSON
            return messages
        request_id = answers if is_whole else _id_in(data, data, requests)
        start = one_line(text[: 2 * _START_CHARACTERS], _START_CHARACTERS)
        problem = f"it is not JSON-RPC: {start}" if start else "it is empty"
        return [] if request_id is None else [not_mcp(request_id, problem)]
    if answers is not None and isinstance(message, JSONRPCResponse | JSONRPCError):
        message.id = answers
    return [message]


def too_long(head: bytes, tail: bytes, requests: OpenRequests, sentence: str) -> JSONRPCError | None:
    """Return an error for an overlong answer, None for an unknown request."""
    request_id = _id_in(head, tail, requests)
    return None if request_id is None else not_mcp(request_id, sentence)


def kind_of(value: object) -> str:
    """Return a JSON value's kind in words: "null", "a list", "a text"."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number"
        case str():
            return "a text" if value else "an empty text"
        case list():
            return "a list"
        case _:
            return "an object"


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the JSON objects and lists in a text with their positions."""
    decoder = json.JSONDecoder(strict=False)  # lets control characters in strings pass
    position, attempts = 0, 0
    while attempts < _STARTS and (start := _START.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, start.start())
            yield start.start(), encodable_data(value)
        except (ValueError, RecursionError):
            position = start.end()
            attempts += 1


def _messages_in(
    value: Any,  # noqa: ANN401 - any JSON value
    requests: OpenRequests,
    answers: RequestId | None,
    is_first: bool,
) -> Iterator[JSONRPCMessage]:
    if isinstance(value, list):  # a batch
        for item in value:
            if isinstance(item, dict):
                yield from _messages_in(item, requests, answers, is_first)
    elif "method" in value:
        yield from _call(value)
    elif "jsonrpc" in value or (answers is not None and not value.keys().isdisjoint(_OUTCOMES)):
        request_id = requests.matching(value.get("id")) if answers is None else answers
        if request_id is not None:
            yield _answer(value, request_id)
    # Without JSON-RPC's mark it may be a log's line, so the id has to be right.
    elif is_first and not value.keys().isdisjoint(_OUTCOMES) and value.get("id") in requests:
        yield _answer(value, value["id"])


def _call(value: JsonObject) -> Iterator[JSONRPCMessage]:
    """Yield the request or notification in an object, if it is one."""
    if "jsonrpc" not in value and value["method"] not in _METHODS:
        return
    params = value.get("params")
    fields = {key: value[key] for key in ("id", "method") if value.get(key) is not None}
    if isinstance(params, dict):
        fields["params"] = params
    with suppress(ValueError):
        yield jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **fields}, by_name=False)


def _answer(value: JsonObject, request_id: RequestId) -> JSONRPCMessage:
    result, error = value.get("result"), value.get("error")
    if error:
        return JSONRPCError.model_validate({"jsonrpc": "2.0", "id": request_id, "error": _error(error)})
    if isinstance(result, dict) or result == []:  # PHP has no other empty object
        return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result or {})
    if "result" in value:
        return not_mcp(request_id, f"its result is {kind_of(result)}")
    return not_mcp(request_id, "it has neither a result nor an error")


def _error(error: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
    """Return an error in JSON-RPC's shape."""
    fields = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message", fields)
    has_code = isinstance(code, int) and not isinstance(code, bool)
    return {
        "code": code if has_code else INTERNAL_ERROR,
        "message": message if isinstance(message, str) else json.dumps(message, ensure_ascii=False),
        "data": fields.get("data"),
    }


def _id_in(head: bytes, tail: bytes, requests: OpenRequests) -> RequestId | None:
    """Return the open request which a text that cannot be read answers."""
    match = _ID_AT_THE_START.match(head) or _ID_AT_THE_END.search(tail)
    if match is not None:
        text = match[1].decode("utf-8", "replace")
        return requests.matching(text[1:-1] if text.startswith('"') else int(text))
    return requests.only() if _ANSWER.match(head) else None
