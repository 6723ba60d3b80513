"""Repairs servers' results item by item.

The MCP library checks a result as a whole, so one odd tool would take the whole list away. Here valid items stay, and
each other one is left out by itself, with a reason in words for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from mcp_types.methods import CACHEABLE_METHODS, parse_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.mcp_client.transports.message_text import kind_of
from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequest
from planck_nb.sidecars.mcp_client.transports.usable_schema import usable_schema

LEFT_OUT: Final = "dev.planck/left_out"
"""Key in a list's `_meta` for unusable items.

Its value has pairs: an item's name, and the reason as a sentence end.
"""

_JSON_CHARACTERS = 20_000
"""Longest JSON to show for an unknown kind, in characters."""

_BINARY = ("data", "blob")
_MEDIA_TYPES = ("mimeType", "mime_type", "mediaType", "media_type")
_TRUE_WORDS = ("true", "1", "yes", "error")

Rule: TypeAlias = Callable[[JsonObject], str]
"""A correction in place, which returns a problem or an empty text."""


class NotMcpError(ValueError):
    """A result beyond repair, with the problem as its text."""


def repaired_result(request: OpenRequest, result: JsonObject) -> JsonObject:
    """Return a result as the protocol has it.

    Args:
        request: The request.
        result: The server's result.

    Returns:
        The same result if it is valid, else a corrected one.

    Raises:
        NotMcpError: If it is beyond repair.
    """
    if _is_ordinary(request, result) or _errors(request, result) is None:
        return result
    defaults = _modern_fields(request)
    data: JsonObject = {**defaults, **result}
    if (repair := _REPAIRS.get(request.method)) is not None:
        repair(request, data)
    for _ in range(len(data) + 1):
        errors = _errors(request, data)
        if errors is None:
            return data
        fields = {str(path[0]) for path in errors if path} & data.keys() - _NEEDED.get(request.method, set())
        if not fields:
            raise NotMcpError(_words(errors[0], data))
        for field in fields:
            del data[field]
        data = {**defaults, **data}
    raise NotMcpError("it is not as MCP has it")


def _is_ordinary(request: OpenRequest, result: JsonObject) -> bool:
    """Return whether a call's result is valid, for sure and at once."""
    content = result.get("content")
    return (
        request.method == "tools/call"
        and isinstance(content, list)
        and all(
            isinstance(item, dict) and item.keys() == {"type", "text"} and item["type"] == "text"
            and isinstance(item["text"], str)
            for item in content
        )
        and result.keys() <= {"content", "structuredContent", "isError", "resultType"}
        and isinstance(result.get("structuredContent", {}), dict)
        and isinstance(result.get("isError", False), bool)
        and result.get("resultType") == ("complete" if request.version in MODERN_PROTOCOL_VERSIONS else None)
    )  # fmt: skip


def _errors(request: OpenRequest, data: Mapping[str, Any]) -> list[tuple[str | int, ...]] | None:
    """Return the paths to invalid parts, None for a valid result."""
    try:
        parse_server_result(request.method, request.version, data)
    except ValidationError as error:
        return [_path(item["loc"], data) for item in error.errors(include_url=False, include_context=False)]
    except (KeyError, ValueError, RuntimeError):  # a method or a version without rules
        return None
    return None


def _path(location: tuple[str | int, ...], data: Any) -> tuple[str | int, ...]:  # noqa: ANN401 - any JSON value
    """Return the path in the data, without the library's class names."""
    path: list[str | int] = []
    for place, part in enumerate(location):
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            data = data[part]  # type: ignore[index] # an index for a list
            path.append(part)
        elif place == len(location) - 1 and isinstance(data, dict):
            path.append(part)  # missing
    return tuple(path)


def _words(path: tuple[str | int, ...], data: Any) -> str:  # noqa: ANN401 - any JSON value
    if not path:
        return "it is not as MCP has it"
    for part in path[:-1]:
        data = data[part]
    name = ".".join(map(str, path))
    if isinstance(data, dict) and path[-1] not in data:
        return f"its {name} is missing"
    return f"its {name} is {kind_of(data[path[-1]])}"


def _modern_fields(request: OpenRequest) -> JsonObject:
    """Return the fields which newer versions require in each result."""
    if request.version not in MODERN_PROTOCOL_VERSIONS:
        return {}
    cache = {"ttlMs": 0, "cacheScope": "private"} if request.method in CACHEABLE_METHODS else {}
    return {"resultType": "complete", **cache}


# Lists


