"""Reads the agents of a stored session and their settings, so that it can be resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, get_args

import duckdb

from planck_nb.agent.identity import AgentIdentity, Grants, Role
from planck_nb.ai.messages import Usage
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.queries import query_into
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
    first_id,
    first_state->>'$.name' as name,
    first_state->>'$.agent_type' as agent_type,
    first_state->>'$.role' as role,
    first_state->>'$.team_id' as team_id,
    first_state->>'$.parent_id' as parent_id,
    first_state->>'$.description' as description,
    first_state->'$.grants' as grants,
    state->>'$.model' as model,
    state->'$.model_source' as model_source,
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
    (
        select list(distinct {'text': e.data->>'$.rule', 'scope': coalesce(e.data->>'$.scope', ''), 'id': e.id})
        from store.visible_events e
        where e.type = 'approval_decision' and e.data->>'$.by' = 'user' and (e.data->>'$.allowed')::boolean
            and e.data->>'$.rule' <> ''
    ) as rules
from bounds b
where first_state is not null
order by first_id
"""


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent of a session as it was last: what it takes to create it again.

    Args:
        identity: Its id, name, type, role, team and parent.
        model: The model as "provider:model".
        model_source: How the model was found; see `Model.source`.
        system_prompt: Its own system prompt.
        description: What it is for.
        grants: What it may give to the agents that it starts.
        tools: The names of its tools.
        options: Request options that are set, by field.
        removed: Whether it was removed for good.
        unfinished: Whether its last turn was cut off after something was said in it.
        turn: The index of its newest turn, -1 before the first.
        usage: Tokens so far.
        cost: US dollars so far, None until a price was known.
        first_id: The id of its first row in the session.
    """

    identity: AgentIdentity
    model: str
    model_source: JsonObject
    system_prompt: str
    description: str
    grants: Grants
    tools: tuple[str, ...]
    options: JsonObject
    removed: bool
    unfinished: bool
    turn: int
    usage: Usage
    cost: float | None
    first_id: int = 0


@dataclass(frozen=True, slots=True)
class RememberedRule:
    """A rule that the user added with a decision.

    Args:
        text: The rule as `Rule.parse` reads it.
        scope: Which agents it is for, as in `ApprovalDecision`; empty in sessions of version 0.1.0.
        id: The id of the row with the decision.
    """

    text: str
    scope: str
    id: int


@dataclass(frozen=True, slots=True)
class SessionMembers:
    """The agents of a session, and the approval rules that its user has added.

    Args:
        members: The agents, in the order in which they were started.
        rules: The rules, sorted by their texts.
    """

    members: tuple[AgentRecord, ...]
    rules: tuple[RememberedRule, ...]


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
    found = (rows[0]["rules"] or ()) if rows else ()
    rules = sorted((rule["text"], rule["scope"], rule["id"]) for rule in found)
    return SessionMembers(tuple(map(_member, rows)), tuple(RememberedRule(*rule) for rule in rules))


def _records(result: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _member(row: dict[str, Any]) -> AgentRecord:
    return AgentRecord(
        identity=AgentIdentity(
            row["agent_id"],
            row["name"] or "",
            row["agent_type"] or "",
            row["role"] if row["role"] in get_args(Role) else "",
            row["team_id"],
            row["parent_id"],
        ),
        model=row["model"] or "",
        model_source=json.loads(row["model_source"] or "{}"),
        system_prompt=row["system_prompt"] or "",
        description=row["description"] or "",
        grants=_grants(json.loads(row["grants"] or "{}")),
        tools=tuple(json.loads(row["tools"] or "[]")),
        options=json.loads(row["options"] or "{}"),
        removed=bool(row["removed"]),
        unfinished=bool(row["unfinished"]),
        turn=-1 if row["turn"] is None else int(row["turn"]),
        usage=Usage(**json.loads(row["usage"] or "{}")),
        cost=None if row["cost"] is None else float(row["cost"]),
        first_id=int(row["first_id"]),
    )


def _grants(stored: JsonObject) -> Grants:
    return Grants(*(tuple(map(str, stored.get(key) or ())) for key in ("tools", "skills", "models")))
