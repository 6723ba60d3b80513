"""Reads the agents of a stored session and their settings, so that it can be resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb

from planck_nb.ai.messages import Usage
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.query import query_into
from planck_nb.sessions.session import Session

_AGENTS = """
with bounds as (
    select
        agent_id,
        arg_max(data, id) filter (type = 'agent_started') as first_state,
        arg_max(data, id) filter (type in ('agent_started', 'agent_changed')) as state,
        arg_max(coalesce((data->>'$.removed')::boolean, false), id)
            filter (type in ('agent_started', 'agent_stopped')) as removed,
        arg_max(type, id) filter (type in ('agent_started', 'turn_start', 'turn_end', 'aborted', 'error', 'rewound'))
            = 'turn_start' as unfinished,
        max(id) filter (type = 'turn_start') as turn_id,
        min(id) as first_id
    from store.visible_events group by agent_id
)
select
    agent_id,
    first_state->>'$.name' as name,
    first_state->>'$.agent_type' as agent_type,
    state->>'$.model' as model,
    state->>'$.system_prompt' as system_prompt,
    state->'$.tools' as tools,
    state->'$.options' as options,
    coalesce(removed, false) as removed,
    coalesce(unfinished, false) and exists (
        select 1 from messages m where m.agent_id = b.agent_id and m.id > b.turn_id
    ) as unfinished,
    (select max(e.turn) from store.all_events e where e.agent_id = b.agent_id) as turn,
    (
        select arg_max(coalesce(e.data->'$.total', e.data->'$.usage'), e.id) from store.all_events e
        where e.agent_id = b.agent_id and e.type in ('usage_delta', 'rewound')
    ) as usage,
    (
        select arg_max(coalesce(e.data->>'$.total_cost', e.data->>'$.cost'), e.id) from store.all_events e
        where e.agent_id = b.agent_id and e.type in ('usage_delta', 'rewound')
    ) as cost,
    (select list(distinct rule) from approvals where decided_by = 'user' and allowed and rule <> '') as rules
from bounds b
where first_state is not null
order by first_id
"""


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent of a session.

    Args:
        agent_id: The id of the agent.
        name: Its name.
        agent_type: Its type, such as "orchestrator".
        model: Its model, "provider:model".
        system_prompt: Its system prompt.
        tools: The names of its tools.
        options: The options that differ from the provider's defaults, by field.
        removed: Whether it was removed and is not to be resumed.
        unfinished: Whether its last turn has messages but no end.
        turn: The index of its latest turn, -1 before the first.
        usage: Tokens of all its replies.
        cost: US dollars for all its replies; None if no price is known.
    """

    agent_id: str
    name: str
    agent_type: str
    model: str
    system_prompt: str
    tools: tuple[str, ...]
    options: JsonObject
    removed: bool
    unfinished: bool
    turn: int
    usage: Usage
    cost: float | None


@dataclass(frozen=True, slots=True)
class SessionMembers:
    """The agents of a session, and the approval rules that its user has added.

    Args:
        members: The agents, in the order in which they were started.
        rules: The texts of the rules, sorted.
    """

    members: tuple[AgentRecord, ...]
    rules: tuple[str, ...]


async def read_members(session: Session) -> SessionMembers:
    """Read the agents of a session, without those that a rewind has hidden.

    Args:
        session: The session, which must be flushed first if it is being written.

    Returns:
        The agents and the approval rules.

    Raises:
        QueryError: The session cannot be read.
    """
    rows = await query_into(session.directory, _AGENTS, _records, only=session.info)
    rules = sorted(rows[0]["rules"] or ()) if rows else ()
    return SessionMembers(tuple(map(_member, rows)), tuple(rules))


def _records(result: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _member(row: dict[str, Any]) -> AgentRecord:
    return AgentRecord(
        agent_id=row["agent_id"],
        name=row["name"] or "",
        agent_type=row["agent_type"] or "",
        model=row["model"] or "",
        system_prompt=row["system_prompt"] or "",
        tools=tuple(json.loads(row["tools"] or "[]")),
        options=json.loads(row["options"] or "{}"),
        removed=bool(row["removed"]),
        unfinished=bool(row["unfinished"]),
        turn=-1 if row["turn"] is None else int(row["turn"]),
        usage=Usage(**json.loads(row["usage"] or "{}")),
        cost=None if row["cost"] is None else float(row["cost"]),
    )
