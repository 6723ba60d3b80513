"""Reads the prompts of a stored session that were waiting when its process ended, and were never answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

import duckdb

from planck_nb.ai.messages import Purpose, TextPart, UserMessage, UserPart, decode_message
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.database.queries import query_into
from planck_nb.sessions.journal.stored_values import object_in
from planck_nb.sessions.session import Session

_BEGIN = """
with queue as (
    select agent_id, id, type, data->>'$.prompt_id' as prompt_id
    from store.visible_events where type in ('queued', 'unqueued') and not store.is_map_item(agent_id)
),
prompts as (
    select
        agent_id,
        min(id) filter (type = 'queued') as first,
        max(id) filter (type = 'queued') as last,
        max(id) filter (type = 'unqueued') as unqueued
    from queue group by agent_id, prompt_id
),
ended as (
    select agent_id, max(id) as id from store.visible_events
    where type in ('turn_end', 'aborted', 'error', 'rewound') group by agent_id
)
select min(least(first, coalesce(ended.id, first)))
from prompts left join ended using (agent_id)
where last is not null and (unqueued is null or unqueued < last or unqueued >= coalesce(ended.id, 0))
"""
"""The first row that matters: null if each prompt left the queue and its turn has ended, as in nearly all sessions."""

_ROWS = """
select
    agent_id, id, type, epoch(ts) as time,
    case when type in ('queued', 'unqueued') then data end as data
from store.visible_events
where id >= {begin} and not store.is_map_item(agent_id) and type in (
    'agent_started', 'queued', 'unqueued', 'turn_end', 'aborted', 'error', 'rewound'
)
union all
select agent_id, id, 'message', 0, null from messages where id >= {begin} and role = 'user'
order by id
"""


@dataclass(frozen=True, slots=True)
class UnansweredPrompt:
    """A prompt that was waiting when the process of its session ended.

    Args:
        agent_id: The agent that it was for.
        id: Its id, `Run.id`.
        content: The prompt: its text and, if there were any, its images and files.
        steer: Whether it could have entered the running turn.
        output: The JSON Schema that the answer must match, None for text.
        time: When it was sent, in seconds since the epoch.
        complete: Whether its images and files can be read.
        join: Whether it would have been answered together with others that waited.
        sender_id: The id of the agent that sent it, None if a person or a program did.
        sender_name: The name of that agent.
        purpose: What that agent sent it for.
    """

    agent_id: str
    id: str
    content: tuple[UserPart, ...]
    steer: bool
    output: JsonObject | None
    time: float
    complete: bool
    join: bool = False
    sender_id: str | None = None
    sender_name: str | None = None
    purpose: Purpose | None = None

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.content if part.type == "text")

    @property
    def message(self) -> UserMessage:
        """The prompt as a message with its sender, to send it again."""
        return UserMessage(self.content, sender_id=self.sender_id, sender_name=self.sender_name, purpose=self.purpose)


async def read_unanswered(session: Session) -> tuple[UnansweredPrompt, ...]:
    """Read the prompts of a session that were never answered, without those that a rewind has hidden.

    A prompt whose turn had begun is not among them once its message is stored.

    Args:
        session: The session, which must be flushed first if it is being written.

    Returns:
        The prompts, in the order in which they were sent.

    Raises:
        QueryError: The session cannot be read.
    """
    [(begin,)] = await query_into(session.directory, _BEGIN, _fetched, only=session.info)
    if begin is None:
        return ()
    rows = await query_into(session.directory, _ROWS.format(begin=int(begin)), _fetched, only=session.info)
    agents: dict[str, _Queue] = {}
    for agent_id, _, kind, time, data in rows:
        agents.setdefault(agent_id, _Queue()).follow(kind, object_in(data), float(time))
    prompts = [_prompt(agent_id, *waiting) for agent_id, queue in agents.items() for waiting in queue.unanswered()]
    return tuple(sorted((prompt for prompt in prompts if prompt.content), key=lambda prompt: prompt.time))


class _Queue:
    """The prompts of one agent that are not answered, as its rows go by."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[JsonObject, float]] = {}
        self._begun: dict[str, tuple[JsonObject, float]] = {}
        """Prompts of the turn whose messages are not stored yet."""

    def follow(self, kind: str, data: JsonObject, time: float) -> None:
        """Apply one row."""
        prompt_id = str(data.get("prompt_id"))
        match kind:
            case "queued":
                self._waiting[prompt_id] = data, self._waiting.get(prompt_id, (data, time))[1]
            case "unqueued":
                self._unqueue(prompt_id, removed=bool(data.get("removed")))
            case "message" if self._begun:
                del self._begun[next(iter(self._begun))]
            case "agent_started":  # in another process, so nothing runs any more
                self._waiting, self._begun = {**self._begun, **self._waiting}, {}
            case "turn_end" | "aborted" | "error":
                self._begun = {}
            case "rewound":
                self._waiting, self._begun = {}, {}

    def _unqueue(self, prompt_id: str, *, removed: bool) -> None:
        waiting = self._waiting.pop(prompt_id, None)
        if waiting is not None and not removed:
            self._begun[prompt_id] = waiting

    def unanswered(self) -> Iterable[tuple[str, JsonObject, float]]:
        """The prompts that have no message yet and were not removed."""
        return [(prompt_id, *row) for prompt_id, row in {**self._begun, **self._waiting}.items()]


def _prompt(agent_id: str, prompt_id: str, data: JsonObject, time: float) -> UnansweredPrompt:
    text = data.get("text")
    content: tuple[UserPart, ...] = (TextPart(text),) if isinstance(text, str) and text else ()
    complete = isinstance(data.get("content"), list)
    if complete and data["content"]:
        try:
            message = decode_message({"type": "user", "content": data["content"]})
            assert isinstance(message, UserMessage)  # noqa: S101 - for the type checker
            content = message.content
        except ValueError:
            complete = False
    output = data.get("output")
    schema = output if isinstance(output, dict) else None
    steer = data.get("steer") is True
    join = steer or data.get("join") is True
    sender_id, sender_name, purpose = (data.get(key) for key in ("sender_id", "sender_name", "purpose"))
    return UnansweredPrompt(
        agent_id,
        prompt_id,
        content,
        steer,
        schema,
        time,
        complete,
        join,
        sender_id if isinstance(sender_id, str) else None,
        sender_name if isinstance(sender_name, str) else None,
        cast("Purpose", purpose) if purpose in get_args(Purpose) else None,
    )


def _fetched(result: duckdb.DuckDBPyRelation) -> Sequence[tuple[Any, ...]]:
    return result.fetchall()
