"""A sidecar's compactors: functions which shorten a conversation.

They are served as tools which models do not see.

The kernel sends messages with ids and receives the ids to keep, so a sidecar cannot rewrite history.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, overload

from planck_nb.ai.messages import Message, decode_message
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.author.names import name_of
from planck_nb.sidecars.author.recording import recorded
from planck_nb.sidecars.author.running import runs_of
from planck_nb.sidecars.author.sidecar_tools import SidecarTool, checked_timeout_ms
from planck_nb.sidecars.author.structured import Structure
from planck_nb.sidecars.conventions import (
    ACTION_COMPACT,
    ACTION_SKIP,
    COMPACTOR_PREFIX,
    DEFAULT_COMPACTOR_TIMEOUT_MS,
    ROLE_COMPACTOR,
    RUNS_ASYNC,
)

_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "description": "The conversation; each message is a JSON object with an id.",
            "items": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        },
        "model": {
            "type": "object",
            "description": "The agent's model.",
            "properties": {
                "reference": {"type": "string"},
                "context_window": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["reference"],
        },
    },
    "required": ["messages", "model"],
}

_RESULT: JsonObject = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": [ACTION_SKIP, ACTION_COMPACT]},
        "summary": {"type": "string"},
        "keep_ids": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["action"],
}

_PAIR = 2
"""Number of values which a compactor returns, and which it may accept."""


@dataclass(frozen=True, slots=True)
class CompactedModel:
    """The agent's model, for a conversation under compaction.

    Args:
        reference: The model as "provider:model".
        context_window: Number of tokens which it accepts, None if unknown.
    """

    reference: str
    context_window: int | None = None


@overload
def compactor(function: Callable[..., Any], /) -> SidecarTool: ...


@overload
def compactor(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_ms: int = DEFAULT_COMPACTOR_TIMEOUT_MS,
    process: bool | None = None,
) -> Callable[[Callable[..., Any]], SidecarTool]: ...


def compactor(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_ms: int = DEFAULT_COMPACTOR_TIMEOUT_MS,
    process: bool | None = None,
) -> SidecarTool | Callable[[Callable[..., Any]], SidecarTool]:
    """Make a compactor from a Python function.

    Use it as `@compactor` or `@compactor(timeout_ms=…)`.

    Args:
        function: Called with the messages, a list of `planck_nb.ai` messages, and optionally with the agent's
            `CompactedModel`. It returns a summary and the messages to keep unchanged, `("…", messages[-5:])`,
            or None to leave the conversation as it is. It may be async.
        name: The agents' name for it; by default the function's name.
        description: Its purpose, for display; by default the docstring.
        timeout_ms: Time limit for a call, in milliseconds; after it, the kernel uses its own compactor.
        process: As for `tool`.

    Returns:
        The compactor as a tool, or a decorator which makes it from a function.

    Raises:
        UsageError: If the name or `timeout_ms` is not valid, or `process` is True for a function that cannot run in a
            process.

    Example:
        >>> @compactor
        ... def short(messages, model):
        ...     return f"{len(messages)} messages so far", messages[-5:]
        >>> short.name
        'planck_compact_short'
    """

    def make(function: Callable[..., Any]) -> SidecarTool:
        called = name_of(function, name, "a compactor")
        runs = runs_of(function, called, process=process)
        return SidecarTool(
            name=f"{COMPACTOR_PREFIX}{called}",
            description=description or inspect.getdoc(function) or f"Compacts conversations: {called}.",
            parameters=_PARAMETERS,
            execute_fn=recorded(_executed(function, called, is_async=runs == RUNS_ASYNC)),
            timeout=None,
            role=ROLE_COMPACTOR,
            runs=runs,
            timeout_ms=checked_timeout_ms(timeout_ms, called),
            structure=Structure(_RESULT, lambda result: result),
        )

    return make if function is None else make(function)


def _executed(function: Callable[..., Any], name: str, *, is_async: bool) -> Callable[[JsonObject], Any]:
    """Wrap the function for JSON data, as in MCP."""
    takes_model = _accepts_model(function)

    def call(args: Mapping[str, Any]) -> tuple[Any, list[tuple[int, Message]]]:
        numbered = [_decoded(item) for item in args["messages"]]
        model = CompactedModel(str(args["model"].get("reference", "")), args["model"].get("context_window"))
        messages = [message for _, message in numbered]
        return (function(messages, model) if takes_model else function(messages)), numbered

    if is_async:

        @wraps(call)
        async def execute_async(args: JsonObject) -> JsonObject:
            value, numbered = call(args)
            return _result(await value, numbered, name)

        return execute_async

    def execute(args: JsonObject) -> JsonObject:
        value, numbered = call(args)
        return _result(value, numbered, name)

    return execute


def _accepts_model(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    if any(item.kind == item.VAR_POSITIONAL for item in parameters):
        return True
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return sum(item.kind in positional for item in parameters) >= _PAIR


def _decoded(item: JsonObject) -> tuple[int, Message]:
    try:
        return int(str(item["id"])), decode_message({key: value for key, value in item.items() if key != "id"})
    except (KeyError, ValueError) as error:  # pydantic's errors are ValueErrors
        raise ToolError(
            "The compactor was sent a message that it does not know; the sidecar needs the same version of planck_nb "
            "as the kernel."
        ) from error


def _result(value: object, numbered: Sequence[tuple[int, Message]], name: str) -> JsonObject:
    if value is None:
        return {"action": ACTION_SKIP}
    summary, kept = _summary_and_kept(value, name)
    # By identity, because two messages in a conversation can be equal.
    numbers = {id(message): number for number, message in numbered}
    positions = [numbers.get(id(message)) for message in kept]
    if None in positions:
        raise ToolError(
            f"The compactor {name} returned a message that it was not given; return some of its messages as they are."
        )
    keep_ids = [number for number in positions if number is not None]
    return {"action": ACTION_COMPACT, "summary": summary, "keep_ids": list(dict.fromkeys(keep_ids))}


def _summary_and_kept(value: object, name: str) -> tuple[str, Sequence[object]]:
    if isinstance(value, str):
        value = (value, ())
    elif hasattr(value, "summary") and hasattr(value, "kept"):  # a `planck_nb.Compact`
        value = (value.summary, value.kept)
    match value:
        case (str(summary), list() | tuple() as kept) if summary.strip():
            return summary, kept
        case _:
            raise ToolError(
                f"The compactor {name} returned a {type(value).__name__} that is not a summary with the messages to "
                'keep; return a pair such as ("summary", messages[-5:]), or None.'
            )
