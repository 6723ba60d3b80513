from __future__ import annotations

import asyncio

import pytest

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.testing import scripted_model

CALL: dict[str, object] = {"calls": [{"name": "wait", "arguments": {"n": 1}}]}


class Waiting:
    """An agent whose tool waits until it is let go."""

    def __init__(self, *, ask: bool = False) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.ran: list[object] = []
        rules = (Rule.parse("ask", "wait"),) if ask else ()
        self.agent = Agent(
            model=scripted_model([CALL, "one", "two"]),
            tools=[Tool(name="wait", description="Wait.", execute_fn=self.wait)],
            approvals=Approvals(Policy(rules)),
        )
        self.run = self.agent.prompt("Go.")
        self.later: list[Run] = []
        self.actions = RunActions(self.agent, self.run, self.later.append, self.later)

    async def wait(self, args: dict[str, object]) -> str:
        self.ran.append(args)
        self.begun.set()
        await self.go.wait()
        return "done"

    async def until(self, *kinds: str) -> None:
        """Watch the agent until these have happened."""
        async with self.agent.subscribe(since=0) as events:
            for kind in kinds:
                async for event in events:
                    if event.type == kind:
                        break

    def said(self) -> list[str]:
        return [entry.message.text for entry in self.agent.state.messages if entry.message.type == "user"]


async def test_steering_enters_the_run_and_queued_prompts_follow_it() -> None:
    waiting = Waiting()
    await waiting.begun.wait()
    waiting.actions.steer("left")
    waiting.actions.queue("then up")
    waiting.actions.queue("then down")
    _, up, down = waiting.agent.state.queue
    waiting.actions.edit_queued(up.id, "then right")
    waiting.actions.remove_queued(down.id)
    assert [run.prompt.text for run in waiting.later] == ["left", "then right", "then down"]
    waiting.go.set()
    await waiting.until("turn_end", "turn_end")
    assert waiting.said() == ["Go.", "left", "then right"]


async def test_a_key_is_refused_in_a_prompt_that_is_typed_below_an_answer() -> None:
    key = "sk-" + "0451abcdefGHIJ" * 3
    waiting = Waiting()
    await waiting.begun.wait()
    waiting.actions.queue("one")
    [prompt] = waiting.agent.state.queue
    for send in (
        waiting.actions.steer,
        waiting.actions.queue,
        lambda text: waiting.actions.edit_queued(prompt.id, text),
    ):
        with pytest.raises(UsageError, match="API key") as raised:
            send(f"Use {key}.")
        assert "0451" not in str(raised.value)
    assert [each.text for each in waiting.agent.state.queue] == ["one"]
    waiting.actions.queue(f"-- Use {key}.")
    assert [each.text for each in waiting.agent.state.queue] == ["one", f"Use {key}."]
    waiting.actions.stop()
    await waiting.run.wait()


async def test_stop_ends_the_run() -> None:
    waiting = Waiting()
    await waiting.begun.wait()
    waiting.actions.stop()
    assert (await waiting.run.wait()).aborted


async def test_stop_gives_back_what_waits_and_takes_nothing_more() -> None:
    waiting = Waiting()
    await waiting.begun.wait()
    waiting.actions.steer("left")
    waiting.actions.queue("then up")
    other = waiting.agent.prompt("of another cell")
    waiting.actions.stop()
    for send in (waiting.actions.steer, waiting.actions.queue):
        with pytest.raises(UsageError, match="The run is over; send it as a new prompt"):
            send("too late")
    assert (await waiting.run.wait()).aborted
    events = waiting.run.events.since(0)
    texts = {event.prompt_id: event.text for event in events if event.type == "queued"}
    returned = [texts[event.prompt_id] for event in events if event.type == "unqueued" and event.returned]
    assert returned == ["left", "then up"]
    assert (await other).text == "one"
    assert waiting.said() == ["Go.", "of another cell"]


@pytest.mark.parametrize("whose", [{"agent_id": "another"}, {"scope": "everyone"}])
async def test_decisions_beyond_the_agent_are_refused(whose: dict[str, str]) -> None:
    waiting = Waiting(ask=True)
    await waiting.until("approval_request")
    [pending] = waiting.agent.state.pending_approvals
    with pytest.raises(UsageError):
        waiting.actions.decide(pending.id, allow=True, args=None, remember=True, reason="", **whose)
    assert waiting.agent.state.pending_approvals == (pending,)
    waiting.run.abort()
    await waiting.run.wait()


async def test_a_decision_reaches_the_call_once() -> None:
    waiting = Waiting(ask=True)
    await waiting.until("approval_request")
    [asking] = waiting.agent.state.pending_approvals
    waiting.actions.decide(
        asking.id, allow=True, args={"n": 2}, remember=False, reason="", agent_id=waiting.agent.id, scope="agent"
    )
    with pytest.raises(AgentError, match="decided or stopped already"):
        waiting.actions.decide(asking.id, allow=False, args=None, remember=False, reason="")
    waiting.go.set()
    await waiting.run
    assert waiting.ran == [{"n": 2}]
