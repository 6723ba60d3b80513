"""What else can happen in a turn: another model, nothing new to say, a summary, an empty reply."""

from __future__ import annotations

import asyncio
import gc
import re
from pathlib import Path

import pytest
from support.agents import Hold, Listening, calling, kinds, paired, prompts, said, until
from support.wire import CHAT, CHAT_HELLO, client, replying

from planck_nb import Agent, Session
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.loop import EMPTY
from planck_nb.ai.messages import AssistantMessage, Usage, UserMessage
from planck_nb.base.errors import ModelError, ProviderError, UsageError
from planck_nb.testing import Call, Reply, scripted_model

BROKEN = Reply(error="The server is down.")


async def test_a_fallback_answers_in_the_place_of_a_model_that_cannot() -> None:
    client = Listening()
    primary, second = scripted_model([BROKEN, "primary again"]), scripted_model(["from the second"])
    agent = Agent(model=primary, fallbacks=[second], client=client)
    run = agent.prompt("go")
    assert (await run).text == "from the second"
    told = [event async for event in run]
    (fell,) = [event for event in told if event.type == "fallback"]
    assert (fell.failed, fell.model, fell.reason) == ("demo:script", "demo:script", "The server is down.")
    assert [model is second for model, _ in client.asked] == [False, True]
    assert kinds(told, "turn_start", "fallback", "turn_end", "error") == ["turn_start", "fallback", "turn_end"]
    assert (await agent.prompt("and now?")).text == "primary again"
    assert client.asked[-1][0] is primary


async def test_the_fallback_stays_for_the_rest_of_its_turn() -> None:
    client = Listening()
    second = scripted_model(calling(("tick", {})))

    def tick() -> str:
        return "tock"

    agent = Agent(model=scripted_model([BROKEN] * 3), fallbacks=[second], client=client, tools=[tick])
    assert (await agent.prompt("go")).text == "done"
    assert [model is second for model, _ in client.asked] == [False, True, True]


async def test_fallbacks_are_asked_in_order_and_the_last_error_is_raised() -> None:
    last = scripted_model([Reply(error="The third is down, too.")])
    agent = Agent(model=scripted_model([BROKEN]), fallbacks=[scripted_model([BROKEN]), last])
    run = agent.prompt("go")
    with pytest.raises(ProviderError, match="The third is down, too"):
        await run
    told = [event async for event in run]
    assert kinds(told, "fallback", "error") == ["fallback", "fallback", "error"]
    assert said(agent) == ["user: go"]


async def test_a_missing_key_is_a_reason_to_fall_back() -> None:
    agent = Agent(model="anthropic:claude-sonnet-4-6", fallbacks=[scripted_model(["hello"])], client=Listening())
    assert (await agent.prompt("go")).text == "hello"


async def test_a_reply_that_has_begun_is_not_requested_again() -> None:
    agent = Agent(model=scripted_model([Reply("Half an", error="cut")]), fallbacks=[scripted_model(["x", "y"])])
    with pytest.raises(ProviderError, match="cut"):
        await agent.prompt("go")
    assert said(agent) == ["user: go", "assistant: Half an"]


async def test_calls_that_a_failing_model_began_are_never_run() -> None:
    ran: list[int] = []

    def note() -> None:
        ran.append(1)

    failing = scripted_model([Reply(calls=[Call("note", {})], error="cut")])
    agent = Agent(model=failing, fallbacks=[scripted_model(["fine"])], tools=[note])
    assert (await agent.prompt("go")).text == "fine"
    assert not ran
    assert said(agent) == ["user: go", "assistant: fine"]


async def test_a_tool_that_fails_is_no_reason_to_fall_back() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(calling(("ghost", {}))), fallbacks=["demo:demo"], client=client)
    await agent.prompt("go")
    assert {str(model) for model, _ in client.asked} == {"demo:script"}


async def test_another_model_answers_from_the_next_request_on() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["from the old", "x"], pace=0.003), client=client)
    run = agent.prompt("go")
    await until(run, "text_delta")
    new = scripted_model(["-", "from the new"])
    agent.model = new
    assert (await run).text == "from the old"
    assert (await agent.prompt("and?")).text == "from the new"
    assert client.asked[-1][0] is new
    assert prompts(agent) == ["go", "and?"]
    assert agent.status == "idle"
    with pytest.raises(ModelError):
        agent.model = "nobody:nothing"
    assert agent.model is new


