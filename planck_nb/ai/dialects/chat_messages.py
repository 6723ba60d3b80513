"""Messages in a Chat Completions request, ordered as its server accepts them.

A part's `provider_state` is sent back: "field" is the field in which reasoning was received, "fields" have to come back
unread to the server with the digest "endpoint", and "id" is a call id too long for our messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

from planck_nb.ai.dialects.json_wire import write_json
from planck_nb.ai.dialects.openai_common import address, images_of
from planck_nb.ai.dialects.request_checks import no_video
from planck_nb.ai.message_history.portable_history import PreparedMessage
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    ImagePart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    UserPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of, rules_of
from planck_nb.ai.server_rules import ServerRules
from planck_nb.base.errors import UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject

_USUAL_FIELD = "reasoning_content"

_BRIDGE = {"role": "assistant", "content": "I have read the results."}
"""Separates results from a prompt where roles alternate.

Templates count results as a part of the reply.
"""

_BEGINNING = {"role": "user", "content": "Go on."}
"""Precedes or follows a reply where roles alternate."""


def encode_message(
    model: Model, message: PreparedMessage, before: PreparedMessage | None, warnings: list[str]
) -> list[JsonObject]:
    """Encode one message; see `planck_nb.ai.message_history.encoded_history.Encode`."""
    match message.type:
        case "user":
            return [_user(model, message)]
        case "assistant":
            wire = _assistant(model, message)
            # A reply that was stopped while the model was thinking: servers refuse a message without content.
            return [wire] if wire["content"] or "tool_calls" in wire else []
        case "tool_result":
            calls = before.tool_calls if isinstance(before, AssistantMessage) else ()
            ids = {call.id: _wire_id(model, call) for call in calls if call.provider_state}
            results: list[JsonObject] = [
                {"role": "tool", "tool_call_id": ids.get(part.id, part.id), "content": part.text}
                for part in message.content
            ]
            if images := _shown(model, message, warnings):
                results.append({"role": "user", "content": [_content(model, part) for part in images]})
            return results


def arrange(messages: Iterable[JsonObject], rules: ServerRules) -> list[JsonObject]:
    r"""Arrange messages for the server: neighbours in one role are one message.

    Args:
        messages: The messages, which are not changed.
        rules: Says whether the roles user and assistant must alternate.

    Returns:
        The messages to send.

    Example:
        >>> arrange([{"role": "user", "content": "Hi."}, {"role": "user", "content": "Hello?"}], ServerRules())
        [{'role': 'user', 'content': 'Hi.\n\nHello?'}]
    """
    ordered_messages = _without_neighbours(messages)
    return _alternating(ordered_messages) if rules.alternates else ordered_messages


def are_neighbours(first: Sequence[JsonObject], second: Sequence[JsonObject]) -> bool:
    """Tell whether two messages, as encoded here, have to become one."""
    role: str = second[0]["role"]
    return role != "tool" and role == first[-1]["role"]


def _without_neighbours(messages: Iterable[JsonObject]) -> list[JsonObject]:
    ordered_messages: list[JsonObject] = []
    last = ""
    for message in messages:
        role = message["role"]
        if role == last and role != "tool":
            ordered_messages[-1] = _joined(ordered_messages[-1], message)
        else:
            ordered_messages.append(message)
            last = role
    return ordered_messages


def with_system(messages: list[JsonObject], system: str, rules: ServerRules) -> list[JsonObject]:
    """Put the system prompt before the messages, or into the first."""
    if rules.system_role:
        return [{"role": "system", "content": system}, *messages]
    first: JsonObject = {"role": "user", "content": system}
    if messages and messages[0]["role"] == "user":
        return [_joined(first, messages[0]), *messages[1:]]
    return [first, *messages]


def endpoint_of(model: Model) -> str:
    """A short digest for the server's address, without its secrets."""
    return _digest(base_url_of(model))


