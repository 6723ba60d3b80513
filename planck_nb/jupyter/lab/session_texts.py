"""Messages from stored sessions for side panels: search results and transcripts.

Both come from the disk on threads without an event loop, so they need no idle kernel.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from planck_nb.ai.messages import AssistantMessage, SummaryMessage, ToolResultMessage, UserMessage, decode_message
from planck_nb.base.errors import PlanckError, SessionNotFoundError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.jupyter.lab.protocol import (
    ItemKind,
    SearchHit,
    SearchHits,
    SearchWanted,
    StoredItem,
    TranscriptPage,
    TranscriptWanted,
)
from planck_nb.rendering.blocks import (
    UNNAMED,
    Block,
    CallGroup,
    Decision,
    Execution,
    Interjection,
    Notice,
    ToolCall,
    TranscriptEntry,
    blocks,
)
from planck_nb.rendering.formatting import bounded
from planck_nb.sessions import Query, find_by_id, search_sql, terms

HITS = 30
"""Most messages in a search result."""
PAGE_MESSAGES = 30
"""Most prompts and replies in a transcript's page."""

_ENDED = "A newer question took its place."
_GONE = "The session is not in this folder any more; it was deleted or moved."
_STATES = {"denied": "deny", "failed": "bad", "": "done"}
_PAGE = """
WITH shown AS (
    SELECT id, agent_id FROM messages WHERE role <> 'tool_result' AND {condition} ORDER BY id {order} LIMIT {limit}
),
bounds AS (SELECT agent_id, min(id) AS first_id, max(id) AS last_id FROM shown GROUP BY agent_id),
spans AS (
    SELECT b.agent_id, first_id, min(m.id) AS next_id
    FROM bounds b LEFT JOIN messages m ON m.agent_id = b.agent_id AND m.id > last_id AND m.role <> 'tool_result'
    GROUP BY b.agent_id, first_id
),
entries AS (
    SELECT id, agent_id, role AS kind, ts, content AS data, error, sender_id, sender_name, NULL AS call_id
    FROM messages SEMI JOIN shown USING (id)
    UNION ALL
    SELECT m.id, m.agent_id, role, ts, content, NULL, NULL, NULL, NULL
    FROM messages m JOIN spans s ON s.agent_id = m.agent_id AND m.id > first_id AND (next_id IS NULL OR m.id < next_id)
    WHERE role = 'tool_result'
    UNION ALL
    SELECT e.id, e.agent_id, type, ts, data, NULL, NULL, NULL, call_id
    FROM events e JOIN spans s ON s.agent_id = e.agent_id AND e.id > first_id AND (next_id IS NULL OR e.id < next_id)
    WHERE type IN ('tool_start', 'tool_end', 'approval_decision')
)
SELECT
    e.id, e.agent_id, coalesce(nullif(a.name, ''), e.agent_id) AS agent, kind, epoch(ts) AS time, data, error,
    sender_id, sender_name, call_id,
    EXISTS (FROM messages WHERE role <> 'tool_result' AND id < (SELECT min(id) FROM shown)) AS older,
    EXISTS (FROM messages WHERE role <> 'tool_result' AND id > (SELECT max(id) FROM shown)) AS newer
FROM entries e LEFT JOIN agents a ON a.agent_id = e.agent_id ORDER BY e.id
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """An entry's place in its session."""

    id: int
    agent: str
    time: float


@dataclass(slots=True)
class _Conversation:
    """An agent's entries in a page, each with its place."""

    entries: list[TranscriptEntry] = field(default_factory=list[TranscriptEntry])
    places: list[_Place] = field(default_factory=list[_Place])
    starts: dict[str, float] = field(default_factory=dict[str, float])
    """Start times by call."""


