"""Agent events for the browser: the tags and fields in `agent/events.py`, bounded.

Long texts are cut, fields in `OMITTED` are left out. Additions for a view, such as arguments as text, are under the key
`display`; the dataclasses in `DISPLAYS` describe them. `labextension/generate_types.py` generates the TypeScript types
from the same tables: a field in `OMITTED` is optional there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, cast

from planck_nb.agent import events as ev
from planck_nb.ai import messages as ai
from planck_nb.base.json_types import JsonObject
from planck_nb.base.safe_html import framed_html
from planck_nb.base.text import encodable
from planck_nb.jupyter.live.approval_display import ApprovalDisplay, approval_display
from planck_nb.rendering.formatting import SHOWN_CHARACTERS, bounded, key_argument, shown_arguments
from planck_nb.rendering.plain_output import plain

_SENTENCE = 500
_TASK = 4_000
_LIMITS = {
    (ev.Delegated, "text"): _TASK,
    (ev.Error, "reason"): 2_000,
    (ev.Queued, "text"): SHOWN_CHARACTERS,
    (ev.Responded, "text"): _TASK,
    (ev.ToolEnd, "result"): SHOWN_CHARACTERS,
    (ai.TextPart, "text"): SHOWN_CHARACTERS,
    (ai.ToolResultPart, "text"): SHOWN_CHARACTERS,
}
"""Longest text in characters, above a sentence."""

_TERMINAL_OUTPUT = {(ev.ToolEnd, "result"), (ai.ToolResultPart, "text")}
"""Texts with colours and other terminal commands, to be removed."""


@dataclass(frozen=True, slots=True)
class QueuedDisplay:
    """`complete` is whether `text` is the whole prompt, and so editable."""

    complete: bool


@dataclass(frozen=True, slots=True)
class CallDisplay:
    """A call's arguments as pairs of name and text; `key` identifies it."""

    key: str
    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ArgumentsDisplay:
    """`characters` is the full length so far; only the beginning is sent."""

    characters: int


@dataclass(frozen=True, slots=True)
class OutputDisplay:
    """The last lines in a running tool's output, after `earlier_lines` others."""

    tail: str
    earlier_lines: int