async def test_a_model_goes_on_after_its_own_reply_because_a_message_asks_it_to() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["one", "two"]), client=client)
    await agent.prompt("go")
    run = agent.continue_()
    assert run is not None
    assert (await run).text == "two"
    assert client.texts() == ["user: go", "assistant: one", "user: Go on."]
    assert said(agent) == ["user: go", "assistant: one", "user: Go on.", "assistant: two"]
    assert agent.state.turn == 1


async def test_what_was_never_answered_is_sent_again_as_it_is() -> None:
    client = Listening()
    agent = Agent(model=scripted_model([Reply(error="The server is down."), "two"]), client=client)
    with pytest.raises(ProviderError):
        await agent.prompt("go")
    agent.model = scripted_model(["two"])
    run = agent.continue_()
    assert run is not None
    assert (await run).text == "two"
    assert said(agent) == ["user: go", "assistant: two"]


async def test_a_busy_agent_is_not_continued() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    assert agent.continue_() is None
    hold.release()
    await run
    assert agent.state.queue == ()


@pytest.mark.parametrize("stored", [True, False])
async def test_a_checkpoint_replaces_the_conversation(stored: bool, tmp_path: Path) -> None:
    client = Listening()
    session = Session.create(tmp_path) if stored else None
    agent = Agent(model=scripted_model(["one", "two", "x", "three"]), client=client, session=session)
    await agent.prompt("A")
    await agent.prompt("B")
    await agent.checkpoint("We counted to two.")
    assert agent.status == "idle"
    client.asked.clear()
    agent.model = scripted_model(["three"])
    await agent.prompt("C")
    assert client.texts() == [
        "user: Summary of the conversation before this point:\n\nWe counted to two.", "user: C",
    ]  # fmt: skip
    assert len(agent.state.messages) == 7
    if session is not None:
        assert len(session.messages()) == 7
        session.close()


@pytest.mark.parametrize("summary", ["", " \n", None, 3])
async def test_a_checkpoint_that_says_nothing_is_refused(summary: object) -> None:
    agent = Agent(model=scripted_model(["one"]))
    await agent.prompt("A")
    with pytest.raises(UsageError, match="say what it was about"):
        await agent.checkpoint(summary)  # type: ignore[arg-type]
    assert said(agent) == ["user: A", "assistant: one"]


@pytest.mark.parametrize("content", [None, 3, b"text", [3], ["text"]])
async def test_invalid_content_is_refused_and_nothing_is_lost(content: object) -> None:
    agent = Agent(model=scripted_model(["one"]))
    for say in (agent.prompt, agent.steer):
        with pytest.raises(UsageError, match="A user's message cannot hold a value of type"):
            say(content)  # type: ignore[arg-type]
    assert (await agent.prompt("A")).text == "one"
    assert said(agent) == ["user: A", "assistant: one"]


async def test_what_is_not_a_model_is_refused() -> None:
    agent = Agent(model=scripted_model(["one"]))
    with pytest.raises(UsageError, match="3 is not a model; pass a Model"):
        agent.model = 3  # type: ignore[assignment]
    with pytest.raises(UsageError, match="None is not a model"):
        Agent(model=None)  # type: ignore[arg-type]
    assert (await agent.prompt("A")).text == "one"


async def test_a_checkpoint_while_tools_run_leaves_a_valid_request() -> None:
    hold, client = Hold(), Listening()
    agent = Agent(model=scripted_model(["done"]), tools=[hold.hold], client=client)
    agent.model = scripted_model(calling(("hold", {})))
    run = agent.prompt("go")
    await hold.entered.wait()
    agent.model = scripted_model(["done"])
    await agent.checkpoint("Something is held.")
    assert agent.status == "executing_tools"
    hold.release()
    assert (await run).text == "done"
    assert client.texts() == ["user: Summary of the conversation before this point:\n\nSomething is held."]


async def test_an_agent_at_a_glance() -> None:
    agent = Agent(model=scripted_model(["one two"]), id="a1", name="Ada", type="worker", description="Counts.")
    assert (agent.info().turn, agent.info().status) == (-1, "idle")
    await agent.prompt("count it")
    info = agent.info()
    assert (info.id, info.name, info.type, info.description) == ("a1", "Ada", "worker", "Counts.")
    assert (info.model, info.status, info.turn, info.cost) == ("demo:script", "idle", 0, None)
    assert (info.usage.input_tokens, info.usage.output_tokens) == (7, 2)
    assert not hasattr(info, "messages")


