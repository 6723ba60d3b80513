"""The size of a conversation in tokens: the provider's last count, and an estimate of what was added since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import ceil
from operator import mul

from planck_nb.ai.messages import AssistantMessage, Message, Part
from planck_nb.ai.request import Context, ToolSpec
from planck_nb.base.json_types import JsonObject

IMAGE_TOKENS = 1_500
"""The estimate for an image. Vendors count from 85 to about 1,600 for one, depending on its size."""

FILE_TOKENS = 6_000
"""The estimate for a document: two or three pages of a PDF, each read as text and as an image."""

VIDEO_TOKENS = 18_000
"""The estimate for a video: a minute of it, as Gemini counts it, with its sound."""

FRAME_TOKENS = 4
"""The estimate for the markup around each message, tool call and tool result."""

MAX_SCALE = 8.0
"""The largest ratio of counted to estimated tokens that is believed."""

_WRITER = json.JSONEncoder(ensure_ascii=False, default=str)

_PIECES = 1_000
_PIECE = 512
"""A text longer than these pieces together is estimated from such pieces of it: a text of 50 MB would block the event
loop for a second."""

_STEP = 0.6180339887498949
"""The golden ratio. It varies where in its share of the text a piece lies, so that in lines or records of equal length
the pieces do not all hit the same part."""

_MIN_CALIBRATING_TOKENS = 64
"""The fewest estimated tokens for which a count says something about the tokenizer."""

_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGITS = b"0123456789"
_SPACES = b" \t\r"
_ASCII = bytes(range(128))

# Hundredths of a token per character, by class; the first byte of a character of several bytes decides its class.
# Fitted to replies that Anthropic, Google, OpenAI and Ollama counted; guessed for scripts that these do not contain.
_WORD = 75
_CLASSES = (
    (10, b"a", _LOWER),
    (10, b"A", _UPPER),
    (80, b"0", _DIGITS),
    (3, b" ", _SPACES),
    (90, b"n", b"\n"),
    (40, b".", _ASCII.translate(None, _LOWER + _UPPER + _DIGITS + _SPACES + b"\n")),
    (60, b"2", bytes(range(0xC0, 0xE0))),  # Greek, Cyrillic, Arabic, Hebrew, letters with accents
    (110, b"3", bytes(range(0xE0, 0xF0))),  # Chinese, Japanese, Korean, the scripts of India, typography
    (250, b"4", bytes(range(0xF0, 0xF8))),  # emoji
)


_WEIGHTS = tuple(weight for weight, _, _ in _CLASSES)
_NAMES = tuple(name for _, name, _ in _CLASSES)


def _table(classes: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """A table for `bytes.translate` that replaces each byte by the name of its class, and the others by "-"."""
    table = bytearray(b"-" * 256)
    for _, name, members in classes:
        for member in members:
            table[member] = name[0]
    return bytes(table)


_CLASS_OF = _table(_CLASSES)
_CASE_OF = _table(_CLASSES[:2])


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text: within 15 % for prose, with any model.

    Deterministic. A longer text never has fewer tokens, and a text has at most as many as its pieces together. This
    does not hold for texts of more than half a million characters, of which pieces are counted: their estimate is
    within a few percent of what counting all of it gives.
    """
    if len(text) > _PIECES * _PIECE:
        return -(-len(text) * _estimate_all(_sample(text)) // (_PIECES * _PIECE))
    return _estimate_all(text)


def _sample(text: str) -> str:
    """Pieces of a text, joined: one begins in each of `_PIECES` equal shares of it."""
    share, last = len(text) / _PIECES, len(text) - _PIECE
    places = (min(last, int(share * (index + index * _STEP % 1))) for index in range(_PIECES))
    return "".join(text[place : place + _PIECE] for place in places)


def _estimate_all(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    classes = data.translate(_CLASS_OF)
    hundredths: int = _WORD * _words(data) + sum(map(mul, _WEIGHTS, map(classes.count, _NAMES)))
    return -(-hundredths // 100)


def _words(data: bytes) -> int:
    """The number of words in Latin script, with camelCase and base64 split as tokenizers split them.

    These are the matches of `[A-Z]?[a-z]+|[A-Z]+`, which are counted by how they begin: this takes a tenth of the time.
    """
    cases = b"-%s" % data.translate(_CASE_OF)
    # After several upper-case letters, a lower-case one begins a word of its own.
    return sum(map(cases.count, (b"-a", b"-A", b"aA", b"AAa")))


def estimate(message: Message) -> int:
    """Estimate the tokens of a message, thinking included; never 0."""
    if message.type == "summary":
        message = message.as_user_message()
    return FRAME_TOKENS + sum(map(_estimate_part, message.content))


def estimate_request(context: Context) -> int:
    """Estimate the tokens of a whole request: system prompt, tools and messages."""
    return _estimate_preamble(context.system, context.tools) + sum(map(estimate, context.messages))


def context_tokens(
    messages: Sequence[Message],
    system: str = "",
    tools: Sequence[ToolSpec] = (),
    *,
    before: int | None = None,
    scale: float = 1.0,
    counted: bool = True,
) -> int:
    """The tokens of a request with these messages.

    Adds an estimate of the newest messages to the provider's count for the latest reply, which includes everything
    that was sent before it: so this takes the same time however long the conversation is. Without such a reply
    everything is estimated.

    Args:
        messages: What the model is sent. If there is a summary it is the first one, followed by the messages that it
            keeps; replies among these were counted in the conversation as it was before, so their counts are ignored.
        system: The system prompt.
        tools: The tools.
        before: The estimated tokens of `system` and `tools`, if they are known: `system` and `tools` are then ignored.
        scale: The ratio of counted to estimated tokens.
        counted: Whether these messages are those that were counted, rather than shortened ones.

    Returns:
        The number of tokens.
    """
    if not counted:
        before = _estimate_preamble(system, tools) if before is None else before
        return ceil(scale * (before + sum(map(estimate, messages))))
    first = 1 + len(messages[0].kept) if messages and messages[0].type == "summary" else 0
    later = 0
    for index in range(len(messages) - 1, first - 1, -1):
        message = messages[index]
        if message.type == "assistant" and (tokens := _counted(message)):
            return tokens + ceil(scale * later)
        later += estimate(message)
    before = _estimate_preamble(system, tools) if before is None else before
    return ceil(scale * (before + sum(map(estimate, messages[:first])) + later))


def tokens_per_estimate(messages: Sequence[Message], index: int, *, before: int = 0) -> float:
    """The ratio of counted to estimated tokens, for the messages that the reply at `index` was the first to read.

    `before` are the estimated tokens of what is sent before the first message. The ratio is 1 if it is unknown or less,
    because a tokenizer that needs fewer tokens than estimated does no harm.
    """
    reply = messages[index]
    if reply.type != "assistant" or reply.usage is None or not reply.usage.input_tokens:
        return 1.0
    first = 1 + len(messages[0].kept) if messages[0].type == "summary" else 0
    counted, start = 0, index
    while start > first and not counted:
        start -= 1
        earlier = messages[start]
        counted = _counted(earlier) if earlier.type == "assistant" else 0
    if not counted and first:
        return 1.0
    new = messages[start + 1 : index] if counted else messages[:index]
    if any(has_media(message) for message in new):
        return 1.0
    estimated = sum(map(estimate, new)) + (0 if counted else before)
    if estimated < _MIN_CALIBRATING_TOKENS:
        return 1.0
    return min(MAX_SCALE, max(1.0, (reply.usage.input_tokens - counted) / estimated))


def has_media(message: Message) -> bool:
    """Whether the message has images, files or videos, whose tokens are estimated roughly."""
    return any(
        part.type in ("image", "file", "video") or (part.type == "tool_result" and part.images)
        for part in message.content
    )


def _counted(reply: AssistantMessage) -> int:
    """The tokens that the provider counted for a reply and its request, 0 if it did not count them."""
    usage = reply.usage
    if usage is None or not usage.input_tokens or (reply.estimated and reply.stop_reason in ("stop", "tool_use")):
        return 0
    if reply.stop_reason in ("aborted", "error"):  # cut before its output was counted
        return usage.input_tokens + max(usage.output_tokens, estimate(reply))
    return usage.total_tokens


def _estimate_preamble(system: str, tools: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of what is sent before the first message."""
    return estimate_text(system) + sum(map(estimate_tool, tools))


def estimate_tool(tool: ToolSpec) -> int:
    """Estimate the tokens of a tool's specification."""
    return FRAME_TOKENS + estimate_text(f"{tool.name} {tool.description} {_json(tool.parameters)}")


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
        case "video":
            return VIDEO_TOKENS


def _json(data: JsonObject) -> str:
    return _WRITER.encode(data)
