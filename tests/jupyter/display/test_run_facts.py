"""Limits that were set, and aliases of models: the same in the live view, in the saved transcript and in tables."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.teams import team_from

from planck_nb import Config, Workspace
from planck_nb.agent import events as ev
from planck_nb.agent.agent import Agent
from planck_nb.agent.limits import Limits
from planck_nb.ai.models import Model
from planck_nb.base.event_log import EventLog
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.agent_rows import agent_rows
from planck_nb.jupyter.display.run_facts import aliases_of, chosen_limits
from planck_nb.jupyter.live.frame_throttle import FrameThrottle
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.jupyter.live.run_agents import RunAgents
from planck_nb.jupyter.live.view import LiveView
from planck_nb.jupyter.transcript.answer import transcript_of
from planck_nb.testing import Call, Reply, scripted_model

FAST, DEEP = (replace(scripted_model(["Hello.", "Again."]), id="m", alias=alias) for alias in ("fast", "deep"))


def agent(model: Model, **options: Any) -> Agent:
    return Agent(model=model, id=model.alias or "a", **options)


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        (Limits(), (None, None)),
        (Limits(tokens=1_000, cost=0.2), (1_000, 0.2)),
        (Limits(tokens=None, cost=None), (None, None)),
        (Limits(cost=0), (None, 0)),
    ],
)
def test_only_limits_that_somebody_chose_are_shown(limits: Limits, shown: tuple[int | None, float | None]) -> None:
    assert chosen_limits(limits) == shown


def test_one_alias_is_common_and_two_for_one_model_are_those_of_their_agents() -> None:
    plain = replace(FAST, id="other", alias="")
    spare = replace(FAST, id="spare", alias="backup")
    one = aliases_of([agent(FAST, fallbacks=[spare]), agent(plain)])
    assert (one.common, one.of_agents) == ({"demo:m": "fast", "demo:spare": "backup"}, {})
    assert [one.name("x", name) for name in ("demo:m", "demo:other")] == ["fast", "demo:other"]
    two = aliases_of([agent(FAST), agent(DEEP), agent(replace(FAST, alias=""))])
    assert two.common == {}
    assert [two.name(name, "demo:m") for name in ("fast", "deep", "a", "gone")] == ["fast", "deep", "demo:m", "demo:m"]
    assert aliases_of([agent(plain, available_models=[DEEP])]).name("a worker that left", "demo:m") == "deep"


class Sent:
    """A live view of a log that is written by hand, and what it sends."""

    def __init__(self, facts: JsonObject) -> None:
        self.facts = facts
        self.log: EventLog[ev.AgentEvent] = EventLog()
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.view = LiveView(
            self.log,
            agent="a",
            actions=object(),  # type: ignore[arg-type]  # nothing is clicked
            facts=lambda: self.facts,
            throttle=FrameThrottle(interval=0),
        )
        self.view.send = self.messages.put_nowait

    async def snapshot(self) -> Any:
        self.view._handle({"type": "resync"})
        return await self.messages.get()

    async def after(self, kind: Any, **fields: Any) -> Any:
        self.log.append(kind("a", None, 0, self.log.end, 1.0, **fields))
        return await self.messages.get()


async def test_the_browser_is_sent_facts_with_everything_and_when_they_change() -> None:
    sent = Sent({"limits": 1})
    assert (await sent.snapshot())["facts"] == {"limits": 1}
    assert "facts" not in await sent.after(ev.TurnStart, index=0, model="m")
    sent.facts = {"limits": 2}
    assert "facts" not in await sent.after(ev.TextDelta, text="a")  # they are those of the turn
    assert (await sent.after(ev.TurnStart, index=1, model="m"))["facts"] == {"limits": 2}
    assert "facts" not in await sent.after(ev.TurnStart, index=2, model="m")
    sent.view.finish({"outcome": "done", "seconds": 1, "spent": ("", ""), "cost": None, "model": "m", "text": ""})
    sent.facts = {"limits": 3}
    assert (await sent.snapshot())["facts"] == {"limits": 2}, "those of the run, when it is over"
    sent.view.close()


async def test_the_facts_of_a_run_are_limits_and_aliases() -> None:
    asked = agent(FAST, limits=Limits(cost=0.5))
    run = asked.prompt("hello")
    facts = RunAgents(asked, run.events).facts()
    assert facts == {
        "limits": {"tokens": None, "cost": 0.5},
        "aliases": {"demo:m": "fast"},
        "aliases_of_agents": {},
    }
    await run
    await asked.stop()


async def test_the_saved_transcript_of_a_team_names_models_by_their_aliases() -> None:
    team = team_from(
        [Reply(calls=[Call("delegate_task", {"agent_id": "w", "task": "hi"})]), "Done.", "Done."], w=["I do."]
    )
    async with team:
        run = team.prompt("Go.")
        await run
        lead = team.orchestrator
        actions = RunActions(lead, run, lambda run: None)
        facts: Any = actions.agents.facts()
        own = {member.id: member.name for member in team.agents}
        assert {key: found["demo:script"] for key, found in facts["aliases_of_agents"].items()} == own
        transcript = transcript_of("lead", "lead", run.events.since(0), aliases=actions.agents.aliases())
        assert transcript.team is not None
        assert [each.figures.rpartition(" · ")[2] for each in transcript.team.agents] == ["w"]


async def test_the_table_of_agents_names_models_by_their_aliases(tmp_path: Path) -> None:
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        asked = workspace.add_agent("ann", model=FAST)
        assert [row["model"] for row in agent_rows(workspace)] == ["fast"]
        await asked.prompt("Hi.")
        assert [row["model"] for row in agent_rows(workspace)] == ["fast"]
