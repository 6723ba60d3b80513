"""Reads a stored session's agents and settings, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, cast, get_args

import duckdb

from planck_nb.agent.identity import AgentIdentity, Grants, Role
from planck_nb.ai.messages import Usage
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.database.queries import query_into
from planck_nb.sessions.journal.stored_values import object_in, texts_in
from planck_nb.sessions.session import Session

# A session may have a million events, so nothing is decoded that a filter leaves out, and each event once at most.
_AGENTS = """
with bounds as (
    select
        agent_id, min(id) as first_id,
        arg_max(type, id) filter (type in ('agent_started', 'turn_start', 'turn_end', 'aborted', 'error', 'rewound'))
            = 'turn_start' as unfinished,
        max(id) filter (type = 'turn_start') as turn_id
    from store.visible_events group by agent_id
),
states as (
    select
        agent_id,
        arg_max({'id': id, 'data': data}, id) filter (type = 'agent_started') as started,
        arg_max({'id': id, 'data': data}, id) filter (type in ('agent_started', 'agent_changed')) as state,
        arg_max(coalesce(try_cast(data->>'$.removed' as boolean), false), id)
            filter (type in ('agent_started', 'agent_stopped')) as removed
    from store.visible_events where type in ('agent_started', 'agent_changed', 'agent_stopped') group by agent_id
),
said as (
    select agent_id, max(id) as last_id from store.all_messages where not hidden group by agent_id
),
newest as (
    select agent_id, max(turn) as turn from store.all_events group by agent_id
),
spent as (
    select
        agent_id,
        sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
        sum(cache_read_tokens) as cache_read_tokens, sum(cache_write_tokens) as cache_write_tokens,
        sum(thinking_tokens) as thinking_tokens, sum(cost_usd) as cost,
        sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) filter (cost_usd is null) as unpriced_tokens
    from charges group by agent_id
),
together as (
    select
        sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) as tokens_together,
        sum(cost) as cost_together,
        sum(unpriced_tokens) as unpriced_together
    from spent
),
remembered as (
    select list({'id': id, 'agent_id': agent_id, 'data': data}) as rules
    from store.visible_events where remembers
)
select
    agent_id, started, state, coalesce(removed, false) as removed,
    coalesce(unfinished, false) and coalesce(last_id > turn_id, false) as unfinished,
    turn, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, thinking_tokens, cost,
    case when row_number() over (order by first_id) = 1 then rules end as rules,
    tokens_together, cost_together, unpriced_together
from together
cross join remembered
left join (
    select * from states
    join bounds using (agent_id)
    left join said using (agent_id)
    left join newest using (agent_id)
    left join spent using (agent_id)
    where started is not null and not store.is_map_item(agent_id)
) on true
order by first_id
"""
# What gives power is read from `data` after its signature was verified, never from columns or by SQL.


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """A session's agent in its last state: what is needed to create it again.

    Args:
        identity: Its id, name, type, role, team and parent.
        model: The model as "provider:model".
        model_source: How the model was found; see `planck_nb.ai.model_lookup.model_source`.
        system_prompt: Its own system prompt.
        description: What it is for.
        grants: What it may give to the agents that it starts.
        tools: The names of its tools.
        options: Request options that are set, by field.
        removed: Whether it was removed for good.
        unfinished: Whether its last turn was cut off after something was said in it.
        turn: The index of its newest turn, -1 before the first.
        usage: Tokens so far in this session.
        cost: US dollars for them, None until a price was known.
        authentic: Whether its user has signed the rows that this is read from, in this session. Without that, tools
            that a program or a notebook defines, the address of a model and grants may be another person's words.
        grant_sources: How the models of its grants were found, in their order.
        compactor: What shortened its conversation; see `stored_compactor`.
        skills: The names of the skills that its system prompt listed, None if it listed all.
        limits: Its limits by name.
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
    authentic: bool = False
    grant_sources: tuple[JsonObject, ...] = ()
    compactor: JsonObject = field(default_factory=dict[str, Any])
    skills: tuple[str, ...] | None = None
    limits: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class RememberedRule:
    """A rule that the user added with a decision.

    Args:
        text: The rule as `Rule.parse` reads it.
        authentic: Whether its user has signed the decision, in this session.
    """

    text: str
    authentic: bool = False


