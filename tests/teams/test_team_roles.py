"""Who leads a team, what its members get, and that it lives no longer than its orchestrator."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from support.agents import Hold, until
from support.teams import HandMade, call, calls, results, team_from

from planck_nb import Agent, Tool, orchestrator_tools, worker_tools
from planck_nb.agent import events as ev
from planck_nb.agent.identity import Role
from planck_nb.base.errors import AgentError
from planck_nb.base.ids import new_id
from planck_nb.testing import scripted_model

SPAWN = Tool(name="spawn_agent", description="Another tool of this name.", execute_fn=lambda _: "spawned")


def made(**options: object) -> Agent:
    return Agent(model=scripted_model(["hi"]), **options)  # type: ignore[arg-type]


# clause agent 2, 3
@pytest.mark.parametrize(
    ("options", "role"),
    [
        ({}, "worker"),
        ({"tools": [SPAWN]}, "orchestrator"),
        ({"type": "orchestrator"}, "orchestrator"),
        ({"name": "orchestrator"}, "worker"),
        ({"tools": [SPAWN], "role": "worker"}, "worker"),
        ({"type": "orchestrator", "role": "worker"}, "worker"),
        ({"type": "builder", "role": "orchestrator"}, "orchestrator"),
        ({"tools": orchestrator_tools()}, "orchestrator"),
        ({"tools": worker_tools()}, "worker"),
    ],
)
def test_the_role_is_the_given_one_or_that_of_spawn_agent_or_of_the_type(
    options: dict[str, object], role: Role
) -> None:
    assert made(team_id=new_id(), **options).role == role


def test_an_agent_of_no_team_has_no_role() -> None:
    assert made(type="orchestrator", tools=[SPAWN]).role == ""


def test_a_tool_that_is_added_later_changes_no_role() -> None:
    team = HandMade()
    lead, ann = team.lead([]), team.worker("ann")
    ann.add_tool(SPAWN)
    lead.remove_tool("spawn_agent")
    assert (lead.role, ann.role) == ("orchestrator", "worker")
    with pytest.raises(AttributeError, match="role of an agent cannot change"):
        ann.role = "orchestrator"


async def test_a_worker_with_the_tools_of_an_orchestrator_spawns_nobody() -> None:
    team = HandMade()
    team.lead([])
    ann = team.worker("ann", [call("spawn_agent", type="x"), "done"], tools=orchestrator_tools(), role="worker")
    await ann.prompt("go")
    assert results(ann) == ["Error: Only the orchestrator of a team spawns agents; ask it to."]


def test_a_second_orchestrator_is_refused() -> None:
    team = HandMade()
    lead = team.lead([])
    with pytest.raises(AgentError, match=r'already has an orchestrator, lead; stop that one first, .* `role="worker"`'):
        team.lead([], name="boss")
    assert [worker.name for worker in lead.state.workers] == []


async def test_a_stopped_orchestrator_makes_room_for_another() -> None:
    team = HandMade()
    lead, ann = team.lead([]), team.worker("ann")
    await lead.stop()
    boss, ben = team.lead([call("list_team"), "x"], name="boss"), team.worker("ben")
    await boss.prompt("go")
    assert ann.state.stopped
    assert "ann" not in results(boss)[0]
    assert [worker.id for worker in boss.state.workers] == [ben.id]


def test_agents_of_one_team_id_and_session_are_a_team_whatever_the_order() -> None:
    team = HandMade()
    ann, lead, ben = team.worker("ann"), team.lead([]), team.worker("ben")
    assert [worker.id for worker in lead.state.workers] == [ann.id, ben.id]
    spawned = [event for event in lead.events.since(0) if isinstance(event, ev.WorkerSpawned)]
    assert [(event.name, event.role, event.agent_id) for event in spawned] == [
        ("ann", "worker", lead.id),
        ("ben", "worker", lead.id),
    ]


# clause team_integration 6
async def test_workers_end_with_their_orchestrator() -> None:
    team = HandMade()
    lead, hold = team.lead([]), Hold()
    idle, busy = team.worker("idle"), team.worker("busy", [call("hold"), "done"], tools=[hold.hold])
    run = busy.prompt("go")
    await hold.entered.wait()
    await lead.stop()
    assert idle.state.stopped
    assert busy.state.stopped
    assert run.status == "aborted"
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("planck")]


# clause team_integration 7
async def test_other_teams_go_on_when_an_orchestrator_stops() -> None:
    one, other = HandMade(), HandMade()
    lead, ann = one.lead([]), other.worker("ann", ["here"])
    await lead.stop()
    assert (await ann.prompt("?")).text == "here"


async def test_a_worker_that_is_stopped_is_reported_to_the_orchestrator() -> None:
    team = HandMade()
    lead, ann = team.lead([]), team.worker("ann")
    await ann.stop()
    [left] = [event for event in lead.events.since(0) if isinstance(event, ev.WorkerExit)]
    assert (left.worker_id, left.name, left.reason, left.normal) == (ann.id, "ann", "stopped", True)
    assert not lead.state.stopped
    assert lead.state.workers == ()


class Stubborn(Hold):
    """A tool that goes on for a while when it is cancelled."""

    async def hold(self) -> str:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self._released.wait()
        return "held"


async def test_a_stop_that_is_cancelled_while_a_worker_ends_ends_the_team_all_the_same() -> None:
    hold = Stubborn()
    options = {"tool_pool": [hold.hold], "tools": {"ann": ["hold"]}}
    team = await team_from(["x"], ann=[call("hold"), "x"], options=options).start()
    team.agent("ann").prompt("go")
    await hold.entered.wait()
    events = team.subscribe(since=0)
    stop = asyncio.create_task(team.stop())
    for _ in range(5):  # until it waits for the worker
        await asyncio.sleep(0)
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    hold.release()
    assert [event.type async for event in events].count("agent_stopped") == 2


async def test_a_stop_that_is_cancelled_stops_the_workers_all_the_same() -> None:
    team, hold = HandMade(), Stubborn()
    lead, ann = team.lead([call("hold"), "x"], tools=[hold.hold]), team.worker("ann")
    lead.prompt("go")
    await hold.entered.wait()
    stop = asyncio.create_task(lead.stop())
    for _ in range(3):  # until it waits for the tool to end
        await asyncio.sleep(0)
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    assert ann.state.stopped
    hold.release()
    await lead.stop()


async def test_a_team_ends_when_its_block_fails() -> None:
    team = team_from(["x"], ann=["y"])
    agents: list[Agent] = []

    async def fail() -> None:
        async with team:
            agents.extend(team.agents)
            int("no number")

    with pytest.raises(ValueError, match="no number"):
        await fail()
    assert [agent.state.stopped for agent in agents] == [True, True]
    assert not team.is_running


async def test_the_events_of_a_team_end_with_its_orchestrator() -> None:
    team = await team_from(["x"], ann=["y"]).start()
    events = team.subscribe(since=0)
    await team.orchestrator.stop()
    seen = [event.type async for event in events]
    assert seen.count("agent_stopped") == 2


async def test_a_stop_in_the_middle_of_asks_and_delegations_leaves_nothing() -> None:
    hold = Hold()
    team = team_from(
        [
            calls(
                ("ask_agent", {"agent_id": "ann", "question": "q"}), ("delegate_task", {"agent_id": "ben", "task": "t"})
            )
        ],
        ann=[call("hold")],
        ben=[call("hold")],
        options={"tool_pool": [hold.hold], "tools": {"ann": ["hold"], "ben": ["hold"]}},
    )
    async with team:
        run = team.prompt("go")
        events = team.subscribe(since=0)
        for _ in range(2):
            await until(events, "tool_start")
        await hold.entered.wait()
    result = await run
    assert result.aborted
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_team_that_was_dropped_without_a_stop_is_collected() -> None:
    team = team_from([call("delegate_task", agent_id="ann", task="t"), "waiting", "done"], ann=["ok"])
    await team.start()
    await team.prompt("go")
    agents = [weakref.ref(agent) for agent in team.agents]
    del team
    await asyncio.sleep(0)
    gc.collect()
    assert [agent() for agent in agents] == [None, None]


async def test_a_team_can_be_started_again_after_its_end() -> None:
    team = team_from(["x"], ann=["y"])
    async with team:
        first = {agent.id for agent in team.agents}
    async with team:
        assert not first & {agent.id for agent in team.agents}
        events = team.subscribe(since=0)
        assert (await team.prompt("go")).text == "x"
        assert (await until(events, "turn_end")).agent_id == team.orchestrator.id
