"""Reads the tasks of a stored session that one agent gave to another, and that have no response yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import duckdb

from planck_nb.agent.events import TaskKind
from planck_nb.sessions.database.queries import query_into
from planck_nb.sessions.session import Session

TaskOutcome: TypeAlias = Literal["", "turn_end", "aborted", "error"]
"""How a turn ended; empty if it did not."""

_TASKS = """
select
    task_id, kind, from_agent_id, from_agent_name, to_agent_id, to_agent_name, task, to_turn,
    outcome, case when outcome = 'turn_end' then answer end
from delegations
left join (
    select agent_id as to_agent_id, turn as to_turn, arg_max(type, id) as outcome
    from store.visible_events where type in ('turn_end', 'aborted', 'error') group by all
) using (to_agent_id, to_turn)
left join (
    select agent_id as to_agent_id, turn as to_turn, arg_max(text, id) as answer
    from messages where role = 'assistant' group by all
) using (to_agent_id, to_turn)
where status = 'open' and kind is not null and to_agent_id is not null and task is not null
order by id
"""


@dataclass(frozen=True, slots=True)
class OpenTaskRecord:
    """A task that one agent gave to another, and that had no response when the process of its session ended.

    Args:
        task_id: Its id, which is that of the prompt to the other agent. If that prompt was waiting in the queue, it is
            an `UnansweredPrompt` with this id.
        kind: "ask" if the agent that gave it waited for the answer, or "delegate".
        from_agent_id: The agent that gave it.
        from_agent_name: Its name.
        target_id: The agent that it was given to.
        target_name: Its name.
        text: The task.
        started: Whether the other agent had started on it: the prompt is a message of its conversation.
        turn: The index of the turn that the prompt began, None if it has not started.
        outcome: How that turn ended; empty if it did not.
        answer: The last reply of that turn if it is complete: what was to be sent as the response, unless the other
            agent waited for others or went on with the task in a later turn. Empty otherwise.
    """

    task_id: str
    kind: TaskKind
    from_agent_id: str
    from_agent_name: str
    target_id: str
    target_name: str
    text: str
    started: bool
    turn: int | None
    outcome: TaskOutcome
    answer: str


async def read_open_tasks(session: Session) -> tuple[OpenTaskRecord, ...]:
    """Read the tasks of a session that have no response, without those that a rewind has hidden.

    Args:
        session: The session, which must be flushed first if it is being written.

    Returns:
        The tasks, in the order in which they were given.

    Raises:
        QueryError: The session cannot be read.
    """
    rows = await query_into(session.directory, _TASKS, duckdb.DuckDBPyRelation.fetchall, only=session.info)
    return tuple(
        OpenTaskRecord(
            task_id,
            cast("TaskKind", kind),
            delegator,
            delegator_name or "",
            target,
            target_name or "",
            text,
            turn is not None,
            turn,
            cast("TaskOutcome", outcome or ""),
            answer or "",
        )
        for task_id, kind, delegator, delegator_name, target, target_name, text, turn, outcome, answer in rows
        if kind in get_args(TaskKind)
    )