class SessionTexts:
    """Answers questions about messages in stored sessions, on any thread.

    A page's newer question ends its earlier one.

    Args:
        directory: Returns the folder with the sessions.
    """

    def __init__(self, directory: Callable[[], Path]) -> None:
        self._directory = directory
        self._running: dict[tuple[str, type], Query] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def answer(self, question: SearchWanted | TranscriptWanted, client: str) -> SearchHits | TranscriptPage:
        """Return the answer to a page's question.

        Args:
            question: The question.
            client: The page.
        """
        match question:
            case SearchWanted():
                return self._search(question, client)
            case TranscriptWanted():
                return self._page(question, client)

    def close(self) -> None:
        """End all queries; later ones end at once."""
        with self._lock:
            self._is_closed = True
            running = [*self._running.values()]
        for query in running:
            query.interrupt()

    def _search(self, question: SearchWanted, client: str) -> SearchHits:
        try:
            matches = search_sql(question.words, HITS, None, None)
            columns = "session_id, session_name, id, agent, role, epoch(ts) AS time, excerpt"
            statement = f"SELECT {columns} FROM ({matches}) ORDER BY score DESC, ts DESC, id DESC"  # noqa: S608 - literals
            query = Query(self._directory(), statement)
            rows = self._rows(query, (client, SearchWanted))
        except PlanckError as error:
            return SearchHits(question.request, problem=str(error))
        except KeyboardInterrupt:
            return SearchHits(question.request, problem=_ENDED)
        hits = tuple(
            SearchHit(
                row["session_id"],
                encodable(row["session_name"]),
                row["id"],
                encodable(row["agent"]),
                row["role"],
                row["time"],
                encodable(" ".join(row["excerpt"].split())),
            )
            for row in rows
        )
        return SearchHits(question.request, tuple(terms(question.words)), hits)

    def _page(self, question: TranscriptWanted, client: str) -> TranscriptPage:
        if question.after:
            condition, order = f"id > {question.after}", "ASC"
        else:
            condition, order = f"id < {question.before}" if question.before else "true", "DESC"
        try:
            directory = self._directory()
            query = Query(
                directory,
                _PAGE.format(condition=condition, order=order, limit=PAGE_MESSAGES),
                only=find_by_id(directory, question.session),
            )
            rows = self._rows(query, (client, TranscriptWanted))
        except SessionNotFoundError:
            return TranscriptPage(question.request, problem=_GONE)
        except PlanckError as error:
            return TranscriptPage(question.request, problem=str(error))
        except KeyboardInterrupt:
            return TranscriptPage(question.request, problem=_ENDED)
        message_ids = [row["id"] for row in rows if row["kind"] in {"user", "assistant", "summary"}]
        if not message_ids:
            return TranscriptPage(question.request)
        return TranscriptPage(
            question.request,
            tuple(sorted(_items(rows), key=lambda item: item.message)),
            older=min(message_ids) if rows[0]["older"] else 0,
            newer=max(message_ids) if rows[0]["newer"] else 0,
        )

    def _rows(self, query: Query, key: tuple[str, type]) -> list[JsonObject]:
        with self._lock:
            if self._is_closed:
                query.interrupt()
            earlier = self._running.get(key)
            self._running[key] = query
        if earlier is not None:
            earlier.interrupt()
        try:
            return query.run_into(
                lambda result: [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]
            )
        finally:
            with self._lock:
                if self._running.get(key) is query:
                    del self._running[key]


def _items(rows: Sequence[JsonObject]) -> Iterator[StoredItem]:
    """Yield each agent's items in their order."""
    conversations: dict[str, _Conversation] = {}
    for row in rows:
        conversation = conversations.setdefault(row["agent_id"], _Conversation())
        entry = _entry(row, conversation.starts)
        if entry is not None:
            conversation.entries.append(entry)
            conversation.places.append(_Place(row["id"], encodable(row["agent"]), row["time"]))
    for conversation in conversations.values():
        for at, entry in enumerate(conversation.entries):
            yield from _items_of(entry, conversation.entries[at + 1 :], conversation.places[at])


def _entry(row: JsonObject, starts: dict[str, float]) -> TranscriptEntry | None:
    """Return a row's entry, None for an unreadable or empty one."""
    call = row["call_id"]
    match row["kind"]:
        case "tool_start":
            starts[call] = row["time"]
        case "tool_end":
            return Execution(call, max(0.0, row["time"] - starts.get(call, row["time"])))
        case "approval_decision":
            data = json.loads(row["data"])
            if not isinstance(data, dict):  # somebody else may have written the session
                return None
            is_denied, args = data.get("allowed") is False, data.get("args")
            is_edited = isinstance(args, dict)
            if data.get("by") != "stop" and (is_denied or is_edited):
                return Decision(call, is_denied, args if is_edited else None)
        case kind:
            optional = {name: row[name] for name in ("error", "sender_id", "sender_name") if row[name]}
            try:
                return decode_message({"type": kind, "content": json.loads(row["data"]), **optional})
            except (TypeError, ValueError, RecursionError):  # as above
                return None
    return None


def _item(kind: ItemKind, place: _Place, text: str, **values: Any) -> StoredItem:  # noqa: ANN401 - fields of the item
    return StoredItem(kind, place.id, place.agent, place.time, text, **values)


def _items_of(entry: TranscriptEntry, later: Sequence[TranscriptEntry], place: _Place) -> Iterator[StoredItem]:
    match entry:
        case UserMessage():
            sender = entry.sender_name or (UNNAMED if entry.sender_id else "")
            yield _item("prompt", place, bounded(entry.text or "[attachment]"), name=encodable(sender))
        case AssistantMessage():
            outcomes = [
                other
                for other in takewhile(lambda other: not isinstance(other, AssistantMessage), later)
                if isinstance(other, (ToolResultMessage, Decision, Execution))
            ]
            yield from (
                item for block in blocks([entry, *outcomes], "not finished") for item in _of_block(block, place)
            )
            if entry.error:
                yield _item("note", place, bounded(entry.error), name="The reply ended early")
        case SummaryMessage():
            yield _item("cut", place, "Earlier messages were summarised.")
            yield _item("prose", place, bounded(entry.text))
        case _:
            pass


def _of_block(part: Block, place: _Place) -> Iterator[StoredItem]:
    match part:
        case CallGroup():
            for call in part.calls:
                yield from _of_block(call, place)
        case ToolCall():
            yield _item(
                "call",
                place,
                part.output,
                name=part.name,
                key=part.key,
                state=_STATES.get(part.trouble, "stop"),
                arguments=tuple(part.arguments()),
                seconds=part.seconds or 0.0,
                edited=part.decision is not None and part.decision.args is not None,
            )
        case Interjection() | Notice():
            pass
        case _:
            yield _item("thinking" if part.type == "thinking" else "prose", place, bounded(part.text))