@dataclass(frozen=True, slots=True)
class TableDisplay:
    """A table's first and last rows.

    `types` and `numeric` describe its columns; the first `index` columns are the index.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    numeric: tuple[bool, ...]
    index: int
    rows: tuple[tuple[str, ...], ...]
    size: str


@dataclass(frozen=True, slots=True)
class PreviewDisplay:
    """Tables, and HTML documents for frames without scripts and origin."""

    tables: tuple[TableDisplay, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageDisplay:
    """An image from a call, as a data address.

    An empty address is replaced by `notice`.
    """

    call: str
    source: str
    notice: str


@dataclass(frozen=True, slots=True)
class ResultsDisplay:
    """Images in tool results, which are in this event alone."""

    images: tuple[ImageDisplay, ...]


DISPLAYS: Mapping[type[ev.EventBase], type[object]] = {
    ev.MessageAppended: ResultsDisplay,
    ev.Queued: QueuedDisplay,
    ev.ToolStart: CallDisplay,
    ev.ToolArgsDelta: ArgumentsDisplay,
    ev.ToolProgress: OutputDisplay,
    ev.ToolPreview: PreviewDisplay,
    ev.ApprovalRequest: ApprovalDisplay,
    ev.ApprovalDecision: CallDisplay,
}
"""The class under `display`, by event."""

_SHOWN_OF_AGENT = {"name", "agent_type", "model", "role", "team_id", "parent_id", "description", "removed"}


def _not_shown(kind: type[ev.EventBase]) -> frozenset[str]:
    """Return hidden fields of an event about an agent.

    These are its system prompt, tools and options.
    """
    visible_names = {field.name for field in fields(ev.EventBase)} | _SHOWN_OF_AGENT | {"type"}
    return frozenset(field.name for field in fields(kind)) - visible_names


OMITTED: Mapping[type[object], frozenset[str]] = {
    ev.EventBase: frozenset({"session_id"}),
    ev.AgentStarted: _not_shown(ev.AgentStarted),
    ev.AgentChanged: _not_shown(ev.AgentChanged),
    ev.Queued: frozenset({"content", "output"}),
    ev.ToolStart: frozenset({"args"}),
    ev.ToolProgress: frozenset({"text"}),
    ev.ToolPreview: frozenset({"tables", "documents"}),
    ev.ApprovalRequest: frozenset({"args", "touches", "reason", "rule", "sandboxed"}),
    ev.ApprovalDecision: frozenset({"args"}),
    ev.EvaluationStarted: frozenset({"cases"}),
    ev.TurnEnd: frozenset({"message"}),
    ai.UserMessage: frozenset({"content"}),
    ai.AssistantMessage: frozenset(
        {
            "content",
            "usage",
            "cost",
            "provider",
            "model",
            "error",
            "api",
            "estimated",
            "set_aside",
            "ttft_s",
            "latency_s",
        }
    ),
    ai.SummaryMessage: frozenset({"content", "kept"}),
    ai.ToolResultPart: frozenset({"images"}),
}
"""Fields which the browser lacks, being known there or never shown."""


def browser_event(event: ev.AgentEvent, *, shown: bool = False) -> JsonObject:
    """Encode an event for the browser.

    Args:
        event: The event.
        shown: Whether the event is the message for a prompt outside the cell. Only these and other agents' messages are
            shown.

    Returns:
        The event as JSON data. Tool results are included only if they failed: a call which never ran has no `tool_end`.
    """
    data = _encoded(event) | {"time": round(event.time, 3)}
    if isinstance(event, ev.MessageAppended):
        message = event.message
        if message.type == "user" and (shown or message.sender_id is not None):
            data["message"]["content"] = [_encoded(ai.TextPart(message.text))]
        elif message.type == "tool_result":
            data["message"]["content"] = [_encoded(part) for part in message.content if part.is_error]
    make_display = _DISPLAY_MAKERS.get(type(event))
    display = None if make_display is None else make_display(event)
    return data if display is None else {**data, "display": asdict(display)}


def _encoded(value: Any) -> JsonObject:  # noqa: ANN401 - any dataclass
    kind = type(value)
    data: JsonObject = {}
    for name, limit in _sent_fields(cast("Hashable", kind)):
        content = getattr(value, name)
        data[name] = _cut(plain(content) if (kind, name) in _TERMINAL_OUTPUT else content, limit)
    return data


@cache
def _sent_fields(kind: type[Any]) -> tuple[tuple[str, int | None], ...]:
    """Return the fields to send, each with its longest text.

    Identifiers stay whole.
    """
    hidden_names = frozenset[str]().union(*(OMITTED.get(base, frozenset()) for base in kind.__mro__))
    names = [field.name for field in fields(kind) if field.name not in hidden_names]
    whole = {name for name in names if name == "id" or name.endswith("_id")}
    return tuple((name, None if name in whole else _LIMITS.get((kind, name), _SENTENCE)) for name in names)


def _cut(value: Any, limit: int | None) -> Any:  # noqa: ANN401 - a field of a dataclass, and JSON data
    match value:
        case str():
            return encodable(value) if limit is None else bounded(value, limit)
        case tuple() | list():
            return [_cut(part, limit) for part in value]
        case None | bool() | int() | float():
            return value
        case _:
            return _encoded(value)


def _queued(event: ev.Queued) -> QueuedDisplay:
    return QueuedDisplay(complete=bounded(event.text) == event.text)


def _tool_start(event: ev.ToolStart) -> CallDisplay:
    return _call(event.args)


def _previews(event: ev.ToolPreview) -> PreviewDisplay:
    tables = [TableDisplay(t.names, t.types, t.numeric, t.index, t.rows, t.size) for t in event.tables]
    return PreviewDisplay(tuple(tables), tuple(framed_html(document.html) for document in event.documents))


def _decision(event: ev.ApprovalDecision) -> CallDisplay | None:
    """Return the arguments if the user edited them."""
    return None if event.args is None else _call(event.args)


def _call(args: JsonObject) -> CallDisplay:
    return CallDisplay(key_argument(args), tuple(shown_arguments(args)))


_DISPLAY_MAKERS: Mapping[type[ev.EventBase], Callable[[Any], Any]] = {
    ev.Queued: _queued,
    ev.ToolStart: _tool_start,
    ev.ToolPreview: _previews,
    ev.ApprovalRequest: approval_display,
    ev.ApprovalDecision: _decision,
}
"""The displays which depend on the event alone.

`FrameEncoder` adds others, from earlier events.
"""
