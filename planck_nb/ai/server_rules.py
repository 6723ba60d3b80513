"""How a server differs from others of its wire format, as data.

A provider has one `ServerRules`, and dialects read it instead of asking for a provider's name. What is not set is the
usual behaviour of the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from string import ascii_letters, digits
from typing import Literal, TypeAlias

from planck_nb.ai.messages import StopReason
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.base.json_types import JsonObject

ThinkingControl: TypeAlias = Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking", "none"]
"""How a request sets the level of thinking.

`reasoning_effort` is OpenAI's field with the word, `reasoning` an object with the word under `effort`, `thinking` an
object whose `type` is "enabled" or "disabled", `enable_thinking` a switch in `chat_template_kwargs`; with "none" it
cannot be set.
"""

OutputControl: TypeAlias = Literal["json_schema", "json_object", "prompt"]
"""How a request asks for structured output: by its schema, as any JSON object with the schema in the prompt, or only in
the prompt."""

ReturnedReasoning: TypeAlias = Literal["accepted", "required", "refused"]
"""Whether a server accepts earlier reasoning, demands it on each reply with calls (even if empty), or refuses it."""

Path: TypeAlias = tuple[str | int, ...]
"""The keys and positions that lead to a value in a JSON document."""


_FOR_NUMBER = 8
"""Characters that are kept free for a number."""


@lru_cache
def _others(letters: str) -> re.Pattern[str]:
    return re.compile(f"[^{letters}]")


@dataclass(frozen=True, slots=True)
class CallIds:
    """The ids of tool calls that a server accepts. Others are rewritten.

    Args:
        letters: The characters that it accepts, as the inside of a character class.
        length: The most characters.
        exact: Whether each id has exactly that length.

    Example:
        >>> CallIds("a-f0-9", 4, exact=True).accepts("call_1")
        False
    """

    letters: str = "a-zA-Z0-9_-"
    length: int = 40
    exact: bool = False

    def accepts(self, call_id: str) -> bool:
        """Check an id.

        Args:
            call_id: The id of a call.

        Returns:
            Whether the server accepts it.
        """
        least = self.length if self.exact else 1
        return least <= len(call_id) <= self.length and _others(self.letters).search(call_id) is None

    def fitted(self, call_id: str, number: int) -> str:
        """Rewrite an id.

        Args:
            call_id: The id of a call.
            number: 1 for the first call with this id, more for others.

        Returns:
            An id that the server accepts, always the same for the same arguments.

        Example:
            >>> CallIds("a-f0-9", 4, exact=True).fitted("call_1", 1)
            'f049'
        """
        if not self.exact:
            stem = _others(self.letters).sub("_", call_id) or "call"
            return stem[: self.length] if number == 1 else f"{stem[: self.length - _FOR_NUMBER]}_{number}"
        digest = int.from_bytes(blake2b(f"{call_id}\n{number}".encode("utf-8", "backslashreplace")).digest())
        alphabet = _others(self.letters).sub("", digits + ascii_letters)
        found = ""
        while len(found) < self.length:
            digest, place = divmod(digest, len(alphabet))
            found += alphabet[place]
        return found


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """Where the usage of a reply has its price.

    Args:
        field: The name of the field.
        dollars: US dollars of one unit.
    """

    field: str
    dollars: float = 1.0


FINISH_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""What the finish reasons of Chat Completions mean, on any server."""

USAGE_PLACES: tuple[Path, ...] = (("usage",), ("choices", 0, "usage"), ("x_groq", "usage"))
"""Where servers report token counts in a chunk of Chat Completions, the usual place first."""

NO_SIGNATURE = "skip_thought_signature_validator"
"""Replaces the signature of a call that another model made (ai.google.dev, "Thought signatures")."""

THINK_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)
"""The tags that open models write around their thinking, where their server does not take it out of the text."""

