"""Servers that refuse what their vendors refuse, in the words of public reports.

Each refusal names the report that it was taken from. What a report leaves open is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import httpx
from support.wire import sse

Body: TypeAlias = dict[str, Any]
Check: TypeAlias = Callable[[Body], object]
"""Finds what a server refuses in a request: something that its sentence names, or nothing."""


@dataclass(frozen=True)
class Refusal:
    """What a server refuses, and how it says so. `{found}` in the answer is what the check has found.

    `options` are those of a request that shows it, if the conversation alone does not.
    """

    source: str
    status: int
    answer: str
    check: Check
    options: dict[str, Any] = field(default_factory=dict)

    def response(self, body: Body) -> httpx.Response | None:
        """The refusal of a request, None if it is not refused."""
        if not (found := self.check(body)):
            return None
        return httpx.Response(self.status, json=json.loads(self.answer.replace("{found}", str(found))))


PROMPTS = ("Go on.", "And again.")
"""The prompts that a server answers."""


@dataclass
class StrictServer:
    """A server with refusals, which calls `look` until it was told a result, and then says "Done."."""

    refusals: Sequence[Refusal]
    reasoning: str = ""
    """The field in which it sends reasoning; empty for none."""
    opaque: Body = field(default_factory=dict)
    """Fields of its replies that have to come back."""
    usage: Body = field(default_factory=lambda: {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28})
    seen: list[Body] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def answer(self, body: Body) -> httpx.Response:
        """Answer a request of Chat Completions."""
        self.seen.append(body)
        for refusal in (*PAIRED, *self.refusals):
            if (response := refusal.response(body)) is not None:
                self.refused.append(refusal.source)
                return response
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, content=b"".join(self._chunks(body["messages"]))
        )

    def _chunks(self, messages: list[Body]) -> list[bytes]:
        def chunk(delta: Body, finish: str | None = None) -> Body:
            return {"id": "c", "object": "chat.completion.chunk", "choices": [
                {"index": 0, "delta": delta, "finish_reason": finish}
            ]}  # fmt: skip

        asked = max(place for place, each in enumerate(messages) if str(each["content"]) in PROMPTS)
        told = any(each["role"] == "tool" for each in messages[asked:])
        call = {"index": 0, "id": f"Call{len(messages):05d}", "type": "function"}
        call["function"] = {"name": "look", "arguments": '{"place": "here"}'}
        said = {"content": "Done."} if told else {"tool_calls": [call]}
        begin = [chunk({"role": "assistant", self.reasoning: "Let me see."})] if self.reasoning else []
        end = chunk(self.opaque, "stop" if told else "tool_calls")
        return sse(*begin, chunk(said), end, {"id": "c", "choices": [], "usage": self.usage}, "[DONE]")


def _assistants(body: Body) -> Iterator[tuple[int, Body]]:
    return ((place, each) for place, each in enumerate(body["messages"]) if each["role"] == "assistant")


def _unpaired(body: Body) -> str:
    """The id of a call that is not answered by the messages after it, or of a result without a call."""
    open_calls: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return str(message["tool_call_id"])
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return open_calls[0]
        open_calls += [call["id"] for call in message.get("tool_calls", ())]
    return open_calls[0] if open_calls else ""


def _field_of_assistant(*names: str) -> Check:
    """A check for fields of an assistant's messages, which finds the place of the message."""
    return lambda body: next((str(place) for place, each in _assistants(body) if names & each.keys()), "")


def _unknown_field(known: str) -> Check:
    return lambda body: next(iter(sorted(body.keys() - set(known.split()))), "")


def _after_tool(role: str) -> Check:
    def check(body: Body) -> bool:
        roles = [message["role"] for message in body["messages"]]
        return any(pair == ("tool", role) for pair in pairwise(roles))

    return check


def _wrong_id(body: Body) -> str:
    ids = [call["id"] for _, message in _assistants(body) for call in message.get("tool_calls", ())]
    return next((each for each in ids if not re.fullmatch("[a-zA-Z0-9]{9}", each)), "")


