"""The identity of a request: its content, independent of how it is encoded and of the run of the program."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from planck_nb.ai.messages import AssistantPart, FilePart, ImagePart, Message, ToolResultPart, UserPart, VideoPart
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.json_types import JsonObject

_AROUND = 30
"""Characters shown on either side of where two texts begin to differ."""


def canonical_request(model: Model, context: Context, options: Options) -> JsonObject:
    """The request as JSON data that is equal for equal requests.

    Provider state and parts that hold nothing else are left out, because a replayed answer has none. Call ids are
    replaced by their ordinals, images and files by their hashes, and options that are not set are left out.
    """
    request = {
        "model": str(model),
        "api": model.api,
        "system": context.system,
        "messages": list(map(CanonicalMessages().add, context.messages)),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in context.tools
        ],
        "options": _named(options),
    }
    if context.server_tools:  # so that the keys of other requests are what they were
        request["server_tools"] = [str(tool) for tool in context.server_tools]
    plain: JsonObject = json.loads(json.dumps(request, default=str))
    return plain


class CanonicalMessages:
    """Canonical requests' messages, one after another."""

    def __init__(self) -> None:
        self._ordinals = _Ordinals()

    def add(self, message: Message) -> JsonObject:
        """The next message as JSON data."""
        return {"role": message.type, "content": list(_content(message, self._ordinals))}


def key_of(request: JsonObject) -> str:
    """The SHA-256 of a canonical request, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


class _Ordinals:
    """Numbers for the ids of calls, in the order of the conversation. An id that is used again is another call."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count = 0

    def begin(self, call_id: str) -> str:
        self._count += 1
        name = self._names[call_id] = f"call {self._count}"
        return name

    def of(self, call_id: str) -> str:
        return self._names.get(call_id) or self.begin(call_id)


def _content(message: Message, ordinals: _Ordinals) -> Iterator[JsonObject]:
    for part in message.content:
        if (data := _part(part, ordinals)) is not None:
            yield data


def _part(part: UserPart | AssistantPart | ToolResultPart, ordinals: _Ordinals) -> JsonObject | None:
    match part.type:
        case "text" | "thinking":
            return {"type": part.type, "text": part.text} if part.text else None
        case "image" | "file" | "video":
            return _media(part)
        case "tool_call":
            call: JsonObject = {"type": part.type, "id": ordinals.begin(part.id), "name": part.name, "args": part.args}
            return call if part.invalid is None else {**call, "invalid": part.invalid}
        case "tool_result":
            result: JsonObject = {
                "type": part.type,
                "id": ordinals.of(part.id),
                "name": part.name,
                "text": part.text,
                "is_error": part.is_error,
            }
            return {**result, "images": [_media(image) for image in part.images]} if part.images else result


def _media(part: ImagePart | FilePart | VideoPart) -> JsonObject:
    data: JsonObject = {"type": part.type, "mime": part.mime}
    if part.type == "file":
        data["name"] = part.name
    if part.url is not None:
        data["url"] = part.url
    if part.data is not None:
        data["sha256"] = hashlib.sha256(_decoded(part.data)).hexdigest()
    return data


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "backslashreplace")


def _named(options: Options) -> JsonObject:
    """The options that are set, so that an option added later changes no key."""
    named: JsonObject = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if value is not None and value not in ((), [], {}):
            named[field.name] = dict(value) if isinstance(value, Mapping) else value
    return named


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """Where two requests differ, and how: the recorded value and the new one.

    `weight` is the share of the text that differs, 1 for a value that only one of them has.
    """

    where: str
    how: str
    weight: float = 1.0

    def __str__(self) -> str:
        return f"{self.where}: {self.how}"


def differences(recorded: JsonObject, asked: JsonObject) -> list[RequestDifference]:
    """All differences between two canonical requests, in the order in which a reader looks for them."""
    return list(_compare("", _tree(recorded), _tree(asked)))


def _tree(request: JsonObject) -> JsonObject:
    """The request with names that a reader recognises."""
    tree: JsonObject = {name: request.get(name) for name in ("model", "api", "system")}
    for number, message in enumerate(request.get("messages", ()), 1):
        parts = message["content"]
        tree[f"message {number} ({message['role']})"] = (
            parts[0] if len(parts) == 1 else {f"part {place}": part for place, part in enumerate(parts, 1)}
        )
    for tool in request.get("tools", ()):
        tree[f"tool {tool['name']}"] = {name: value for name, value in tool.items() if name != "name"}
    for tool in request.get("server_tools", ()):
        tree[f"server tool {tool}"] = True
    for name, value in request.get("options", {}).items():
        tree[f"option {name}"] = value
    return tree


def _compare(where: str, recorded: Any, asked: Any) -> Iterator[RequestDifference]:  # noqa: ANN401 - any JSON value
    if recorded == asked:
        return
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for name in [*recorded, *(name for name in asked if name not in recorded)]:
            place = f"{where} {name}".strip()
            if name not in asked:
                yield RequestDifference(place, "was recorded but is not in the request")
            elif name not in recorded:
                yield RequestDifference(place, "was not recorded")
            else:
                yield from _compare(place, recorded[name], asked[name])
        return
    old, new = (value if isinstance(value, str) else json.dumps(value) for value in (recorded, asked))
    start, end = _shared(old, new), _shared(old[::-1], new[::-1])
    weight = max(0.0, 1 - (start + end) / max(len(old), len(new)))
    yield RequestDifference(where, f"{_excerpt(old, start)} was recorded, {_excerpt(new, start)} was requested", weight)


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    differing = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _excerpt(text: str, place: int) -> str:
    start, end = max(0, place - _AROUND), place + _AROUND
    return repr("…" * (start > 0) + text[start:end] + "…" * (end < len(text)))
