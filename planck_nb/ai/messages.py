"""What people, models and tools say to one another: plain immutable values, the same for every provider.

A message has no identity of its own; a message log gives it an id. `provider_state` on a part is opaque: it holds what
the provider that made the part wants echoed unchanged (a signature, encrypted reasoning) and is dropped for any other.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject

StopReason: TypeAlias = Literal["stop", "length", "tool_use", "refusal", "aborted", "error"]
"""Why a model's message ended: by itself, at the token limit, to have tools run, refused, stopped, or failed."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text that is shown as it is."""

    text: str
    provider_state: JsonObject | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Reasoning that the model shows. `text` may be empty when only the provider's sealed form exists."""

    text: str
    provider_state: JsonObject | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A model's request to run a tool.

    `args` is the parsed JSON object. Where the model wrote something that is not a JSON object, `args` is empty and
    `invalid` holds the text as it came; such a call is reported back to the model and never run.
    """

    id: str
    name: str
    args: JsonObject
    invalid: str | None = None
    provider_state: JsonObject | None = None
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: its bytes in `data`, or the `url` where the provider may fetch it.

    `data` is base64 text; bytes given to the constructor are encoded. `mime` is its media type.
    """

    data: str | None = None
    mime: str = "image/png"
    url: str | None = None
    type: Literal["image"] = "image"

    def __init__(
        self,
        data: str | bytes | None = None,
        mime: str = "image/png",
        url: str | None = None,
        type: Literal["image"] = "image",  # noqa: A002 - the tag
    ) -> None:
        _set(self, data=_as_base64(data), mime=mime, url=url, type=type)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A document, such as a PDF: its bytes in `data`, or the `url` where the provider may fetch it.

    `data` is base64 text; bytes given to the constructor are encoded. `mime` is its media type, `name` its file name.
    """

    data: str | None = None
    mime: str = "application/pdf"
    name: str = "document.pdf"
    url: str | None = None
    type: Literal["file"] = "file"

    def __init__(
        self,
        data: str | bytes | None = None,
        mime: str = "application/pdf",
        name: str = "document.pdf",
        url: str | None = None,
        type: Literal["file"] = "file",  # noqa: A002 - the tag
    ) -> None:
        _set(self, data=_as_base64(data), mime=mime, name=name, url=url, type=type)


def _set(part: object, **values: object) -> None:
    """Fill a frozen value from its own constructor."""
    for name, value in values.items():
        object.__setattr__(part, name, value)


def _as_base64(data: str | bytes | None) -> str | None:
    return base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a tool gave back for the call `id`: the text that the model reads, and pictures it may look at."""

    id: str
    name: str
    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
    type: Literal["tool_result"] = "tool_result"


UserPart: TypeAlias = TextPart | ImagePart | FilePart
"""A part of a user's message."""

AssistantPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart
"""A part of a model's message."""

Part: TypeAlias = TextPart | ImagePart | FilePart | ThinkingPart | ToolCallPart | ToolResultPart
"""Any part of any message."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one or more model replies.

    One definition for all providers: `input_tokens` is everything the model read, cached or not; `output_tokens` is
    everything it wrote, thinking included. `cache_read_tokens` and `cache_write_tokens` are the parts of the input
    that came from, or went into, the provider's cache; `thinking_tokens` is the part of the output spent on thinking.
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
    """A user's content as parts: text becomes one text part. Raises `UsageError` for what is no content."""
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, Iterable):
        raise _no_content(content)
    parts = tuple(content)
    for part in parts:
        if not isinstance(part, (TextPart, ImagePart, FilePart)):
            raise _no_content(part)
    return parts


def _no_content(found: object) -> UsageError:
    return UsageError(
        f"A user's message cannot hold a value of type {type(found).__name__}; "
        "write text, or a list of TextPart, ImagePart and FilePart."
    )


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person, or another agent, says. A plain string becomes one text part."""

    content: tuple[UserPart, ...]
    type: Literal["user"] = "user"

    def __init__(self, content: str | Sequence[UserPart], type: Literal["user"] = "user") -> None:  # noqa: A002
        _set(self, content=as_parts(content), type=type)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.content if part.type == "text")


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a model says, complete or as far as it came.

    `usage` is None where the provider reported none. `cost` is in US dollars, None where the price is unknown.
    `error` is the one sentence that ended the message early, when `stop_reason` is "error". `api` is the wire format
    that its parts' `provider_state` belongs to, empty where nobody knows.
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
        """The calls the model asks for, in its order."""
        return tuple(part for part in self.content if part.type == "tool_call")


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The results of all calls of one assistant message, in call order."""

    content: tuple[ToolResultPart, ...]
    type: Literal["tool_result"] = "tool_result"


SUMMARY_HEADING = "Summary of the conversation before this point:"
"""The line that a summary begins with where a model reads it."""


@dataclass(frozen=True, slots=True)
class SummaryMessage:
    """What was said so far, in short. It begins a new chapter of a stored conversation.

    A plain string becomes one text part. `kept` are the ids of earlier messages that still count word for word: they
    come after the summary in what a model is sent. Models have no such role: they read it as a user's message, below
    `SUMMARY_HEADING`.
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
        """What a model is sent in its place."""
        return UserMessage(f"{SUMMARY_HEADING}\n\n{self.text}")


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage | SummaryMessage
"""Any message of a conversation."""


@cache
def _adapter() -> Any:  # noqa: ANN401 - pydantic's adapter over a union of dataclasses has no useful static type
    from pydantic import Field, TypeAdapter  # noqa: PLC0415 - a third of the package's import time, needed only here

    return TypeAdapter(Annotated[Message, Field(discriminator="type")])


def encode_message(message: Message) -> JsonObject:
    """The message as JSON data; `decode_message` gives an equal message back."""
    return cast("JsonObject", _adapter().dump_python(message, mode="json", exclude_none=True))


def message_json(message: Message) -> bytes:
    """What `encode_message` gives, as JSON text and sooner. Raises ValueError for what pydantic cannot write."""
    return cast("bytes", _adapter().dump_json(message, exclude_none=True))


def decode_message(data: JsonObject) -> Message:
    """The message that `encode_message` made `data` from. Raises pydantic's ValidationError for anything else."""
    return cast("Message", _adapter().validate_python(data))


def text_of(parts: Iterable[Part]) -> str:
    """The visible text of the parts: what was said and what tools returned, without thinking and calls."""
    return "\n".join(part.text for part in parts if part.type in ("text", "tool_result") and part.text)
