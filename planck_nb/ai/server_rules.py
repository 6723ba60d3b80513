"""Differences between servers with one wire format, as data.

Each provider has one `ServerRules`, and dialects read it instead of the provider's name. Default values stand for the
usual server.
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
"""A request's way to set the thinking level.

`reasoning_effort` is OpenAI's field with the word, `reasoning` an object with the word under `effort`, `thinking` an
object whose `type` is "enabled" or "disabled", `enable_thinking` a switch in `chat_template_kwargs`; with the last one
it cannot be set.
"""

OutputControl: TypeAlias = Literal["json_schema", "json_object", "prompt"]
"""A request's way to ask for structured output.

`json_schema` sends the schema, `json_object` asks for any JSON object, with the schema in the prompt, and `prompt` has
it only there.
"""

ReturnedReasoning: TypeAlias = Literal["accepted", "required", "refused"]
"""A server's demand for earlier reasoning, which may be empty if required."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions which lead to a value in a JSON document."""


_FOR_NUMBER = 8
"""Characters for a number."""


@lru_cache
def _others(letters: str) -> re.Pattern[str]:
    return re.compile(f"[^{letters}]")


@dataclass(frozen=True, slots=True)
class CallIds:
    """A server's rule for call ids.

    Args:
        letters: The accepted characters, as inside a character class.
        length: The most characters.
        exact: Whether every id has exactly this length.

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
            call_id: A call's id.

        Returns:
            Whether the server accepts it.
        """
        least = self.length if self.exact else 1
        return least <= len(call_id) <= self.length and _others(self.letters).search(call_id) is None

    def fitted(self, call_id: str, number: int) -> str:
        """Rewrite an id.

        Args:
            call_id: A call's id.
            number: 1 for the first call with this id, more for others.

        Returns:
            An acceptable id, always the same for the same arguments.

        Example:
            >>> CallIds("a-f0-9", 4, exact=True).fitted("call_1", 1)
            'f049'
        """
        if not self.exact:
            stem = _others(self.letters).sub("_", call_id) or "call"
            return stem[: self.length] if number == 1 else f"{stem[: self.length - _FOR_NUMBER]}_{number}"
        digest = int.from_bytes(blake2b(f"{call_id}\n{number}".encode("utf-8", "backslashreplace")).digest())
        alphabet = _others(self.letters).sub("", digits + ascii_letters)
        fitted_id = ""
        while len(fitted_id) < self.length:
            digest, place = divmod(digest, len(alphabet))
            fitted_id += alphabet[place]
        return fitted_id


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """The price in a reply's usage.

    Args:
        field: The field's name.
        dollars: US dollars per unit.
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
"""Each finish reason's meaning in Chat Completions."""

USAGE_PLACES: tuple[Path, ...] = (("usage",), ("choices", 0, "usage"), ("x_groq", "usage"))
"""Places with token counts in a Chat Completions chunk."""

NO_SIGNATURE = "skip_thought_signature_validator"
"""Stands for another model's signature (ai.google.dev, "Thought signatures")."""

THINK_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)
"""Tags which open models write around their thinking."""

OPAQUE_FIELDS = frozenset(
    {
        "extra_content",  # Google
        "reasoning_details",  # OpenRouter
        "thinking_blocks",  # LiteLLM
        "provider_specific_fields",  # LiteLLM
        "reasoning_opaque",  # Copilot
    }
)
"""Fields in replies and calls which have to come back unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRules:
    """One kind of server, apart from its wire format.

    Args:
        is_vendor: Whether the format's own vendor runs it, so its whole format is there.
        binds_thinking: Whether newer models sign thinking together with system prompt and tools.
        limit_field: The field for the most tokens in a reply.
        thinking_control: Its way to set the thinking level.
        output_control: Its way to ask for structured output.
        strict: Whether output can be held to a schema strictly.
        refused_fields: Request fields which it refuses.
        refused_in_messages: Message fields which it refuses.
        refused_keywords: JSON Schema keywords which it refuses.
        tool_schemas: The accepted JSON Schema subset for tools' parameters; None for the format's usual one.
        refused_tools: Tools which it has refused, by `planck_nb.ai.schemas.fitted_tools.tool_key`.
        chooses_by_name: Whether a single tool can be demanded by its name.
        demands_while_thinking: Whether a tool call can be demanded while the model thinks. If not, such a request turns
            thinking off.
        takes_files: Whether prompts may contain documents.
        takes_videos: Whether prompts may contain videos.
        stop_in_responses: Whether its Responses API has stop sequences, which OpenAI's has not.
        call_ids: Its rule for call ids.
        alternates: Whether the roles user and assistant must take turns, tool results before a prompt included.
        reasoning: Whether earlier reasoning may be, must be, or must not be sent.
        reasoning_field: The message field for reasoning; empty for the one it was received in.
        text_beside_reasoning: Whether one message may have both text and reasoning.
        system_role: Whether it takes the role system; if not, the system prompt begins the first prompt.
        null_content: Whether a message with calls may have null instead of a text.
        call_signature: The stand-in for another model's signature, if calls must have one.
        opaque_fields: Fields in replies and calls which go back unread.
        finish_reasons: Each finish reason's meaning. Any other word means a reply which was cut off.
        usage_places: Places with token counts.
        cost: The price in a reply's usage, None without one.
        calls_in_text: Whether its models may write a tool call as JSON text.
        think_tags: Pairs: the tags around thinking in a reply's text.
        reports_window: Whether `/props` has the context window which its model runs with.
        change: The last function over each request's body, for any other rule.

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
    opaque_fields: frozenset[str] = OPAQUE_FIELDS
    finish_reasons: Mapping[str, StopReason] = field(default_factory=lambda: FINISH_REASONS)
    usage_places: tuple[Path, ...] = USAGE_PLACES
    cost: ReportedCost | None = None
    calls_in_text: bool = False
    think_tags: tuple[tuple[str, str], ...] = THINK_TAGS
    reports_window: bool = False
    change: Callable[[JsonObject], JsonObject] | None = None


USUAL = ServerRules()
"""A server without any known difference."""
