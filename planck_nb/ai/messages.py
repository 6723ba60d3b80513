"""Messages of people, models and tools: plain immutable values, the same for every provider.

A message has no identity of its own; a message log gives it an id. `provider_state` on a part is opaque: it holds data
that goes back unchanged to the provider that made the part (a signature, encrypted reasoning), and to no other.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from planck_nb.ai.numbers import with_plausible_numbers
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.quick_init import quick_init

StopReason: TypeAlias = Literal["stop", "length", "tool_use", "refusal", "aborted", "error"]
"""Why a model's message ended: complete, at the token limit, to run tools, refused, stopped by the user, or failed."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text that is shown as it is.

    Args:
        text: The text.
        provider_state: Opaque data that goes back to the provider unchanged, None if there is none.
    """

    text: str
    provider_state: JsonObject | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Reasoning that the model shows.

    Args:
        text: The reasoning, empty if only the provider's encrypted form exists.
        provider_state: Opaque data that goes back to the provider unchanged, such as a signature.
    """

    text: str
    provider_state: JsonObject | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A model's request to run a tool.

    Args:
        id: The id of the call, unique within its message.
        name: The name of the tool.
        args: The arguments, a parsed JSON object.
        invalid: The text that the model wrote instead of a JSON object; `args` is then empty. Such a call is reported
            back to the model and never run.
        provider_state: Opaque data that goes back to the provider unchanged.
    """

    id: str
    name: str
    args: JsonObject
    invalid: str | None = None
    provider_state: JsonObject | None = None
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image, by its bytes or by its address.

    Args:
        data: The bytes, or their base64 text, which is what the attribute holds.
        mime: The media type.
        url: An address that the provider may fetch the image from, instead of `data`.
    """

    data: str | None = None
    mime: str = "image/png"
    url: str | None = None
    type: Literal["image"] = "image"

    def __init__(
        self,
        data: str | bytes | None = None,
        mime: str = mime,
        url: str | None = None,
        type: Literal["image"] = "image",  # noqa: A002 - the tag
    ) -> None:
        _set(self, data=_as_base64(data), mime=mime, url=url, type=type)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A document, such as a PDF, by its bytes or by its address.

    Args:
        data: The bytes, or their base64 text, which is what the attribute holds.
        mime: The media type.
        name: The file name.
        url: An address that the provider may fetch the document from, instead of `data`.
    """

    data: str | None = None
    mime: str = "application/pdf"
    name: str = "document.pdf"
    url: str | None = None
    type: Literal["file"] = "file"

    def __init__(
        self,
        data: str | bytes | None = None,
        mime: str = mime,
        name: str = name,
        url: str | None = None,
        type: Literal["file"] = "file",  # noqa: A002 - the tag
    ) -> None:
        _set(self, data=_as_base64(data), mime=mime, name=name, url=url, type=type)


@dataclass(frozen=True, slots=True)
class VideoPart:
    """A video, by its bytes or by its address. Gemini models accept videos; others refuse them with a sentence.

    Args:
        data: The bytes, or their base64 text, which is what the attribute holds.
        mime: The media type.
        url: An address that the provider may fetch the video from, instead of `data`, such as that of a file that was
            uploaded, or of a public YouTube video.
    """

    data: str | None = None
    mime: str = "video/mp4"
    url: str | None = None
    type: Literal["video"] = "video"

    def __init__(
        self,
        data: str | bytes | None = None,
        mime: str = mime,
        url: str | None = None,
        type: Literal["video"] = "video",  # noqa: A002 - the tag
    ) -> None:
        _set(self, data=_as_base64(data), mime=mime, url=url, type=type)


def _set(part: object, **values: object) -> None:
    """Fill a frozen value from its own constructor."""
    for name, value in values.items():
        object.__setattr__(part, name, value)


def _as_base64(data: str | bytes | None) -> str | None:
    return base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a tool returned.

    Args:
        id: The id of the call.
        name: The name of the tool.
        text: The text that the model reads.
        is_error: Whether the call failed.
        images: Images that the model may look at.
    """

    id: str
    name: str
    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
    type: Literal["tool_result"] = "tool_result"


