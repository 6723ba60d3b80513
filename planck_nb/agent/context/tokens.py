"""How many tokens a conversation takes: what the provider counted last, and an estimate of what came after it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from planck_nb.ai.messages import AssistantMessage, Message, Part
from planck_nb.ai.request import Context, ToolSpec
from planck_nb.base.json_types import JsonObject

IMAGE_TOKENS = 1_500
"""What a picture is taken for. Vendors count from 85 to about 1,600 for one, by its size."""

FILE_TOKENS = 6_000
"""What a document is taken for: two or three pages of a PDF, each read as text and as a picture."""

FRAME_TOKENS = 4
"""What stands around each message, tool call and tool result."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""Where tokenizers begin anew in Latin script, camelCase and base64 included."""


_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_SPACES = b" \t\r"


def _others(kept: bytes) -> bytes:
    """All bytes but these."""
    return bytes(set(range(256)).difference(kept))


# Hundredths of a token for each character of a kind, a character of more than one byte told by its first. Fitted to
# replies that Anthropic, Google, OpenAI and Ollama counted; guessed for the scripts that those lack.
_WORD = 75
_WEIGHTS = (
    (10, _others(_LETTERS)),
    (80, _others(_DIGITS)),
    (3, _others(_SPACES)),
    (90, _others(b"\n")),
    (40, _others(bytes(set(range(128)).difference(_LETTERS + _DIGITS + _SPACES + b"\n")))),
    (60, _others(bytes(range(0xC0, 0xE0)))),  # Greek, Cyrillic, Arabic, Hebrew, letters with accents
    (110, _others(bytes(range(0xE0, 0xF0)))),  # Chinese, Japanese, Korean, the scripts of India, typography
    (250, _others(bytes(range(0xF0, 0xF8)))),  # emoji
)


def estimate_text(text: str) -> int:
    """About how many tokens the text takes: within 15 % for prose, whatever the model. 0 for none.

    Deterministic; more text never takes less, and a text takes no more than its pieces.
    """
    data = text.encode("utf-8", "surrogatepass")
    hundredths = _WORD * len(_WORDS.findall(text))
    for weight, others in _WEIGHTS:
        hundredths += weight * len(data.translate(None, others))
    return -(-hundredths // 100)


def estimate(message: Message) -> int:
    """About how many tokens a model reads for the message, thinking included; never 0."""
    if message.type == "summary":
        message = message.as_user_message()
    return FRAME_TOKENS + sum(map(_estimate_part, message.content))


def estimate_request(context: Context) -> int:
    """About how many tokens the whole request takes: system prompt, tools and messages."""
    return _estimate_setting(context.system, context.tools) + sum(map(estimate, context.messages))


def context_tokens(messages: Sequence[Message], system: str = "", tools: Sequence[ToolSpec] = ()) -> int:
    """How many tokens a request with these messages takes; a summary among them stands first, then what it keeps.

    Counts from the newest reply that the provider counted, which knows all that was sent before it, and estimates what
    came later: the cost does not grow with the conversation. What a summary keeps was counted in an earlier
    conversation and is no such reply; without one, everything is estimated.
    """
    first = 1 + len(messages[0].kept) if messages and messages[0].type == "summary" else 0
    later = 0
    for index in range(len(messages) - 1, first - 1, -1):
        message = messages[index]
        if message.type == "assistant" and (counted := _counted(message)):
            return counted + later
        later += estimate(message)
    return _estimate_setting(system, tools) + sum(map(estimate, messages[:first])) + later


def _counted(reply: AssistantMessage) -> int:
    """What the provider counted for the request and this reply to it, 0 where it did not."""
    usage = reply.usage
    if usage is None or not usage.input_tokens:
        return 0
    if reply.stop_reason in ("aborted", "error"):  # cut before its output was counted
        return usage.input_tokens + max(usage.output_tokens, estimate(reply))
    return usage.total_tokens


def _estimate_setting(system: str, tools: Sequence[ToolSpec]) -> int:
    """What stands before the first message."""
    return estimate_text(system) + sum(
        FRAME_TOKENS + estimate_text(f"{tool.name} {tool.description} {_json(tool.parameters)}") for tool in tools
    )


def _estimate_part(part: Part) -> int:
    match part.type:
        case "text" | "thinking":
            return estimate_text(part.text)
        case "tool_call":
            args = _json(part.args) if part.invalid is None else part.invalid
            return FRAME_TOKENS + estimate_text(f"{part.name} {args}")
        case "tool_result":
            return FRAME_TOKENS + estimate_text(part.text) + IMAGE_TOKENS * len(part.images)
        case "image":
            return IMAGE_TOKENS
        case "file":
            return FILE_TOKENS


def _json(data: JsonObject) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)
