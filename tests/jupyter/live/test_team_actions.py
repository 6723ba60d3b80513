"""Commands for single agents of a run of a team, and what the browser is sent of a team."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fixtures.team import record

from planck_nb.agent import events as ev
from planck_nb.agent.agent import Agent
from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import UsageError
from planck_nb.base.event_log import EventLog
from planck_nb.jupyter.live.browser_commands import read_command
from planck_nb.jupyter.live.frames import FrameEncoder
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.jupyter.live.view import LiveView
from planck_nb.jupyter.transcript.answer import transcript_of


class Team:
    """A team whose builder and tester wait inside a tool until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waiting: list[str] = []
        wait = Tool(name="wait", description="Wait.", execute_fn=self.wait)
        tasks = [record.call("delegate_task", type=name, task=f"Wait, {name}.") for name in ("builder", "tester")]
        make = record.make_agent
        self.lead = make("lead", "orchestrator", [{"calls": tasks}, *["I wait."] * 3, "Report."])
        self.builder, self.tester, self.idle = (
            make(name, "worker", [{"calls": [record.call("wait", who=name)]}, f"{name} is done."], tools=[wait])
            for name in ("builder", "tester", "idler")
        )
        self.run = record.prompt(self.lead)
        self.later: list[Any] = []
        self.actions = RunActions(self.lead, self.run, self.later.append)

    async def wait(self, args: dict[str, str]) -> str:
        self.waiting.append(args["who"])
        await self.go.wait()
        return "waited"

    async def until_both_wait(self) -> None:
        async for _ in self.run.events.subscribe(0):
            if len(self.waiting) == 2:
                return

    def responses(self) -> list[tuple[str, str, bool]]:
        events = self.run.events.since(0)
        return [(e.target_name, e.text, e.error) for e in events if e.type == "responded"]

    def prompts_of(self, agent: Agent) -> list[str]:
        return [entry.message.text for entry in agent.state.messages if entry.message.type == "user"]


@pytest.fixture
async def team() -> AsyncIterator[Team]:
    made = Team()
    await made.until_both_wait()
    yield made
    made.go.set()
    await made.lead.stop()


async def test_one_worker_is_stopped_and_the_others_go_on(team: Team) -> None:
    team.actions.stop(agent_id=team.builder.id)
    async for event in team.run.events.subscribe(0):
        if event.type == "responded":
            break
    assert team.tester.status != "idle"
    team.go.set()
    await team.run.wait()
    assert ("tester", "tester is done.", False) in team.responses()
    assert [(name, failed) for name, _, failed in team.responses()] == [("builder", True), ("tester", False)]


@pytest.mark.parametrize("whole", [False, True])
async def test_what_was_sent_to_a_stopped_worker_comes_back(team: Team, whole: bool) -> None:
    team.actions.steer("Only March.", agent_id=team.builder.id)
    team.actions.stop() if whole else team.actions.stop(agent_id=team.builder.id)
    team.go.set()
    await team.run.wait()
    assert team.prompts_of(team.builder) == ["Wait, builder."]
    assert transcript_of("lead", "m", team.run.events.since(0)).returned == ("Only March.",)


async def test_one_worker_is_steered_within_the_run(team: Team) -> None:
    team.actions.steer("Only March.", agent_id=team.builder.id)
    team.go.set()
    await team.run.wait()
    assert [text for text in team.prompts_of(team.builder) if "March" in text] == ["Only March."]
    assert not [text for text in team.prompts_of(team.tester) if "March" in text]
    assert team.later == [], "it is a part of the run and needs no place of its own"
    assert "builder is done." in [text for _, text, _ in team.responses()]


async def test_what_is_queued_for_the_lead_belongs_to_the_run(team: Team) -> None:
    team.actions.queue("And an image.")
    team.go.set()
    await team.run.wait()
    assert "And an image." in team.prompts_of(team.lead)
    assert team.later == []
    sent = FrameEncoder().encode(team.run.events.since(0))
    shown = [e["message"].get("content") for e in sent if e["type"] == "message" and e["message"]["type"] == "user"]
    assert "And an image." in json.dumps(shown), "it is shown, because it is not in the cell"
    assert "> You: And an image." in transcript_of("lead", "m", team.run.events.since(0)).bundle()["text/plain"]


async def test_a_prompt_that_waits_at_a_worker_is_edited_and_removed_there(team: Team) -> None:
    team.actions.steer("one", agent_id=team.builder.id)
    team.actions.steer("two", agent_id=team.builder.id)
    one, two = team.builder.state.queue
    team.actions.edit_queued(one.id, "one, changed", agent_id=team.builder.id)
    team.actions.remove_queued(two.id, agent_id=team.builder.id)
    assert [prompt.text for prompt in team.builder.state.queue] == ["one, changed"]


