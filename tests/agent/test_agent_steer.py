"""Steering: prompts to an agent while it works, and where they enter the turn."""

from __future__ import annotations

import asyncio

import pytest
from support.agents import Hold, Listening, calling, kinds, paired, prompts, said, until

from planck_nb import Agent
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import AgentStoppedError, ProviderError
from planck_nb.testing import Reply, scripted_model


async def test_it_enters_once_the_running_tools_have_ended() -> None:
    hold, client = Hold(), Listening()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold], client=client)
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("left, please")
    assert [(prompt.text, prompt.steer) for prompt in agent.state.queue] == [("left, please", True)]
    assert [steer.status] == ["queued"]
    hold.release()
    first, second = await run, await steer
    assert client.texts() == ["user: go", "assistant: ['hold']", "tool_result: held", "user: left, please"]
    assert first.text == second.text == "done"
    assert steer.status == "done"
    assert agent.state.turn == 0
    assert agent.state.queue == ()
    told = [event async for event in run]
    shown = ("queued", "unqueued", "steered", "turn_start", "turn_end")
    assert kinds(told, *shown) == ["turn_start", "queued", "unqueued", "steered", "turn_end"]
    (steered,) = (place for place, event in enumerate(told) if event.type == "steered" and event.prompt_id == steer.id)
    assert told[steered + 1].type == "message"
    assert kinds([event async for event in steer], *shown) == ["queued", "unqueued", "steered", "turn_end"]


async def test_it_prolongs_a_turn_whose_reply_calls_nothing() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["one two three", "more"], pace=0.005), client=client)
    run = agent.prompt("go")
    await until(run, "text_delta")
    steer = agent.steer("and?")
    assert (await run).text == (await steer).text == "more"
    assert said(agent) == ["user: go", "assistant: one two three", "user: and?", "assistant: more"]
    assert len(client.asked) == 2
    assert kinds([event async for event in run]).count("turn_end") == 1


async def test_several_enter_together_in_their_order() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model([*calling(("hold", {})), "later, then"]), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    runs = [agent.steer("one"), agent.prompt("later"), agent.steer("two")]
    hold.release()
    result = await run
    assert [message.text for message in result.messages if isinstance(message, UserMessage)] == ["go", "one", "two"]
    assert (await runs[1]).text == "later, then"
    assert prompts(agent) == ["go", "one", "two", "later"]


async def test_to_an_idle_agent_it_is_a_prompt() -> None:
    agent = Agent(model=scripted_model(["hello"]))
    steer = agent.steer("hi")
    assert agent.status == "streaming"
    assert (await steer).text == "hello"
    assert kinds([event async for event in steer])[0] == "turn_start"


async def test_what_could_not_enter_is_the_next_prompt() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}), then="second")), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("rather this")
    await agent.abort()
    assert run.status == "aborted"
    assert (await steer).text == "second"
    assert paired([entry.message for entry in agent.state.messages])
    assert prompts(agent) == ["go", "rather this"]
    assert agent.state.turn == 1
    assert "steered" not in kinds([event async for event in steer])


async def test_one_that_was_removed_does_not_enter() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("no")
    agent.edit_queued(steer.id, "yes")
    dropped = agent.steer("never")
    agent.remove_queued(dropped.id)
    hold.release()
    await run
    assert prompts(agent) == ["go", "yes"]
    assert (await dropped).aborted


async def test_aborting_one_that_entered_stops_the_turn() -> None:
    hold = Hold()
    agent = Agent(
        model=scripted_model([*calling(("hold", {}), then="one two three four")], pace=0.01), tools=[hold.hold]
    )
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("on")
    hold.release()
    await until(steer, "text_delta")
    steer.abort()
    assert (await run).aborted
    assert (await steer).aborted


async def test_a_failing_turn_fails_what_entered_it() -> None:
    hold = Hold()
    script = [*calling(("hold", {}))[:1], Reply("half", error="broken")]
    agent = Agent(model=scripted_model(script), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("on")
    hold.release()
    outcomes = await asyncio.gather(run, steer, return_exceptions=True)
    assert all(isinstance(outcome, ProviderError) for outcome in outcomes)


async def test_a_stopped_agent_is_not_steered() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("on")
    await agent.stop()
    assert (run.status, steer.status) == ("aborted", "aborted")
    with pytest.raises(AgentStoppedError):
        agent.steer("again")


async def test_an_output_schema_applies_only_to_its_own_prompt() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}), then="42")), tools=[hold.hold])
    run = agent.prompt("go", output=int)
    await hold.entered.wait()
    steer = agent.steer("on")
    hold.release()
    assert ((await run).output, (await steer).output) == (42, "42")
