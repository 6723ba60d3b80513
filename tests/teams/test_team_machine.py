"""Teams as state machines: whatever the agents do to each other, and whenever they are stopped, the laws hold.

Every run settles and every turn ends. Each task that was given has a response at the agent that gave it, from the agent
that got it and about that task, unless the asker has ended. No agent uses a tool that it was not given. Folding the
events gives the live state, and what is stored is what was in memory.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_teams import NAMES, names, scripted, scripts
from support.teams import HandMade

from planck_nb import Agent, Session
from planck_nb.agent import events as ev
from planck_nb.agent.agent_access import is_stopped
from planck_nb.agent.run import Run
from planck_nb.agent.state import AgentState, fold
from planck_nb.agent.team_members import team_of
from planck_nb.base.errors import PlanckError
from planck_nb.base.event_log import EventLog
from planck_nb.teams.team_run import TeamRun

STANDARD = {"ask_agent", "delegate_task", "send_response", "list_team", "pause"}
LEADING = {"spawn_agent", "interrupt_agent", "destroy_agent", "list_models"}

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["run", "prompt", "steer", "abort", "wait", "wait", "wait"]), names),
        st.tuples(st.sampled_from(["stop run", "stop agent", "rewind"]), names),
    ),
    min_size=1,
    max_size=8,
)


@dataclass
class World:
    """A team, what it is made to do, and everything that it tells."""

    session: Session | None
    log: EventLog[ev.AgentEvent] = field(default_factory=EventLog)
    agents: list[Agent] = field(default_factory=list)
    runs: list[Run[Any]] = field(default_factory=list)
    whole: list[Run[Any]] = field(default_factory=list)
    rewound: bool = False

    def start(self, program: dict[str, list[Any]]) -> None:
        team = HandMade(session=self.session, observers=[self.log])
        self.agents = [team.lead(scripted("lead", program["lead"]), tools=[pause], max_workers=6)]
        self.agents += [team.worker(name, scripted(name, program[name]), tools=[pause]) for name in NAMES[1:]]

    @property
    def lead(self) -> Agent:
        return self.agents[0]

    def named(self, name: str) -> Agent:
        return self.agents[NAMES.index(name)]

    async def step(self, kind: str, name: str) -> None:
        agent = self.named(name)
        with suppress(PlanckError):
            match kind:
                case "run":
                    self.whole.append(TeamRun(self.lead, f"person:{len(self.whole)}", None).run)
                case "prompt":
                    self.runs.append(agent.prompt("person"))
                case "steer":
                    self.runs.append(agent.steer("person"))
                case "abort":
                    await agent.abort()
                case "stop run" if self.whole:
                    self.whole[-1].abort()
                case "stop agent":
                    await agent.stop(removed=True)
                case "rewind" if self.session is not None and agent.state.messages:
                    self.rewound = True
                    await agent.rewind_to_message(agent.state.messages[0].id)
                case _:
                    for _ in range(20):
                        await asyncio.sleep(0)

    async def settle(self) -> None:
        """Return when nothing is under way any more."""
        for run in (*self.runs, *self.whole):
            with suppress(PlanckError):
                await run.wait()
        while any(agent.status != "idle" or agent.state.queue for agent in self.everybody() if not is_stopped(agent)):  # noqa: ASYNC110 - it depends on all agents
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)

    def everybody(self) -> list[Agent]:
        team = team_of(self.lead.id)
        return list({*self.agents, *(team or ())})


async def pause() -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return "paused"


def check(world: World, everybody: list[Agent]) -> None:
    events = world.log.since(0)
    by_agent: dict[str, list[ev.AgentEvent]] = {}
    for event in events:
        by_agent.setdefault(event.agent_id, []).append(event)
    team_ids = {agent.id for agent in everybody}
    for agent in everybody:
        own = by_agent[agent.id]
        assert [event.seq for event in own] == list(range(len(own)))
        kinds = Counter(event.type for event in own)
        assert kinds["turn_start"] == kinds["turn_end"] + kinds["aborted"] + kinds["error"]
        if not world.rewound:  # which removes messages from the state without an event for each
            assert reduce(fold, own, AgentState()) == agent.state
        allowed = STANDARD | (LEADING if agent is world.lead else set[str]())
        assert {tool.name for tool in agent.tools} <= allowed
        assert all(event.error for event in own if isinstance(event, ev.ToolEnd) and event.name not in allowed)
        check_tasks(world, agent, own, team_ids)


def check_tasks(world: World, agent: Agent, own: list[ev.AgentEvent], team_ids: set[str]) -> None:
    given = {event.task_id: event for event in own if isinstance(event, ev.Delegated)}
    responses = [event for event in own if isinstance(event, ev.Responded)]
    for response in responses:
        task = given[response.task_id]
        assert (response.target_id, response.kind) == (task.target_id, task.kind)
        assert response.target_id in team_ids
        if not response.error:
            assert response.text
            for text in response.text.split("\n\n"):
                assert text.startswith((f"{response.target_name}#", f"{response.target_name}!"))
    answered = Counter(event.task_id for event in responses)
    if not (is_stopped(agent) or world.rewound):
        assert set(answered) == set(given), "a task without a response"
        assert agent.state.open_tasks == ()
    for task_id, count in answered.items():
        assert count == 1 or given[task_id].kind == "delegate"
    targets = {event.target_id for event in given.values()}
    for entry in agent.state.messages:
        message = entry.message
        if message.type == "user" and message.purpose == "response":
            assert message.sender_id in targets
            assert message.text.removeprefix("Error: ") in {response.text for response in responses} or world.rewound


async def play(program: dict[str, list[Any]], moves: list[tuple[str, str]], folder: Path | None) -> None:
    session = None if folder is None else Session.create(folder, name="team")
    world = World(session)
    world.start(program)
    async with asyncio.timeout(20):
        world.whole.append(TeamRun(world.lead, "person", None).run)
        for kind, name in moves:
            await world.step(kind, name)
        await world.settle()
        everybody = world.everybody()
        check(world, everybody)
        assert all(run.outcome is not None for run in (*world.runs, *world.whole))
        await world.lead.stop()
        assert all(is_stopped(agent) for agent in everybody)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert [task for task in left if task.get_name().startswith("planck-agent")] == []
    if session is not None and folder is not None:
        kept = {agent.id: [(entry.id, entry.message) for entry in agent.state.messages] for agent in everybody}
        await session.flush()
        session.close()
        with Session.open(folder, session.id) as again:
            for agent_id, messages in kept.items():
                assert again.log(agent_id).messages() == messages


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
def test_the_laws_of_teams_hold(stored: bool) -> None:
    @settings(max_examples=12 if stored else 80, deadline=None, suppress_health_check=list(HealthCheck))
    @given(scripts, steps)
    def laws(program: dict[str, list[Any]], moves: list[tuple[str, str]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(program, moves, Path(folder) if stored else None))

    laws()