UserPart: TypeAlias = TextPart | ImagePart | FilePart | VideoPart
"""A part of a user's message."""

AssistantPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart
"""A part of a model's message."""

Part: TypeAlias = TextPart | ImagePart | FilePart | VideoPart | ThinkingPart | ToolCallPart | ToolResultPart
"""Any part of any message."""


@quick_init
@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one or more model replies, with one definition for all providers.

    Args:
        input_tokens: All tokens that the model read, cached or not.
        output_tokens: All tokens that it wrote, thinking included.
        cache_read_tokens: The part of the input that came from the provider's cache.
        cache_write_tokens: The part of the input that was written to it.
        thinking_tokens: The part of the output that was spent on thinking.

    Example:
        >>> from planck_nb import ai
        >>> (ai.Usage(10, 2) + ai.Usage(5, 1)).total_tokens
        18
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.thinking_tokens + other.thinking_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


def as_parts(content: str | Sequence[UserPart]) -> tuple[UserPart, ...]:
    """Return a user's content as parts: text becomes one text part. Raises `UsageError` for anything else."""
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, Iterable):
        raise _no_content(content)
    parts = tuple(content)
    for part in parts:
        if not isinstance(part, (TextPart, ImagePart, FilePart, VideoPart)):
            raise _no_content(part)
    return parts


def _no_content(found: object) -> UsageError:
    return UsageError(
        f"A user's message cannot hold a value of type {type(found).__name__}; "
        "write text, or a list of TextPart, ImagePart, FilePart and VideoPart."
    )


