"""The fold: live state, replay of everything and replay of what is stored agree."""

from __future__ import annotations

import asyncio
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planck_nb import Agent
from planck_nb.agent.events import TRANSIENT, AgentEvent, decode_event, encode_event
from planck_nb.agent.state import AgentState, fold
from planck_nb.base.errors import PlanckError
from planck_nb.base.event_log import EventLog
from planck_nb.testing import Call, Reply, scripted_model

replies = st.lists(
    st.builds(
        Reply,
        text=st.text("ab \n", max_size=20),
        thinking=st.text("xy ", max_size=10),
        calls=st.lists(
            st.sampled_from([Call("echo", {"text": "hi"}), Call("echo", {}), Call("ghost", {})]), max_size=3
        ),
        error=st.sampled_from([None, None, None, "broken"]),
    ),
    max_size=6,
)
steps = st.lists(st.sampled_from(["prompt", "prompt", "wait", "yield", "abort", "tool"]), min_size=1, max_size=12)


async def echo(text: str) -> str:
    await asyncio.sleep(0)
    return text


@pytest.mark.slow
@given(script=replies, actions=steps)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_folding_events_gives_the_live_state(script: list[Reply], actions: list[str]) -> None:
    everything: EventLog[AgentEvent] = EventLog()

    async def scenario() -> Agent:
        agent = Agent(model=scripted_model(script), tools=[echo], observers=(everything,), system_prompt="be brief")
        for action in actions:
            if action == "prompt":
                agent.prompt("hello")
            elif action == "abort":
                await agent.abort()
            elif action == "tool":
                agent.add_tool(_other)
            elif action == "yield":
                await asyncio.sleep(0)
                mid = reduce(fold, everything.since(0), AgentState())
                assert mid.messages == agent.state.messages
                assert mid.status == agent.state.status
                assert (mid.partial.text if mid.partial else None) == (
                    agent.state.partial.text if agent.state.partial else None
                )
            else:
                await _at_rest(agent)
        await _at_rest(agent)
        return agent

    agent = asyncio.run(scenario())
    events = everything.since(0)
    stored = [decode_event(encode_event(event)) for event in events if event.type not in TRANSIENT]
    assert agent.state.partial is None
    assert reduce(fold, events, AgentState()) == agent.state
    assert reduce(fold, stored, AgentState()) == agent.state


def _other(number: int) -> int:
    return number


async def _at_rest(agent: Agent) -> None:
    while agent.status != "idle" or agent.state.queue:
        try:
            await agent.prompt("and?")
        except PlanckError:
            continue


def test_partial_text_can_be_read_at_any_time() -> None:
    async def scenario() -> None:
        agent = Agent(model=scripted_model([Reply("one two three", thinking="hm hm")], pace=0.001))
        run = agent.prompt("go")
        async for event in run:
            if event.type == "text_delta" and event.text.strip() == "two":
                partial = agent.state.partial
                assert partial is not None
                assert partial.text.startswith("one two")
                assert partial.thinking == "hm hm"
        assert agent.state.partial is None

    asyncio.run(scenario())