@pytest.mark.parametrize("what", ["stop", "steer", "edit", "remove", "decide"])
async def test_only_agents_of_the_run_are_accepted(team: Team, what: str) -> None:
    stranger = record.make_agent("stranger", "worker", ["x"], team="another")
    for agent_id in (stranger.id, team.idle.id, "nobody", ""):
        commands = {
            "stop": lambda who=agent_id: team.actions.stop(agent_id=who),
            "steer": lambda who=agent_id: team.actions.steer("Stop it.", agent_id=who),
            "edit": lambda who=agent_id: team.actions.edit_queued("1", "x", agent_id=who),
            "remove": lambda who=agent_id: team.actions.remove_queued("1", agent_id=who),
            "decide": lambda who=agent_id: team.actions.decide(
                "1", allow=True, args=None, remember=False, reason="", agent_id=who
            ),
        }
        with pytest.raises(UsageError, match="is not part of this run"):
            commands[what]()
    assert (team.builder.status, team.tester.status) == ("executing_tools", "executing_tools")


async def test_a_worker_that_is_idle_can_be_neither_stopped_nor_steered(team: Team) -> None:
    team.go.set()
    await team.run.wait()
    with pytest.raises(UsageError, match="builder is not working, so there is nothing to stop"):
        team.actions.stop(agent_id=team.builder.id)
    with pytest.raises(UsageError, match="builder is not working, so there is nothing to steer"):
        team.actions.steer("x", agent_id=team.builder.id)


async def test_a_call_of_a_worker_is_decided() -> None:
    agents = record.make_team()
    run = record.prompt(agents[0])
    actions = RunActions(agents[0], run, lambda _: None)
    async for event in run.events.subscribe(0):
        if event.type == "approval_request":
            actions.decide(event.id, allow=True, args=None, remember=False, reason="", agent_id=event.agent_id)
    edits = [e for e in run.events.since(0) if e.type == "tool_end" and e.name == "edit"]
    assert [edit.error for edit in edits] == [False]
    await agents[0].stop()


async def test_a_snapshot_describes_the_team_and_one_agent_is_none(team: Team) -> None:
    sent: asyncio.Queue[Any] = asyncio.Queue()
    view = LiveView(team.run.events, agent="lead", actions=team.actions, members=team.actions.agents.members)
    view.send = sent.put_nowait
    view._handle({"type": "resync"})
    members = (await sent.get())["members"]
    assert [member["name"] for member in members] == ["lead", "builder", "tester", "idler"]
    assert (members[0]["id"], members[0]["type"], members[0]["role"]) == ("lead-1", "lead", "orchestrator")
    assert members[0]["model"] == str(team.lead.model)
    view.finish({"outcome": "done", "seconds": 1, "spent": ("", ""), "cost": None, "model": "m", "text": ""})
    alone = record.make_agent("alone", "worker", ["x"], team="alone")
    assert RunActions(alone, alone.prompt("x"), lambda _: None).agents.members() == []
    assert RunActions(team.builder, team.builder.prompt("x"), lambda _: None).agents.members() == []


async def test_a_refusal_goes_back_to_the_agent_that_it_is_about(team: Team) -> None:
    sent: list[Any] = []
    view = LiveView(team.run.events, agent="lead", actions=team.actions)
    view.send = sent.append
    view._handle({"type": "steer", "text": "my text", "agent_id": team.idle.id})
    [refused] = [message for message in sent if message["type"] == "refused"]
    assert (refused["agent_id"], refused["text"]) == (team.idle.id, "my text")
    view.finish({"outcome": "done", "seconds": 1, "spent": ("", ""), "cost": None, "model": "m", "text": ""})


@pytest.mark.parametrize("agent_id", [1, ["a"], {"id": "a"}, True])
def test_an_id_that_is_no_text_is_no_command(agent_id: object) -> None:
    for message in ({"type": "stop"}, {"type": "steer", "text": "x"}, {"type": "unqueue", "id": "1"}):
        assert read_command({**message, "agent_id": agent_id}, lambda *_: {}) is None


def test_the_deltas_of_two_hundred_agents_are_one_each_in_a_frame() -> None:
    log: EventLog[ev.AgentEvent] = EventLog()
    for number in range(40):
        for agent in range(200):
            log.append(ev.TextDelta(f"w{agent}", None, 0, number, 100.0, f"word{number} "))
    encoded = FrameEncoder().encode(log.since(0))
    assert len(encoded) == 200
    assert len(json.dumps(encoded)) < 200 * 600