def _thinks(body: Body) -> bool:
    return body.get("thinking") != {"type": "disabled"}


def _without_reasoning(body: Body) -> bool:
    calls = [message for _, message in _assistants(body) if message.get("tool_calls")]
    return _thinks(body) and any("reasoning_content" not in message for message in calls)


def _demanded(body: Body) -> bool:
    return body.get("tool_choice", "auto") not in ("auto", "none")


def _has_image(body: Body) -> str:
    for place, message in enumerate(body["messages"]):
        content = message["content"]
        if isinstance(content, list) and any(part["type"] == "image_url" for part in content):
            return str(place)
    return ""


def _in_schemas(keyword: str) -> Check:
    return lambda body: f'"{keyword}":' in json.dumps([body.get("tools"), body.get("response_format")])


PAIRED = (
    Refusal(
        "https://github.com/aliasrobotics/cai/issues/111",
        400,
        '{"error": {"message": "An assistant message with \'tool_calls\' must be followed by tool messages responding '
        "to each 'tool_call_id'. The following tool_call_ids did not have response messages: {found}\", "
        '"type": "invalid_request_error"}}',
        _unpaired,
    ),
)
"""What every server of the format refuses."""

OUTPUT = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["names"],
    "additionalProperties": False,
}

_MISTRAL_FIELDS = (
    "model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice "
    "presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort safe_prompt"
)
"""https://docs.mistral.ai/api/endpoint/chat"""


def _extra_forbidden(place: str) -> str:
    detail = f'{{"type": "extra_forbidden", "loc": [{place}], "msg": "Extra inputs are not permitted", "input": 1}}'
    return f'{{"object": "error", "message": {{"detail": [{detail}]}}, "type": "invalid_request_error", "code": null}}'


MISTRAL = (
    Refusal(
        "https://github.com/langchain-ai/langchain/pull/24668",
        400,
        '{"object": "error", "message": "Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9.", '
        '"type": "invalid_request_error", "param": null, "code": null}',
        _wrong_id,
    ),
    Refusal(
        "https://github.com/charmbracelet/crush/issues/1590",
        422,
        _extra_forbidden('"body", "messages", {found}, "assistant", "reasoning_content"'),
        _field_of_assistant("reasoning_content", "reasoning"),
    ),
    Refusal(
        "https://github.com/dnakov/anon-kode/issues/53",
        422,
        _extra_forbidden('"body", "{found}", "include_usage"'),
        lambda body: "stream_options" if "stream_options" in body else "",
    ),
    Refusal(
        "https://github.com/editor-code-assistant/eca/issues/231",
        422,
        _extra_forbidden('"body", "{found}"'),
        _unknown_field(f"{_MISTRAL_FIELDS} stream_options"),
    ),
    Refusal(
        "https://github.com/zed-industries/zed/issues/37021",
        400,
        '{"object": "error", "message": "Unexpected role \'user\' after role \'tool\'", '
        '"type": "invalid_request_message_order", "param": null, "code": "32500"}',
        _after_tool("user"),
    ),
)

GROQ = (
    Refusal(
        "https://github.com/janhq/jan/issues/8136",
        400,
        '{"error": {"message": "\'messages.{found}\' : for \'role:assistant\' the following must be satisfied['
        '(\'messages.{found}\' : property \'reasoning_content\' is unsupported)]", "type": "invalid_request_error"}}',
        _field_of_assistant("reasoning_content", "reasoning"),
    ),
    Refusal(
        "https://github.com/i-am-bee/beeai-framework/issues/1215",
        400,
        '{"error": {"message": "invalid schema for response format: response_format/json_schema/next_step: minItems '
        'is not supported", "type": "invalid_request_error"}}',
        _in_schemas("minItems"),
        {"output": OUTPUT},
    ),
)

