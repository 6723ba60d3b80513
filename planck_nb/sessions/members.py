"""Reads the agents of a stored session and their settings, so that it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import duckdb

from planck_nb.agent.identity import AgentIdentity, Grants, Role
from planck_nb.ai.messages import Usage
from planck_nb.ai.numbers import MAX_TOKENS_TOGETHER, dollars, usage_counts
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
    select agent_id, id, type, spent from store.all_events where type in ('usage_delta', 'rewound')
),
newest_sums as (
    select agent_id, max(id) filter (spent.has_usage) as usage_id, max(id) filter (spent.has_cost) as cost_id
    from spent group by agent_id
),
sums as (
    select
        id,
        unnest(json_transform(data, '{"total": "JSON", "usage": "JSON", "total_cost": "VARCHAR", "cost": "VARCHAR"}'))
    from store.all_events where id in (select unnest([usage_id, cost_id]) from newest_sums)
),
totals as (
    select n.agent_id, coalesce(u.total, u.usage) as usage, coalesce(c.total_cost, c.cost) as cost
    from newest_sums n left join sums u on u.id = n.usage_id left join sums c on c.id = n.cost_id
),
checked as (
    select
        agent_id, read, written, cost,
        coalesce(store.tokens(read) = floor(read), false)
            and coalesce(store.tokens(written) = floor(written), false) as counted,
        store.dollars(cost) is not null as paid
    from (
        select
            agent_id,
            spent.input_tokens as read, spent.output_tokens as written, coalesce(spent.cost, 0) as cost
        from spent where type = 'usage_delta'
    )
),
plausible as (
    select
        agent_id, bool_and(counted and paid) as all_plausible,
        sum(read) filter (counted)::bigint as read, sum(written) filter (counted)::bigint as written,
        sum(cost) filter (counted and paid) as cost
    from checked group by agent_id
),
remembered as (
    select list({'id': id, 'agent_id': agent_id, 'data': data}) as rules
    from store.visible_events where remembers
)
select
    agent_id, first_id, started, state, coalesce(removed, false) as removed,
    coalesce(unfinished, false) and coalesce(last_id > turn_id, false) as unfinished,
    turn, usage, t.cost as cost,
    coalesce(all_plausible, true) as all_plausible, read as plausible_read, written as plausible_written,
    p.cost as plausible_cost,
    case when row_number() over (order by first_id) = 1 then rules end as rules
from states
join bounds using (agent_id)
left join said using (agent_id)
left join newest using (agent_id)
left join totals t using (agent_id)
left join plausible p using (agent_id)
cross join remembered
where started is not null
order by first_id
"""
# What gives power is read from `data` after its signature was verified, never from columns or by SQL.


_LAST_REPLIES = """
select
    agent_id,
    arg_max(provider || ':' || model, id) as model,
    arg_max(coalesce(data->>'$.api', ''), id) as api,
    arg_max(input_tokens is not null, id) as has_usage,
    arg_max(cost_usd is not null, id) as has_cost
from store.all_messages where role = 'assistant' and stop_reason not in ('error', 'aborted') group by agent_id
"""


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The last state of one agent of a session: what is needed to create it again.

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
        usage: Tokens so far.
        cost: US dollars so far, None until a price was known.
        first_id: The id of its first row in the session.
        authentic: Whether its user has signed the rows that this is read from, in this session. Without that, tools
            that a program or a notebook defines, the address of a model and grants may be another person's words.
        grant_sources: How the models of its grants were found, in their order; empty if that was not stored.
        compactor: What shortened its conversation; see `stored_compactor`.
        skills: The names of the skills that its system prompt listed, None if it listed all.
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
    authentic: bool = False
    grant_sources: tuple[JsonObject, ...] = ()
    compactor: JsonObject = field(default_factory=dict[str, Any])
    skills: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LastReply:
    """The last reply of an agent, which shows where its model was.

    Args:
        model: The model as "provider:model".
        api: The name of the wire format, empty if it was not stored.
        has_usage: Whether the provider reported token counts.
        has_cost: Whether its price was known.
    """

    model: str
    api: str
    has_usage: bool
    has_cost: bool


@dataclass(frozen=True, slots=True)
class RememberedRule:
    """A rule that the user added with a decision.

    Args:
        text: The rule as `Rule.parse` reads it.
        scope: Which agents it is for, as in `ApprovalDecision`; empty in sessions of version 0.1.0.
        id: The id of the row with the decision.
        authentic: Whether its user has signed the decision, in this session.
    """

    text: str
    scope: str
    id: int
    authentic: bool = False


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
    rules = [_rule(session, row) for row in (rows[0]["rules"] or ())] if rows else []
    return SessionMembers(
        tuple(_member(session, row) for row in rows),
        tuple(sorted(rules, key=lambda rule: (rule.text, rule.scope, rule.id))),
    )


async def read_last_replies(session: Session) -> dict[str, LastReply]:
    """Read the last complete reply of each agent of a session.

    Args:
        session: The session, which must be flushed first if it is being written.

    Returns:
        The replies by agent id.

    Raises:
        QueryError: The session cannot be read.
    """
    rows = await query_into(session.directory, _LAST_REPLIES, _records, only=session.info)
    return {
        row["agent_id"]: LastReply(row["model"] or "", row["api"] or "", row["has_usage"], row["has_cost"])
        for row in rows
    }


def _records(result: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _member(session: Session, row: dict[str, Any]) -> AgentRecord:
    agent_id = row["agent_id"]
    started, state = (_Row.of(session, agent_id, row[name]) for name in ("started", "state"))
    role = started.text("role")
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
        grants=Grants(*(texts_in(started.table("grants").get(key)) for key in ("tools", "skills", "models"))),
        tools=texts_in(state.data.get("tools")),
        options=state.table("options"),
        removed=bool(row["removed"]),
        unfinished=bool(row["unfinished"]),
        turn=-1 if row["turn"] is None else int(row["turn"]),
        usage=_usage(row),
        cost=_cost(row),
        first_id=int(row["first_id"]),
        authentic=started.authentic and state.authentic,
        grant_sources=tuple(map(_source, _list(started.data.get("grant_sources")))),
        compactor=_source(started.data.get("compactor", {})),
        skills=texts_in(skills) if isinstance(skills := started.data.get("skills"), list) else None,
    )


def _usage(row: dict[str, Any]) -> Usage:
    """The tokens so far. If version 0.1.0 added numbers that cannot be right, they are the sum of the others."""
    counts = usage_counts(json.loads(row["usage"] or "{}"), maximum=MAX_TOKENS_TOGETHER)
    if counts is None or not row["all_plausible"]:
        return Usage(row["plausible_read"] or 0, row["plausible_written"] or 0)
    return Usage(**counts)


def _cost(row: dict[str, Any]) -> float | None:
    """The US dollars so far, as `_usage`."""
    if row["cost"] is None:
        return None
    try:
        total = dollars(float(row["cost"]))
    except ValueError:
        total = None
    if total is None or not row["all_plausible"]:
        return float(row["plausible_cost"] or 0.0)
    return total


def _rule(session: Session, row: dict[str, Any]) -> RememberedRule:
    decision = _Row.of(session, row["agent_id"], row)
    authentic = decision.authentic and decision.text("by") == "user" and decision.data.get("allowed") is True
    return RememberedRule(decision.text("rule"), decision.text("scope"), row["id"], authentic)


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


def _list(stored: object) -> list[object]:
    return stored if isinstance(stored, list) else []