async def test_a_resumed_agent_continues_its_counts() -> None:
    agent = Agent(model=scripted_model(["one two"]), usage=Usage(100, 10), cost=0.001, turn=4)
    await agent.prompt("go")
    assert agent.state.turn == 5
    assert agent.state.usage == Usage(101, 12)
    assert agent.state.cost == 0.001


async def test_an_empty_reply_is_asked_for_once_more(tmp_path: Path) -> None:
    client = Listening()
    with Session.create(tmp_path) as session:
        agent = Agent(model=scripted_model([Reply(), "here it is"]), client=client, session=session)
        run = agent.prompt("go")
        assert (await run).text == "here it is"
        told = [event async for event in run]
        assert [event.text for event in told if event.type == "warning"] == [f"{EMPTY} The request is sent again."]
        assert [client.texts(number) for number in range(2)] == [["user: go"], ["user: go"]]
        assert kinds(told).count("turn_end") == 1
        await agent.stop()


async def test_a_second_empty_reply_leaves_a_note_that_is_never_sent(tmp_path: Path) -> None:
    client = Listening()
    with Session.create(tmp_path) as session:
        agent = Agent(model=scripted_model([Reply(), Reply(), "hello"]), client=client, session=session)
        run = agent.prompt("go")
        assert (await run).text == ""
        assert [event async for event in run][-1].type == "turn_end"
        notes = [message for row in session.messages() if isinstance(message := row.message, AssistantMessage)]
        assert [(note.content, note.error) for note in notes] == [((), EMPTY)] * 2
        assert agent.state.usage.input_tokens == 2
        assert (await agent.prompt("again")).text == "hello"
        assert client.texts() == ["user: go", "user: again"]
        await agent.stop()


async def test_an_empty_reply_after_tools_is_asked_for_once_more() -> None:
    agent = Agent(model=scripted_model([Reply(calls=[Call("ghost", {})]), Reply(), "done"]))
    result = await agent.prompt("go")
    assert result.text == "done"
    assert paired([message for message in result.messages if message.type != "assistant" or message.content])


async def test_prompt_parts_that_fail_fail_the_turn_and_nothing_hangs() -> None:
    broken = [True]

    def prompt_parts() -> SystemPromptParts:
        if broken:
            raise OSError("AGENTS.md is gone")
        return SystemPromptParts()

    agent = Agent(model=scripted_model(["fine"]), prompt_parts=prompt_parts)
    with pytest.raises(OSError, match="gone"):
        await agent.prompt("go")
    assert agent.status == "idle"
    broken.clear()
    assert (await agent.prompt("again")).text == "fine"


async def test_messages_from_elsewhere_leave_an_idle_agent_idle() -> None:
    agent = Agent(model=scripted_model(["fine"]))
    await agent._recorder.append(UserMessage("You were interrupted."))
    assert agent.status == "idle"
    assert (await agent.prompt("go")).text == "fine"


async def test_stopping_for_good_is_not_undone_by_stopping_again() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    watch = agent.subscribe(since=0)
    agent.prompt("go")
    await hold.entered.wait()
    await asyncio.gather(agent.stop(removed=True), agent.stop())
    stopped = [event async for event in watch][-1]
    assert stopped.type == "agent_stopped"
    assert stopped.removed


async def test_a_notebook_shows_an_agent_at_a_glance() -> None:
    agent = Agent(model=scripted_model(["fine"]), name="ann", description="Reads <b> & writes.")
    await agent.prompt("go")
    shown = agent._repr_html_()
    rows = dict(re.findall(r"<th[^>]*>(\w+)</th><td[^>]*>([^<]*)</td>", shown))
    assert rows["status"] == "idle"
    assert rows["messages"] == "2"
    assert rows["description"] == "Reads &lt;b&gt; &amp; writes."


async def test_a_turn_leaves_nothing_to_the_garbage_collector() -> None:
    """Objects in a cycle live until a collection, and each collection looks at all others."""
    agent = Agent(model=CHAT, client=client(replying(CHAT_HELLO)))
    await agent.prompt("the first loads what all later ones use")
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await agent.prompt("go")
        gc.collect()
        left = {type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("planck_nb.")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == set()