DEEPSEEK = (
    Refusal(
        "https://github.com/earendil-works/pi/issues/3636",
        400,
        '{"error": {"message": "The `reasoning_content` in the thinking mode must be passed back to the API.", '
        '"type": "invalid_request_error", "param": null, "code": "invalid_request_error"}}',
        _without_reasoning,
    ),
    Refusal(
        "https://github.com/deepseek-ai/DeepSeek-V3/issues/1376",
        400,
        '{"error": {"message": "Thinking mode does not support this tool_choice", "type": "invalid_request_error"}}',
        lambda body: _thinks(body) and _demanded(body),
        {"tool_choice": "required"},
    ),
    Refusal(
        "https://github.com/UKGovernmentBEIS/inspect_ai/issues/4916",
        400,
        '{"error": {"message": "This response_format type is unavailable now", "type": "invalid_request_error", '
        '"param": null, "code": "invalid_request_error"}}',
        lambda body: body.get("response_format", {}).get("type") == "json_schema",
        {"output": OUTPUT},
    ),
    Refusal(
        "https://github.com/browserbase/stagehand/issues/1204",
        400,
        '{"error": {"message": "Prompt must contain the word \'json\' in some form to use \'response_format\' of type '
        '\'json_object\'", "type": "invalid_request_error"}}',
        lambda body: "response_format" in body and "json" not in json.dumps(body["messages"]).lower(),
    ),
)

SEES_NOTHING = Refusal(
    "https://github.com/nesquena/hermes-webui/issues/2297",
    400,
    '{"error": {"message": "Failed to deserialize the JSON body into the target type: messages[{found}]: unknown '
    'variant `image_url`, expected `text` at line 1 column 460917", "type": "invalid_request_error", "param": null, '
    '"code": "invalid_request_error"}}',
    _has_image,
)
"""DeepSeek's refusal of images, which no rule can prevent and the client learns."""

CEREBRAS = (
    Refusal(
        "https://github.com/egoist/chatwise-releases/issues/1442",
        400,
        '{"message": "messages.{found}.assistant.reasoning_content: property '
        '\'messages.{found}.assistant.reasoning_content\' is unsupported", "type": "invalid_request_error", '
        '"param": "validation_error", "code": "wrong_api_format"}',
        _field_of_assistant("reasoning_content"),
    ),
    Refusal(
        "https://github.com/mpfaffenberger/code_puppy/pull/368",
        400,
        "{\"message\": \"Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' "
        'or \'strict: false\'", "type": "invalid_request_error", "param": "tools", "code": '
        '"wrong_api_format"}',
        lambda body: len({tool["function"].get("strict", False) for tool in body.get("tools", ())}) > 1,
    ),
)

AZURE = (
    Refusal(
        "https://v0.app/chat/image-analysis-qjuhd3YXzoO",
        400,
        '{"error": {"message": "Unsupported parameter: \'max_tokens\' is not supported with this model. Use '
        '\'max_completion_tokens\' instead.", "type": "invalid_request_error", "param": "max_tokens", '
        '"code": "unsupported_parameter"}}',
        lambda body: "max_tokens" in body,
        {"max_tokens": 99},
    ),
)

XAI = (
    Refusal(
        "https://github.com/BerriAI/litellm/issues/12635",
        400,
        '{"code": "Client specified an invalid argument", "error": "Argument not supported on this model: stop"}',
        lambda body: "stop" in body,
        {"stop": ["END"]},
    ),
)

LM_STUDIO = (
    Refusal(
        "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/670",
        400,
        '{"error": "Invalid tool_choice type: \'object\'. Supported string values: none, auto, required"}',
        lambda body: isinstance(body.get("tool_choice"), dict),
        {"tool_choice": "look"},
    ),
    Refusal(
        "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/189",
        400,
        "{\"error\": \"'response_format.type' must be 'json_schema'\"}",
        lambda body: body.get("response_format", {}).get("type", "json_schema") != "json_schema",
    ),
)

DETAILS = [{"type": "reasoning.encrypted", "data": "c2lnbmF0dXJl", "id": "r1", "format": "google-gemini-v1"}]


def _lost_details(body: Body) -> bool:
    """Whether a call that this server made comes back without its details."""
    ours = [each for _, each in _assistants(body) for call in each.get("tool_calls", ()) if call["id"][:4] == "Call"]
    return any(message.get("reasoning_details") != DETAILS for message in ours)