Purpose: TypeAlias = Literal["question", "task", "response"]
"""Why an agent sends a message to another one."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A prompt: what a person, a program or another agent says.

    Args:
        content: Text and other parts; a plain string becomes one text part.
        sender_id: The id of the agent that sent it, None if a person or a program did.
        sender_name: The name of that agent.
        purpose: What an agent sent it for: a question, a task, or the response to one; None if none sent it.

    Raises:
        UsageError: The content is neither text nor a sequence of text, image, file and video parts.
    """

    content: tuple[UserPart, ...]
    type: Literal["user"] = "user"
    sender_id: str | None = None
    sender_name: str | None = None
    purpose: Purpose | None = None

    def __init__(
        self,
        content: str | Sequence[UserPart],
        type: Literal["user"] = "user",  # noqa: A002 - the tag
        sender_id: str | None = None,
        sender_name: str | None = None,
        purpose: Purpose | None = None,
    ) -> None:
        _set(
            self,
            content=as_parts(content),
            type=type,
            sender_id=sender_id,
            sender_name=sender_name,
            purpose=purpose,
        )

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.content if part.type == "text")


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A model's message, complete or as far as it was received.

    Args:
        content: Its parts in order.
        stop_reason: Why it ended.
        usage: Token counts, None if the provider reported none.
        cost: US dollars, None if the price is unknown.
        provider: The name of the provider.
        model: The model's id.
        error: One sentence about what ended it early, if `stop_reason` is "error".
        api: The wire format that the `provider_state` of its parts belongs to, empty if unknown.
        estimated: Whether `usage` and `cost` are the least that it took, partly estimated, because it was stopped
            before its provider had counted it; None if they are as reported.
        set_aside: The ids of prompts that are too long for the model. They stay in the conversation, and neither they
            nor this message, which has no content, are sent again. None in all other messages.
        ttft_s: Seconds from sending the request to the first part of the reply, None if there was none or it was not
            measured, as in a replayed one. Replies that differ only in this and `latency_s` are equal.
        latency_s: Seconds from sending the request to the end of the reply, with the waits before retries.
    """

    content: tuple[AssistantPart, ...]
    stop_reason: StopReason = "stop"
    usage: Usage | None = None
    cost: float | None = None
    provider: str = ""
    model: str = ""
    error: str | None = None
    api: str = ""
    type: Literal["assistant"] = "assistant"
    estimated: bool | None = None
    set_aside: tuple[int, ...] | None = None
    ttft_s: float | None = field(default=None, compare=False)
    latency_s: float | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.content if part.type == "text")

    @property
    def thinking(self) -> str:
        """All thinking parts, joined by blank lines."""
        return "\n\n".join(part.text for part in self.content if part.type == "thinking" and part.text)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls in order."""
        return tuple(part for part in self.content if part.type == "tool_call")


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The results of all tool calls of one assistant message.

    Args:
        content: The results in the order of the calls.
    """

    content: tuple[ToolResultPart, ...]
    type: Literal["tool_result"] = "tool_result"


SUMMARY_HEADING = "Summary of the conversation before this point:"
"""The first line of a summary as a model reads it."""


@dataclass(frozen=True, slots=True)
class SummaryMessage:
    """A summary that replaces the conversation so far in what a model is sent; what is stored stays.

    Models know no such role: they read it as a user's message, below `SUMMARY_HEADING`.

    Args:
        content: Text, which becomes one text part, or text parts.
        kept: The ids of earlier messages that a model still receives word for word, after the summary.
    """

    content: tuple[TextPart, ...]
    kept: tuple[int, ...] = ()
    type: Literal["summary"] = "summary"

    def __init__(
        self,
        content: str | Sequence[TextPart],
        kept: Sequence[int] = (),
        type: Literal["summary"] = "summary",  # noqa: A002
    ) -> None:
        parts = (TextPart(content),) if isinstance(content, str) else tuple(content)
        _set(self, content=parts, kept=tuple(kept), type=type)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.content)

    def as_user_message(self) -> UserMessage:
        """Convert the summary to the message that a model is sent.

        Returns:
            A user's message with the heading and the text.
        """
        return UserMessage(f"{SUMMARY_HEADING}\n\n{self.text}")


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage | SummaryMessage
"""Any message of a conversation."""


@cache
def _adapter() -> Any:  # noqa: ANN401 - pydantic's adapter over a union of dataclasses has no useful static type
    from pydantic import Field, TypeAdapter  # noqa: PLC0415 - a third of the package's import time, needed only here

    return TypeAdapter(Annotated[Message, Field(discriminator="type")])


def encode_message(message: Message) -> JsonObject:
    """Convert a message to JSON data, from which `decode_message` makes an equal message.

    Args:
        message: Any message.

    Returns:
        A JSON object. Fields that are None are left out.

    Example:
        >>> from planck_nb import ai
        >>> data = ai.encode_message(ai.UserMessage("hi"))
        >>> ai.decode_message(data) == ai.UserMessage("hi")
        True
    """
    return cast("JsonObject", _adapter().dump_python(message, mode="json", exclude_none=True))


def message_json(message: Message) -> bytes:
    """Encode like `encode_message`, but to JSON text and faster. Raises ValueError if pydantic cannot write it."""
    return cast("bytes", _adapter().dump_json(message, exclude_none=True))


def decode_message(data: JsonObject) -> Message:
    """Make the message that `encode_message` converted to `data`.

    Token counts and costs that cannot be right become unknown, because somebody else may have written the data.

    Args:
        data: A JSON object.

    Returns:
        The message.

    Raises:
        pydantic.ValidationError: The data is not an encoded message.
    """
    plausible = with_plausible_numbers(data) if isinstance(data, dict) else data
    return cast("Message", _adapter().validate_python(plausible))


def text_of(parts: Iterable[Part]) -> str:
    """Join the visible text of the parts, including tool results, without thinking and calls."""
    return "\n".join(part.text for part in parts if part.type in ("text", "tool_result") and part.text)
