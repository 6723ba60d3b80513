"""The queue: prompts to a busy agent are listed, can be changed and removed, and none is forgotten."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path

import pytest
from support.agents import Hold, Listening, calling, kinds, paired, prompts, said, until

from planck_nb import Agent, Session
from planck_nb.agent.run import Run
from planck_nb.ai.messages import ImagePart, TextPart, UserMessage, UserPart
from planck_nb.base.errors import AgentError, ProviderError
from planck_nb.testing import Reply, scripted_model


async def test_a_prompt_while_text_streams_is_answered_in_one_more_turn(tmp_path: Path) -> None:
    client = Listening()
    with Session.create(tmp_path) as session:
        model = scripted_model(["the first answer", "the second"], pace=0.005)
        agent = Agent(model=model, session=session, client=client)
        first = agent.prompt("A")
        await until(first, "text_delta")
        second = agent.prompt("B")
        assert prompts(agent) == ["A"]
        await second
        # The model reads its own reply before the question that came meanwhile, and so does the store.
        assert client.texts() == ["user: A", "assistant: the first answer", "user: B"]
        rows = session.messages(agent.id)
        assert [row.message.type for row in rows] == ["user", "assistant", "user", "assistant"]
        assert [row.db_id for row in rows] == sorted(row.db_id for row in rows)
        assert [entry.id for entry in agent.state.messages] == [row.db_id for row in rows]
        await agent.stop()
        told = [event async for event in agent.subscribe(since=0)]
        assert kinds(told, "turn_start", "turn_end", "queued", "unqueued") == [
            "turn_start", "queued", "turn_end", "unqueued", "turn_start", "turn_end",
        ]  # fmt: skip


async def test_a_prompt_that_waited_runs_in_the_context_it_was_made_in() -> None:
    cell, seen, hold = ContextVar("cell", default=""), list[str](), Hold()

    async def look() -> str:
        seen.append(cell.get())
        return await hold.hold()

    async def prompt(name: str) -> Run[str]:
        cell.set(name)
        return agent.prompt(name)

    agent = Agent(model=scripted_model([*calling(("look", {})), *calling(("look", {}))]), tools=[look])
    runs = [await asyncio.create_task(prompt(name)) for name in ("first", "second")]
    await hold.entered.wait()
    hold.release()
    for run in runs:
        await run
    assert seen == ["first", "second"]


async def test_prompts_during_several_tool_rounds_do_not_split_them() -> None:
    first, second, client = Hold(), Hold(), Listening()
    script = [*calling(("first", {}))[:1], *calling(("second", {}), then="one"), "two"]

    async def run_first() -> str:
        return await first.hold()

    async def run_second() -> str:
        return await second.hold()

    run_first.__name__, run_second.__name__ = "first", "second"
    agent = Agent(model=scripted_model(script), tools=[run_first, run_second], client=client)
    run = agent.prompt("A")
    await first.entered.wait()
    agent.prompt("B", join=True)
    first.release()
    await second.entered.wait()
    last = agent.prompt("C", join=True)
    second.release()
    assert (await run).text == "one"
    assert (await last).text == "two"
    assert len(client.asked) == 4
    assert client.texts(2)[-1] == "tool_result: held"
    assert client.texts()[-3:] == ["assistant: one", "user: B", "user: C"]
    assert agent.state.turn == 1


async def test_nothing_queued_means_no_further_turn() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["one", "two"]), client=client)
    await agent.prompt("A")
    assert agent.status == "idle"
    assert len(client.asked) == 1


async def test_a_prompt_survives_a_tool_that_breaks() -> None:
    hold = Hold()

    async def broken() -> str:
        await hold.hold()
        raise ValueError("broken")

    agent = Agent(model=scripted_model([*calling(("broken", {}), then="one"), "two"]), tools=[broken])
    agent.prompt("A")
    await hold.entered.wait()
    second = agent.prompt("B")
    hold.release()
    assert (await second).text == "two"
    assert prompts(agent) == ["A", "B"]


async def test_after_an_abort_waiting_prompts_are_answered_at_once() -> None:
    hold, client = Hold(), Listening()
    agent = Agent(model=scripted_model([*calling(("hold", {}), then="one"), "x"]), tools=[hold.hold], client=client)
    first = agent.prompt("A")
    await hold.entered.wait()
    second = agent.prompt("B")
    await agent.abort()
    assert first.status == "aborted"
    assert (await second).text == "one"
    assert client.texts() == [
        "user: A", "assistant: ['hold']", "tool_result: The call was stopped before it returned.", "user: B",
    ]  # fmt: skip
    assert paired([entry.message for entry in agent.state.messages])


async def test_waiting_prompts_are_answered_after_a_failed_turn() -> None:
    agent = Agent(model=scripted_model([Reply("x", error="broken"), "fine"]))
    first, second = agent.prompt("A"), agent.prompt("B")
    with pytest.raises(ProviderError):
        await first
    assert (await second).text == "fine"
    assert said(agent)[-2:] == ["user: B", "assistant: fine"]


async def test_waiting_prompts_can_be_changed_and_removed() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model([*calling(("hold", {}), then="one"), "two"]), tools=[hold.hold])
    first = agent.prompt("A")
    await hold.entered.wait()
    waiting = [agent.prompt(text, join=True) for text in ("B", "C", "D")]
    agent.edit_queued(waiting[0].id, "B, better")
    image = ImagePart(b"png", "image/png")
    agent.edit_queued(waiting[2].id, [TextPart("look"), image])
    agent.remove_queued(waiting[1].id)
    assert [prompt.text for prompt in agent.state.queue] == ["B, better", "look"]
    assert (await waiting[1]).aborted
    assert waiting[1].status == "aborted"
    assert kinds([event async for event in waiting[1]]) == ["queued", "unqueued"]
    hold.release()
    await first
    assert (await waiting[2]).text == "two"
    assert prompts(agent) == ["A", "B, better", "look"]
    assert UserMessage([TextPart("look"), image]) in [entry.message for entry in agent.state.messages]
    for gone in waiting:
        with pytest.raises(AgentError, match="answered or removed"):
            agent.edit_queued(gone.id, "late")
        with pytest.raises(AgentError, match="answered or removed"):
            agent.remove_queued(gone.id)


async def test_stop_drops_what_waits_and_says_so() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    first = agent.prompt("A")
    await hold.entered.wait()
    second = agent.prompt("B")
    await agent.stop()
    assert (first.status, second.status) == ("aborted", "aborted")
    assert agent.state.queue == ()
    assert agent.state.stopped
    assert prompts(agent) == ["A"]


async def test_content_parts_are_passed_through() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["a cat"]), client=client)
    parts: list[UserPart] = [TextPart("what is this?"), ImagePart(url="https://example.org/cat.png")]
    await agent.prompt(parts)
    assert agent.state.messages[0].message == UserMessage(parts) == client.asked[0][1].messages[0]


async def test_abort_then_prompt_runs_normally_again_and_again() -> None:
    agent = Agent(model=scripted_model(["one two three"] * 40, pace=0.0005))
    for number in range(20):
        run = agent.prompt(f"prompt {number}")
        if number % 2:
            await until(run, "text_delta")
        await agent.abort()
        assert agent.status == "idle"
        assert run.status == "aborted"
    assert (await agent.prompt("at last")).text == "one two three"


async def test_what_an_aborted_stream_still_sends_stays_out_of_the_next_turn() -> None:
    agent = Agent(model=scripted_model(["old old old old old", "new"], pace=0.002))
    run = agent.prompt("A")
    await until(run, "text_delta")
    run.abort()
    second = agent.prompt("B")
    assert (await second).text == "new"
    assert "".join(event.text for event in second.events.since(0) if event.type == "text_delta") == "new"