def _repaired_list(key: str, rule: Rule) -> Callable[[OpenRequest, JsonObject], None]:
    """Return a repair for a list, with a rule for each item."""

    def repair(request: OpenRequest, data: JsonObject) -> None:
        items, usable_items, left_out = data.get(key), [], []
        if isinstance(items, dict):  # by name
            items = [{"name": name, **item} if isinstance(item, dict) else item for name, item in items.items()]
        elif items is None:
            items = []
        elif not isinstance(items, list):
            raise NotMcpError(f"its list of {key} is {kind_of(items)}")
        for number, original in enumerate(items, 1):
            item, reason = _valid_item(request, key, original, rule)
            if reason:
                left_out.append([_label(original, number), reason])
            else:
                usable_items.append(item)
        data[key] = usable_items
        if not isinstance(data.get("nextCursor"), str):
            cursor = data.pop("nextCursor", None)
            if isinstance(cursor, int) and not isinstance(cursor, bool):
                data["nextCursor"] = str(cursor)
        if left_out:
            meta = data.get("_meta")
            data["_meta"] = {**(meta if isinstance(meta, dict) else {}), LEFT_OUT: left_out}

    return repair


def _valid_item(request: OpenRequest, key: str, original: object, rule: Rule) -> tuple[JsonObject, str]:
    """Return an item without invalid optional fields, and its problem."""
    if not isinstance(original, dict):
        return {}, f"it is {kind_of(original)}"
    item = dict(original)
    if reason := rule(item):
        return {}, reason
    for _ in range(len(item) + 1):
        errors = _errors(request, {**_modern_fields(request), key: [item]})
        if errors is None:
            break
        paths = [path[2:] for path in errors if len(path) > 2]  # noqa: PLR2004 - the list, the place, and the field
        odd = {path[0] for path in paths} & item.keys() - _NEEDED_IN_ITEMS
        if not odd:
            return {}, _words(paths[0], item) if paths else "it is not as MCP has it"
        for field in odd:
            del item[field]
    return item, ""


def _label(item: object, number: int) -> str:
    fields = item if isinstance(item, dict) else {}
    labels = (fields.get(field) for field in ("name", "uri", "uriTemplate"))
    return next((text for text in labels if isinstance(text, str) and text.strip()), f"number {number}")


def _tool(item: JsonObject) -> str:
    if reason := _unnamed(item):
        return reason
    schema = item.pop("inputSchema", item.pop("input_schema", None))
    if schema is None or schema == []:  # PHP has no other empty object
        schema = {}
    if not isinstance(schema, dict):
        return f"its inputSchema is {kind_of(schema)}"
    kind = schema.get("type")
    names = [str(name).lower() for name in (kind if isinstance(kind, list) else [kind])]
    if kind is not None and "object" not in names:
        return "its arguments are not a JSON object"
    item["inputSchema"] = {**usable_schema(schema), "type": "object"}
    output = item.get("outputSchema")
    if isinstance(output, dict) and "properties" in output:
        item["outputSchema"] = {"type": "object", **usable_schema(output)}
    hints = item.get("annotations")
    if isinstance(hints, dict):
        item["annotations"] = {name: value for name, value in hints.items() if _is_hint(name, value)}
        for name in ("destructiveHint", "openWorldHint"):  # a warning counts in any shape
            if hints.get(name) and not isinstance(hints[name], bool):
                item["annotations"][name] = str(hints[name]).lower() not in ("false", "no", "0")
    return ""


def _is_hint(name: str, value: object) -> bool:
    return isinstance(value, bool) if name.endswith("Hint") else isinstance(value, str)


def _prompt(item: JsonObject) -> str:
    arguments = item.get("arguments")
    if isinstance(arguments, dict):
        arguments = [{"name": name, **(rest if isinstance(rest, dict) else {})} for name, rest in arguments.items()]
    if isinstance(arguments, list):
        item["arguments"] = [item for item in arguments if isinstance(item, dict) and isinstance(item.get("name"), str)]
    return _unnamed(item)


def _resource(item: JsonObject) -> str:
    return _addressed(item, "uri")


def _template(item: JsonObject) -> str:
    return _addressed(item, "uriTemplate")


def _addressed(item: JsonObject, field: str) -> str:
    if not isinstance(item.get(field), str) or not item[field]:
        return _words((field,), item)
    if not isinstance(item.get("name"), str):
        item["name"] = item[field]
    return ""


def _unnamed(item: JsonObject) -> str:
    name = item.get("name")
    return "" if isinstance(name, str) and name.strip() else _words(("name",), item)


# Results


def _call(request: OpenRequest, data: JsonObject) -> None:
    if data.get("resultType", "complete") != "complete":
        return
    for old, new in (("is_error", "isError"), ("structured_content", "structuredContent")):
        if old in data:
            data.setdefault(new, data.pop(old))
    failure = data.get("isError")
    if not isinstance(failure, bool):
        data["isError"] = failure.lower() in _TRUE_WORDS if isinstance(failure, str) else bool(failure)
    if "content" not in data and "structuredContent" not in data:  # the plain value of the tool
        value = {key: data.pop(key) for key in [*data] if key not in ("_meta", "isError", "resultType", "ttlMs")}
        data["content"] = [value] if value else []
    data["content"] = list(_blocks(request, data.get("content")))
    content = data.get("structuredContent")
    if not isinstance(content, dict) and request.version in HANDSHAKE_PROTOCOL_VERSIONS:
        data.pop("structuredContent", None)
        if content is not None and not any(block.get("text") == _json(content) for block in data["content"]):
            data["content"].append(_text(_json(content)))


