"""Random teams: what the store says about their tasks is what the agents remember."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from support.stored_teams import ask, delegate, respond, running_team

from planck_nb import Agent
from planck_nb.errors import PlanckError
from planck_nb.sessions import Session, query, read_open_tasks
from planck_nb.testing import Call, Reply

WORKERS = ("ann", "bob", "cy", "dee")
REPLIES = 40
RECENT = """
from delegations d where id > (select coalesce(max(id), 0) from store.visible_events where type = 'rewound')
"""
COUNTED = """
with spent as (
    select agent_id, turn, input_tokens from messages where role = 'assistant'
    union all
    select agent_id, turn, (data->>'$.delta.input_tokens')::bigint from events
    where type = 'usage_delta' and data->>'$.purpose' <> 'reply'
)
select d.input_tokens, (
    select sum(s.input_tokens) from spent s where s.agent_id = d.to_agent_id and s.turn = d.to_turn
) as counted
from delegations d where to_turn is not null
"""
"""The tokens of each task, and those of the replies and failed requests of its turn."""


def calls(choose: random.Random, *, leads: bool) -> Reply | str:
    """A random reply: a text, an error, or some inter-agent calls."""

    def one() -> Call:
        name = choose.choice((*WORKERS, "boss"))
        task = f"task {choose.randrange(3)}"
        makers = [lambda: ask(name, task), lambda: delegate(name, task), lambda: delegate(name, task)]
        if leads:
            makers += [lambda: Call("interrupt_agent", {"agent_id": name})]
            makers += [lambda: Call("destroy_agent", {"agent_id": name})] if choose.random() < 0.2 else []
        return choose.choice(makers)()

    kind = choose.random()
    if kind < (0.3 if leads else 0.6):
        return "a text"
    if not leads and kind < 0.65:
        return Reply(error="It broke.")
    if not leads and kind < 0.85:
        return respond(f"response {choose.randrange(3)}")
    return Reply(calls=tuple(one() for _ in range(choose.randint(1, 3))))


async def settled(agents: Collection[Agent]) -> None:
    """Wait until no agent works, and no task of one that still lives is open."""

    def busy() -> Agent | None:
        living = [agent for agent in agents if not agent.state.stopped]
        return next((agent for agent in living if agent.status != "idle" or agent.state.open_tasks), None)

    async with asyncio.timeout(60):
        while (agent := busy()) is not None:
            async with agent.subscribe() as news:
                await anext(news)


def in_memory(agent: Agent) -> set[tuple[str, str, str, str]]:
    """The tasks that an agent gave since it was last rewound, with their responses, from its events."""
    found: dict[str, tuple[str, str, list[str]]] = {}
    for event in agent.events.since(0):
        if event.type == "rewound":
            found = {}
        elif event.type == "delegated":
            found[event.task_id] = (event.kind, event.text, [])
        elif event.type == "responded" and event.task_id in found:
            found[event.task_id][2].append(event.text)
    return {(task_id, kind, text, "\n\n".join(responses)) for task_id, (kind, text, responses) in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_the_store_equals_the_memory_of_a_random_team(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    scripts = {name: [calls(choose, leads=False) for _ in range(REPLIES)] for name in WORKERS}
    boss_script = [calls(choose, leads=True) for _ in range(REPLIES)]
    compared = 0
    with Session.create(tmp_path, name="random") as session:
        async with running_team(session, boss_script, **scripts) as agents:
            boss = agents["boss"]
            for round_ in range(3):
                with suppress(PlanckError):
                    await boss.prompt(f"round {round_}")
                await settled(agents.values())
                await session.flush()
                if choose.random() < 0.5:
                    session.materialize()
                view = query(tmp_path, RECENT)
                for agent in (agent for agent in agents.values() if not agent.state.stopped):
                    rows = view[view.from_agent_id == agent.id]
                    responses = ["" if pd.isna(text) else text for text in rows.response]
                    stored = set(zip(rows.task_id, rows.kind, rows.task, responses, strict=True))
                    assert stored == in_memory(agent), agent.name
                    compared += len(stored)
                assert not (view.status == "open").any()
                prompts = [entry.id for entry in boss.state.messages if entry.message.type == "user"]
                if round_ == 1:
                    await boss.rewind_to_message(choose.choice(prompts))
            assert await read_open_tasks(session) == ()
    counted = query(tmp_path, COUNTED)
    assert counted.input_tokens.fillna(-1).tolist() == counted.counted.fillna(-1).tolist()
    assert compared > 10