OPAQUE_FIELDS = ("extra_content", "reasoning_details")
"""Fields of replies and calls that have to come back unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRules:
    """The rules of one kind of server, apart from its wire format.

    Args:
        is_vendor: Whether the server is that of the wire format's vendor, and supports the whole of it.
        binds_thinking: Whether newer models sign thinking together with system prompt and tools.
        limit_field: The field for the most tokens of a reply.
        thinking_control: How the level of thinking is set.
        output_control: How structured output is requested.
        strict: Whether output can be held to a schema strictly.
        refused_fields: Fields of a request that are never sent.
        refused_in_messages: Fields of the messages in it that are never sent.
        refused_keywords: Keywords of JSON Schema that it refuses.
        tool_schemas: The part of JSON Schema that it accepts in the parameters of tools; None for the usual one of the
            wire format.
        refused_tools: Tools that it has refused, by `planck_nb.ai.schemas.fitted_tools.tool_key`.
        chooses_by_name: Whether a single tool can be demanded by its name.
        demands_while_thinking: Whether a tool call can be demanded while the model thinks. If not, it does not think
            in such a request.
        takes_files: Whether prompts may contain documents.
        takes_videos: Whether prompts may contain videos.
        stop_in_responses: Whether its Responses API has stop sequences, which OpenAI's has not.
        call_ids: The ids of tool calls that it accepts.
        alternates: Whether the roles user and assistant must take turns, tool results before a prompt included.
        reasoning: Whether earlier reasoning may be, must be, or must not be sent.
        reasoning_field: The field of a message in which reasoning is sent; empty for the one it was received in.
        text_beside_reasoning: Whether one message may have both text and reasoning.
        system_role: Whether a request may have a message of the role system; its text begins the first prompt if not.
        null_content: Whether a message with calls may have null instead of a text.
        call_signature: What stands for the signature of a call that another model made, for a server that demands one.
        opaque_fields: Fields of replies and calls that go back to the server unread.
        finish_reasons: What its finish reasons mean. Any other word means that the reply was cut off.
        usage_places: Where it reports token counts.
        cost: Where it reports the price of a reply, None if it does not.
        calls_in_text: Whether its models may write a tool call as JSON text.
        think_tags: Pairs of tags around thinking in the text of a reply.
        reports_window: Whether it reports, at `/props`, the context window that it runs its model with.
        change: A function that returns the body to send for a body, for a rule that nothing else expresses.

    Example:
        >>> ServerRules(limit_field="max_completion_tokens", call_ids=CallIds("a-z", 8, exact=True)).strict
        True
    """

    is_vendor: bool = False
    binds_thinking: bool = False
    limit_field: str = "max_tokens"
    thinking_control: ThinkingControl = "reasoning_effort"
    output_control: OutputControl = "json_schema"
    strict: bool = True
    refused_fields: frozenset[str] = frozenset()
    refused_in_messages: frozenset[str] = frozenset()
    refused_keywords: frozenset[str] = frozenset()
    tool_schemas: SchemaRules | None = None
    refused_tools: frozenset[str] = frozenset()
    chooses_by_name: bool = True
    demands_while_thinking: bool = True
    takes_files: bool = True
    takes_videos: bool = False
    stop_in_responses: bool = False
    call_ids: CallIds = CallIds()
    alternates: bool = False
    reasoning: ReturnedReasoning = "accepted"
    reasoning_field: str = ""
    text_beside_reasoning: bool = True
    system_role: bool = True
    null_content: bool = True
    call_signature: str | None = None
    opaque_fields: tuple[str, ...] = OPAQUE_FIELDS
    finish_reasons: Mapping[str, StopReason] = field(default_factory=lambda: FINISH_REASONS)
    usage_places: tuple[Path, ...] = USAGE_PLACES
    cost: ReportedCost | None = None
    calls_in_text: bool = False
    think_tags: tuple[tuple[str, str], ...] = THINK_TAGS
    reports_window: bool = False
    change: Callable[[JsonObject], JsonObject] | None = None


USUAL = ServerRules()
"""The rules of a server of which nothing is known."""