def _prompt_result(request: OpenRequest, data: JsonObject) -> None:
    messages = data.get("messages")
    valid_messages = []
    for message in messages if isinstance(messages, list) else [messages]:
        parts = message if isinstance(message, dict) else {"content": message}
        role = parts.get("role") if parts.get("role") in ("user", "assistant") else "user"
        valid_messages += [{"role": role, "content": block} for block in _blocks(request, parts.get("content"))]
    data["messages"] = valid_messages


def _read_result(request: OpenRequest, data: JsonObject) -> None:
    contents = data.get("contents", data.pop("content", None))
    valid_items = []
    for original in contents if isinstance(contents, list) else [] if contents is None else [contents]:
        item = dict(original) if isinstance(original, dict) else {"text": original}
        if not isinstance(item.get("uri"), str):
            item["uri"] = str(request.params.get("uri", ""))
        if not isinstance(item.get("blob"), str):
            item.pop("blob", None)
            text = item.get("text", {key: value for key, value in item.items() if key not in ("uri", "mimeType")})
            item["text"] = text if isinstance(text, str) else _json(text)
        valid_items.append(
            {key: item[key] for key in ("uri", "mimeType", "text", "blob") if isinstance(item.get(key), str)}
        )
    data["contents"] = valid_items


def _start(request: OpenRequest, data: JsonObject) -> None:
    if not isinstance(data.get("protocolVersion"), str):
        data["protocolVersion"] = request.version
    capabilities = data.get("capabilities")
    # A server without any abilities is asked for its tools all the same.
    abilities = capabilities if isinstance(capabilities, dict) else {"tools": {}}
    data["capabilities"] = {
        name: value if isinstance(value, dict) else {}  # PHP's empty list, or true
        for name, value in abilities.items()
        if value is not None and value is not False
    }
    info = data.get("serverInfo")
    fields = info if isinstance(info, dict) else {"name": info}
    data["serverInfo"] = {name: str(fields.get(name) or "") for name in ("name", "version")}


def _blocks(request: OpenRequest, content: Any) -> Iterator[JsonObject]:  # noqa: ANN401 - any JSON value
    """Yield content blocks for any content."""
    if isinstance(content, list):
        for item in content:
            yield from _blocks(request, item)
    elif isinstance(content, dict):
        yield _block(request, content)
    elif content is not None:
        yield _text(content if isinstance(content, str) else _json(content))


def _block(request: OpenRequest, original: JsonObject) -> JsonObject:
    """Return a valid content block, text in place of an unknown kind."""
    page = {"content": [original], "resultType": "complete"}
    calls = OpenRequest("tools/call", request.version)
    if _errors(calls, page) is None:
        return original
    kind = str(original.get("type", "text" if isinstance(original.get("text"), str) else "")).lower()
    if kind == "text" and "text" in original:
        text = original["text"]
        return _text(text if isinstance(text, str) else "" if text is None else _json(text))
    if kind in ("image", "audio"):
        media = next((original[name] for name in _MEDIA_TYPES if isinstance(original.get(name), str)), "")
        data = original.get("data")
        if isinstance(data, str) and data.startswith("data:") and ";base64," in data:
            media, data = data.removeprefix("data:").split(";base64,", 1)
        if media and isinstance(data, str):
            return {"type": kind, "data": data, "mimeType": media}
    essential = {key: value for key, value in original.items() if key not in ("annotations", "_meta", "icons")}
    if _errors(calls, {**page, "content": [essential]}) is None:
        return essential
    return _text(_described(kind, original))


def _described(kind: str, block: JsonObject) -> str:
    """Return an unknown kind's content as JSON, without binary data."""
    rest = {key: value for key, value in block.items() if key not in _BINARY and not (key == "type" and kind)}
    text = _json(rest) if rest else ""
    text = text if len(text) <= _JSON_CHARACTERS else "(too long to be shown)"
    return " ".join(filter(None, (f"[{kind}]" if kind else "", text)))


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_REPAIRS: Mapping[str, Callable[[OpenRequest, JsonObject], None]] = {
    "initialize": _start,
    "tools/list": _repaired_list("tools", _tool),
    "prompts/list": _repaired_list("prompts", _prompt),
    "resources/list": _repaired_list("resources", _resource),
    "resources/templates/list": _repaired_list("resourceTemplates", _template),
    "tools/call": _call,
    "prompts/get": _prompt_result,
    "resources/read": _read_result,
}
_NEEDED: Mapping[str, set[str]] = {
    "initialize": {"protocolVersion", "capabilities", "serverInfo"},
    "tools/list": {"tools"},
    "prompts/list": {"prompts"},
    "resources/list": {"resources"},
    "resources/templates/list": {"resourceTemplates"},
    "tools/call": {"content"},
    "prompts/get": {"messages"},
    "resources/read": {"contents"},
}
_NEEDED_IN_ITEMS = {"name", "inputSchema", "uri", "uriTemplate"}