@dataclass(frozen=True, slots=True)
class SessionMembers:
    """The agents of a session, and the approval rules that its user has added.

    Args:
        members: The agents, in the order in which they were started.
        rules: The rules, sorted by their texts.
        tokens: All agents' tokens together, hidden ones included.
        cost: US dollars for it, as far as prices are known.
        unpriced_tokens: Those of the tokens whose price is not known.
    """

    members: tuple[AgentRecord, ...]
    rules: tuple[RememberedRule, ...]
    tokens: int = 0
    cost: float = 0.0
    unpriced_tokens: int = 0


async def read_members(session: Session) -> SessionMembers:
    """Read a session's agents, without those that a rewind has hidden.

    Args:
        session: The session, which must be flushed first if it is being written.

    Returns:
        The agents and the approval rules.

    Raises:
        QueryError: The session cannot be read.
    """
    # All in the query's thread: verifying thousands of signatures takes seconds.
    return await query_into(session.directory, _AGENTS, partial(_members, session), only=session.info)


def _members(session: Session, result: duckdb.DuckDBPyRelation) -> SessionMembers:
    rows = _records(result)
    return SessionMembers(
        tuple(_member(session, row) for row in rows if row["agent_id"] is not None),
        tuple(sorted((_rule(session, row) for row in rows[0]["rules"] or ()), key=lambda rule: rule.text)),
        int(rows[0]["tokens_together"] or 0),
        float(rows[0]["cost_together"] or 0.0),
        int(rows[0]["unpriced_together"] or 0),
    )


def _records(result: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _member(session: Session, row: dict[str, Any]) -> AgentRecord:
    agent_id = row["agent_id"]
    started, state = (_Row.of(session, agent_id, row[name]) for name in ("started", "state"))
    role = started.text("role")
    grants = Grants(*(texts_in(started.table("grants").get(key)) for key in ("tools", "skills", "models")))
    return AgentRecord(
        identity=AgentIdentity(
            agent_id,
            started.text("name"),
            started.text("agent_type"),
            cast("Role", role) if role in get_args(Role) else "",
            started.text("team_id") or None,
            started.text("parent_id") or None,
        ),
        model=state.text("model"),
        model_source=_source(state.data.get("model_source", {})),
        system_prompt=state.text("system_prompt"),
        description=started.text("description"),
        grants=grants,
        tools=texts_in(state.data.get("tools")),
        options=state.table("options"),
        removed=bool(row["removed"]),
        unfinished=bool(row["unfinished"]),
        turn=-1 if row["turn"] is None else int(row["turn"]),
        usage=Usage(**{column.name: int(row[column.name] or 0) for column in fields(Usage)}),
        cost=None if row["cost"] is None else float(row["cost"]),
        authentic=started.authentic and state.authentic,
        grant_sources=sources_in(started.data.get("grant_sources"), len(grants.models)),
        compactor=_source(started.data.get("compactor", {})),
        skills=texts_in(skills) if isinstance(skills := started.data.get("skills"), list) else None,
        limits=state.table("limits"),
    )


def _rule(session: Session, row: dict[str, Any]) -> RememberedRule:
    decision = _Row.of(session, row["agent_id"], row)
    authentic = decision.authentic and decision.text("by") == "user" and decision.data.get("allowed") is True
    return RememberedRule(decision.text("rule"), authentic)


@dataclass(frozen=True, slots=True)
class _Row:
    """The data of an event, whose values may be of any JSON type if it is not authentic."""

    data: JsonObject
    authentic: bool

    @classmethod
    def of(cls, session: Session, agent_id: str, row: Mapping[str, Any]) -> _Row:
        data = object_in(row["data"])
        return cls(data, session.is_authentic(data, row_id=row["id"], owner=agent_id))

    def text(self, name: str) -> str:
        value = self.data.get(name)
        return value if isinstance(value, str) else ""

    def table(self, name: str) -> JsonObject:
        value = self.data.get(name)
        return value if isinstance(value, dict) else {}


def _source(stored: object) -> JsonObject:
    """A stored description; one that is damaged describes nothing that can be found again."""
    return stored if isinstance(stored, dict) else {"left_out": ["description"], "name": "?"}


def sources_in(stored: object, count: int) -> tuple[JsonObject, ...]:
    """Read the stored descriptions of this many models; a missing one is damaged."""
    sources = stored if isinstance(stored, list) else []
    return tuple(map(_source, islice(chain(sources, repeat(None)), count)))
