"""One number for what was paid: what SQL sums, agents show and limits count."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from planck_nb import Workspace

_SPENT = """
select
    agent_id, sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cache_read_tokens)::bigint,
    sum(cache_write_tokens)::bigint, sum(thinking_tokens)::bigint, coalesce(sum(cost_usd), 0)
from usage where session_id = getvariable('session') group by agent_id
"""


async def check_ledger(workspace: Workspace) -> None:
    """Assert equal sums in SQL, in all agents and in the limits; the agents must be idle."""
    frame = await workspace.query_async(_SPENT)
    spent = {str(row[0]): tuple(map(float, row[1:])) for row in frame.fillna(0).itertuples(index=False, name=None)}
    for agent in workspace.agent_factory.registry:
        shown = (*astuple(agent.state.usage), agent.state.cost or 0.0)
        assert shown == pytest.approx(spent.get(agent.id, (0.0,) * 6)), agent.name
    counted = workspace.agent_factory.session_spend
    tokens = sum(row[0] + row[1] for row in spent.values())
    assert counted.tokens == tokens, "the limits count the same tokens"
    assert counted.cost == pytest.approx(sum(row[-1] for row in spent.values())), "and the same dollars"
    sums_of = "select input_tokens + output_tokens as tokens, cost_usd from sessions where session_id = '{}'"
    frame = await workspace.query_async(sums_of.format(workspace.session.id))
    [(in_all, dollars)] = frame.fillna(0).itertuples(index=False, name=None)
    assert (in_all, dollars) == pytest.approx((counted.tokens, counted.cost))