OPENROUTER = (
    Refusal(
        "https://github.com/microsoft/agent-framework/issues/2947",
        400,
        '{"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "Gemini models require '
        "OpenRouter reasoning details to be preserved in each request. Please refer to our docs: "
        'https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks.", '
        '"provider_name": "Google AI Studio"}}, "user_id": "user_1"}',
        _lost_details,
    ),
)

VLLM_WITH_MISTRAL = (
    Refusal(
        "https://github.com/mistralai/mistral-vibe/issues/578",
        400,
        '{"error": {"message": "Unexpected role \'user\' after role \'tool\'", "type": "BadRequestError", '
        '"param": null, "code": 400}}',
        _after_tool("user"),
    ),
)
"""What vLLM says with a template of Mistral's, which the client learns."""

SERVERS: dict[str, Callable[[], StrictServer]] = {
    "openrouter": lambda: StrictServer(
        OPENROUTER, "reasoning", {"reasoning_details": DETAILS}, {**StrictServer(()).usage, "cost": 0.00014}
    ),
    "groq": lambda: StrictServer(GROQ, "reasoning"),
    "mistral": lambda: StrictServer(MISTRAL),
    "deepseek": lambda: StrictServer((*DEEPSEEK, SEES_NOTHING), "reasoning_content"),
    "cerebras": lambda: StrictServer(CEREBRAS, "reasoning"),
    "azure": lambda: StrictServer(AZURE),
    "xai": lambda: StrictServer(XAI, "reasoning_content"),
    "vllm": lambda: StrictServer(VLLM_WITH_MISTRAL, "reasoning"),
    "sglang": lambda: StrictServer((), "reasoning_content"),
    "lm_studio": lambda: StrictServer(LM_STUDIO, "reasoning_content"),
    "litellm": lambda: StrictServer((), "reasoning_content"),
}
"""A strict server for each provider with rules."""

RULES = {
    "openrouter": OPENROUTER, "groq": GROQ, "mistral": MISTRAL, "deepseek": DEEPSEEK, "cerebras": CEREBRAS,
    "azure": AZURE, "xai": XAI, "lm_studio": LM_STUDIO,
}  # fmt: skip
"""What each provider's rules prevent."""


class StrictAnthropic:
    """A server of the Messages format that begins a conversation, and refuses what Anthropic refuses.

    `replies` are its answers in turn, the last one for ever.
    """

    def __init__(self, replies: Sequence[list[bytes]]) -> None:
        self._replies = list(replies)
        self.seen: list[Body] = []
        self.refused: list[str] = []

    def answer(self, body: Body) -> httpx.Response:
        """Answer a request of the Messages format."""
        self.seen.append(body)
        if sentence := _refused_by_anthropic(body["messages"]):
            self.refused.append(sentence)
            error = {"type": "invalid_request_error", "message": sentence}
            return httpx.Response(400, json={"type": "error", "error": error})
        chunks = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(chunks))


def _blocks(message: Body, kind: str) -> list[Body]:
    content = message["content"]
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


def _refused_by_anthropic(messages: list[Body]) -> str:
    """What Anthropic says of a conversation, empty if it accepts it."""
    calls: set[str] = set()
    for place, message in enumerate(messages):
        results = {block["tool_use_id"] for block in _blocks(message, "tool_result")}
        if missing := calls - results:  # https://github.com/anthropics/claude-code/issues/8210
            return (
                f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        if results - calls:  # https://github.com/tghamm/Anthropic.SDK/issues/184
            return (
                f"messages.{place}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{', '.join(results - calls)}. Each `tool_result` block must have a corresponding `tool_use` block in "
                "the previous message."
            )
        calls = {block["id"] for block in _blocks(message, "tool_use")}
        for thought in _blocks(message, "thinking"):
            if thought.get("signature") != "c2ln":  # https://github.com/anthropics/claude-code/issues/10627
                return f"messages.{place}.content.0: Invalid `signature` in `thinking` block"
    return ""