@lru_cache
def _digest(url: str) -> str:
    return blake2b(url.encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()


def _alternating(messages: list[JsonObject]) -> list[JsonObject]:
    ordered_messages: list[JsonObject] = []
    for message in messages:
        before = ordered_messages[-1]["role"] if ordered_messages else "system"
        if message["role"] == "user" and before == "tool":
            ordered_messages.append(_BRIDGE)
        elif message["role"] == "assistant" and before == "system":
            ordered_messages.append(_BEGINNING)
        ordered_messages.append(message)
    if ordered_messages and ordered_messages[-1]["role"] == "assistant":
        ordered_messages.append(_BEGINNING)
    return ordered_messages


def _joined(first: JsonObject, second: JsonObject) -> JsonObject:
    """Join two messages; the second's reasoning replaces the first's."""
    former, latter = first.get("content"), second.get("content")
    if isinstance(former, list) or isinstance(latter, list):
        content: object = [*_parts(former), *_parts(latter)]
    else:
        content = "\n\n".join(filter(None, (former, latter))) or latter
    return {**first, **second, "content": content}


def _parts(content: object) -> list[JsonObject]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _user(model: Model, message: UserMessage) -> JsonObject:
    texts = [part.text for part in message.content if part.type == "text"]
    if len(texts) == len(message.content):  # some servers accept a list only with images
        return {"role": "user", "content": "\n".join(texts)}
    return {"role": "user", "content": [_content(model, part) for part in message.content]}


def _content(model: Model, part: UserPart) -> JsonObject:
    match part.type:
        case "text":
            return {"type": "text", "text": part.text}
        case "image":
            return {"type": "image_url", "image_url": {"url": address(model, part)}}
        case "video":
            raise no_video(model)
        case "file":
            if part.url:
                raise UnsupportedFeatureError(
                    f"The chat format cannot send the URL of the file {part.name!r}; pass its bytes as data, or choose "
                    'api="responses" if the server supports it.',
                    about_media=True,
                )
            return {"type": "file", "file": {"filename": part.name, "file_data": address(model, part)}}


def _shown(model: Model, message: ToolResultMessage, warnings: list[str]) -> list[TextPart | ImagePart]:
    """Images in tool results; tool messages contain text only."""
    visible_parts: list[TextPart | ImagePart] = []
    for part in message.content:
        if images := images_of(model, part, warnings):
            visible_parts += [TextPart(f"{part.name} returned (call {part.id}):"), *images]
    return visible_parts


def _assistant(model: Model, message: AssistantMessage) -> JsonObject:
    rules = rules_of(model)
    wire: JsonObject = {"role": "assistant", "content": message.text or None}
    if calls := [_call(model, call, rules) for call in message.tool_calls]:
        wire["tool_calls"] = calls
    if wire["content"] is None and not (calls and rules.null_content):
        wire["content"] = ""
    _add_reasoning(wire, model, message, rules)
    for name in rules.refused_in_messages & wire.keys():
        del wire[name]
    return wire


def _call(model: Model, call: ToolCallPart, rules: ServerRules) -> JsonObject:
    function = {"name": call.name, "arguments": write_json(call.args).decode()}
    wire: JsonObject = {"id": _wire_id(model, call), "type": "function", "function": function, **_fields(model, call)}
    if rules.call_signature is not None and "extra_content" not in wire:
        wire["extra_content"] = {"google": {"thought_signature": rules.call_signature}}
    return wire


def _wire_id(model: Model, call: ToolCallPart) -> str:
    state = call.provider_state
    return str(state["id"]) if state and "id" in state and state.get("endpoint") == endpoint_of(model) else call.id


def _add_reasoning(wire: JsonObject, model: Model, message: AssistantMessage, rules: ServerRules) -> None:
    """Add earlier reasoning to the message, in its original field.

    Templates for interleaved models need it.
    """
    if rules.reasoning == "refused":
        return
    if rules.text_beside_reasoning or not (wire["content"] and "tool_calls" in wire):
        for part in message.content:
            if part.type == "thinking" and (source := (part.provider_state or {}).get("field")):
                field = rules.reasoning_field or source
                wire[field] = wire.get(field, "") + part.text
    for part in message.content:
        if part.type != "tool_call" and part.provider_state:
            wire.update(_fields(model, part))
    if rules.reasoning == "required":
        wire.setdefault(rules.reasoning_field or _USUAL_FIELD, "")


def _fields(model: Model, part: AssistantPart) -> JsonObject:
    """Find fields to be sent back with a part."""
    state = part.provider_state
    if not state or "fields" not in state or state.get("endpoint") != endpoint_of(model):
        return {}
    return dict(state["fields"])
