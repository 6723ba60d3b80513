"""Compaction at work: when the agent makes room, what it then sends, and what survives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.agents import Hold, Listening, kinds, paired, said, until
from support.wire import CHAT, CHAT_HELLO, client

from planck_nb import Agent, Compactor, Session
from planck_nb.agent.context.compactor import Compact, ContextUsage
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.ai.messages import Message, SummaryMessage, Usage
from planck_nb.ai.models import Model
from planck_nb.base.errors import AgentError, CompactionError, ContextOverflowError
from planck_nb.testing import Call, Reply, scripted_model

FACT = "The answer is 42."


def small(script: Sequence[Reply | str], window: int = 400) -> Model:
    """A scripted model with a small context window."""
    return replace(scripted_model(script), context_window=window)


class Shortening(Compactor):
    """Compacts from a given size on; the test says how, and may delay it."""

    def __init__(self, at: int = 0, give: Callable[[Sequence[Message]], object] | None = None) -> None:
        self.at = at
        self.asked: list[list[Message]] = []
        self.hold: Hold | None = None
        self._give = give or (lambda messages: Compact("So far.", tuple(messages[-1:]), Usage(50, 5), 0.25))

    def should(self, context_usage: ContextUsage) -> bool:
        return context_usage.tokens >= self.at

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        self.asked.append(list(messages))
        if self.hold is not None:
            await self.hold.hold()
        return self._give(messages)  # type: ignore[return-value]  # some tests give nonsense


async def told(agent: Agent) -> list[AgentEvent]:
    await agent.stop()
    return [event async for event in agent.subscribe(since=0)]


@pytest.mark.parametrize(("limit", "compacted"), [(10_000, False), (5, True)])
async def test_it_is_asked_before_every_request(limit: int, compacted: bool) -> None:
    compactor, listening = Shortening(limit, lambda messages: None), Listening()

    def tick() -> str:
        return "tock"

    script: list[Reply | str] = [Reply("a b c d e f", calls=[Call("tick", {})]), "done"]
    agent = Agent(model=small(script), tools=[tick], on_compact=compactor, client=listening)
    await agent.prompt("one two three four five")
    assert bool(compactor.asked) == compacted
    if compacted:
        assert [message.type for message in compactor.asked[1]] == ["user", "assistant", "tool_result"]
        events = [event for event in await told(agent) if event.type == "compacted"]
        assert {(event.summary_id, event.reason) for event in events} == {(None, "There is nothing to shorten.")}


async def test_a_function_is_asked_before_every_request_and_may_decline() -> None:
    asked: list[int] = []

    def compact(messages: list[Message]) -> tuple[str, list[Message]] | None:
        asked.append(len(messages))
        return ("In short.", messages[-1:]) if len(messages) > 4 else None

    listening = Listening()
    agent = Agent(model=scripted_model(["one", "two", "x", "x"]), on_compact=compact, client=listening)
    await agent.prompt("A")
    await agent.prompt("B")
    agent.model = scripted_model(["three"])
    await agent.prompt("C")
    assert asked == [1, 3, 5]
    assert listening.texts() == ["user: Summary of the conversation before this point:\n\nIn short.", "user: C"]
    assert kinds(await told(agent), "compacting", "compacted") == ["compacting", "compacted"]


async def test_the_summary_is_published_stored_and_counted(tmp_path: Path) -> None:
    session_spend, listening = SessionSpend(), Listening()
    with Session.create(tmp_path) as session:
        compactor = Shortening(150)
        agent = Agent(
            model=small(["one two three"]),
            on_compact=compactor,
            session=session,
            session_spend=session_spend,
            client=listening,
        )
        await agent._recorder.append(SummaryMessage("word " * 200))
        await agent.prompt("A")
        events = await told(agent)
        shown = ("turn_start", "compacting", "compacted", "turn_end")
        assert kinds(events, *shown) == ["turn_start", "compacting", "compacted", "turn_end"]
        (done,) = [event for event in events if event.type == "compacted"]
        summary = next(entry for entry in agent.state.messages if entry.id == done.summary_id)
        assert isinstance(summary.message, SummaryMessage)
        assert done.tokens_after < done.tokens_before
        assert done.reason == ""
        assert session_spend.tokens >= 55
        assert session_spend.cost == 0.25 == agent.state.cost
        assert agent.state.usage.output_tokens == 5 + 3
        assert len(session.messages()) == 4
        assert not agent.state.compacting


async def test_the_filled_part_of_the_window_falls() -> None:
    agent = Agent(model=small(["word " * 100, "short"]), on_compact=Shortening(10_000))
    await agent.prompt("word " * 100)
    before = agent.state.context_tokens
    assert before >= 200
    assert await agent.compact() is True
    assert agent.state.context_tokens < before
    before = agent.state.context_tokens
    agent.model = small(["short"])
    await agent.checkpoint("Nothing.")
    await agent.prompt("x")
    assert agent.state.context_tokens < before


async def test_after_a_turn_it_works_in_the_background_and_the_next_turn_need_not_wait() -> None:
    compactor = Shortening(10)
    agent = Agent(model=small(["word " * 20, "two", "x"]), on_compact=compactor, client=Listening())
    compactor.hold = Hold()
    await agent.prompt("go")
    await compactor.hold.entered.wait()
    assert agent.state.compacting
    assert agent.status == "idle"
    assert (await agent.prompt("B")).text == "two"
    compactor.hold.release()
    assert await agent.compact() is True
    assert len(compactor.asked) == 1
    sent = agent.request().messages
    assert [message.type for message in sent] == ["summary", "assistant", "user", "assistant"]
    assert [message.text for message in sent if message.type != "tool_result"][2:] == ["B", "two"]


async def test_a_full_window_waits_for_what_is_under_way() -> None:
    compactor, listening = Shortening(10), Listening()
    agent = Agent(model=small(["word " * 30, "two", "x"], window=20), on_compact=compactor, client=listening)
    compactor.hold = Hold()
    await agent.prompt("go")
    await compactor.hold.entered.wait()
    run = agent.prompt("B")
    await until(run, "message")
    assert len(listening.asked) == 1
    compactor.hold.release()
    await run
    assert listening.texts(1)[0].startswith("user: Summary")


@pytest.mark.parametrize("way", ["abort", "run", "stop"])
async def test_stopping_ends_it_and_leaves_the_conversation_as_it_was(way: str) -> None:
    compactor = Shortening(10)
    compactor.hold = Hold()
    agent = Agent(model=small(["one"]), on_compact=compactor)
    run = agent.prompt("word " * 30)
    await compactor.hold.entered.wait()
    if way == "run":
        run.abort()
    await (agent.stop() if way == "stop" else agent.abort())
    assert (await run).aborted
    assert said(agent) == ["user: " + "word " * 30]
    assert not agent.state.compacting
    (event,) = [event for event in await told(agent) if event.type == "compacted"]
    assert (event.summary_id, event.reason) == (None, "It was stopped.")


async def test_abort_ends_one_in_the_background() -> None:
    compactor = Shortening(10)
    agent = Agent(model=small(["word " * 30, "two"]), on_compact=compactor)
    compactor.hold = Hold()
    await agent.prompt("go")
    await compactor.hold.entered.wait()
    await agent.abort()
    assert not agent.state.compacting
    assert len(agent.state.messages) == 2


async def test_the_caller_is_told_that_it_was_stopped() -> None:
    compactor = Shortening(10_000)
    agent = Agent(model=small(["one"]), on_compact=compactor)
    await agent.prompt("go")
    compactor.hold = Hold()
    asking = [asyncio.create_task(agent.compact()) for _ in range(2)]
    await compactor.hold.entered.wait()
    await agent.abort()
    assert await asyncio.gather(*asking) == [False, False]
    assert len(compactor.asked) == 1


@pytest.mark.parametrize(
    ("give", "reason"),
    [
        (lambda messages: Compact(" "), "empty summary"),
        (lambda messages: Compact("x", tuple(messages)), "keeps every message"),
        (lambda messages: 7, "returned a int"),
        (lambda messages: 1 / 0, "The compactor failed: ZeroDivisionError"),
        (lambda messages: None, "nothing to shorten"),
    ],
)
async def test_a_failure_leaves_the_conversation_as_it_was(
    give: Callable[[Sequence[Message]], object], reason: str
) -> None:
    listening = Listening()
    agent = Agent(model=small(["one"]), on_compact=Shortening(10, give), client=listening)
    assert (await agent.prompt("word " * 30)).text == "one"
    assert listening.texts() == ["user: " + "word " * 30]
    assert any(reason in event.reason for event in await told(agent) if event.type == "compacted")


async def test_a_compactor_that_cannot_say_when_it_is_time_breaks_no_turn() -> None:
    class Undecided(Shortening):
        def should(self, context_usage: ContextUsage) -> bool:
            raise RuntimeError("who knows")

    agent = Agent(model=small(["one"]), on_compact=Undecided())
    assert (await agent.prompt("go")).text == "one"
    reasons = {event.reason for event in await told(agent) if event.type == "compacted"}
    assert reasons == {"The compactor failed: RuntimeError: who knows"}


async def test_without_a_compactor_nothing_is_shortened_and_asking_says_so() -> None:
    agent = Agent(model=small(["one"], window=10))
    await agent.prompt("word " * 30)
    with pytest.raises(AgentError, match=r"on_compact=Compactor.build\(\)"):
        await agent.compact()


async def test_what_is_kept_survives_the_session_being_opened_again(tmp_path: Path) -> None:
    session = Session.create(tmp_path)
    compactor = Shortening(10_000)
    agent = Agent(model=small(["one", "two", "three"]), on_compact=compactor, session=session, id="a1")
    for text in ("A", "B", "C"):
        await agent.prompt(text)
    assert await agent.compact()
    before = agent.request().messages
    await agent.stop()
    session.close()
    with Session.open(tmp_path, session.id) as again:
        listening = Listening()
        revived = Agent(model=small(["x"] * 3 + ["four"]), session=again, id="a1", client=listening)
        assert list(revived.request().messages) == list(before)
        revived.model = small(["-", "four"])
        await revived.prompt("D")
        assert listening.texts() == [
            "user: Summary of the conversation before this point:\n\nSo far.", "assistant: three", "user: D",
        ]  # fmt: skip
        await revived.stop()


async def test_a_fact_of_the_first_summary_is_in_the_second() -> None:
    """Two compactions by a model that repeats what it is told: the earlier summary is part of what it reads."""

    def carry(messages: Sequence[Message]) -> Compact:
        texts = " ".join(message.text for message in messages if message.type in ("summary", "user"))
        return Compact(f"So far: {texts}", tuple(messages[-1:]))

    agent = Agent(model=small(["one", "two", "three"]), on_compact=Shortening(10_000, carry))
    await agent.prompt(FACT)
    assert await agent.compact()
    agent.model = small(["-", "two", "three"])
    await agent.prompt("B")
    assert await agent.compact()
    first = agent.request().messages[0]
    assert isinstance(first, SummaryMessage)
    assert FACT in first.text


async def test_the_built_in_compactor_makes_room_and_splits_no_pair() -> None:
    def read(name: str) -> str:
        return f"{name}: " + "word " * 60

    calls = [Reply(calls=[Call("read", {"name": f"file {number}"})]) for number in range(12)]
    listening = Listening()
    agent = Agent(
        model=replace(scripted_model(calls), context_window=700),
        tools=[read],
        client=listening,
        on_compact=Compactor.build(scripted_model(["In short."]), keep_recent=4),
        limits=Limits(rounds=12),
    )
    # The script counts the replies that it sees, so after a summary it begins anew, and the limit ends it.
    assert "12 rounds" in (await agent.prompt("go")).limit
    model, _ = listening.asked[0]
    summaries = [context for _, context in listening.asked if not context.tools]
    assert summaries
    for asked, context in listening.asked:
        if asked is model:
            assert paired(context.messages)


async def test_a_reply_whose_calls_still_run_stays_out_of_it() -> None:
    hold, listening = Hold(), Listening()
    compactor = Shortening(100_000, lambda messages: Compact("So far.", ()))
    agent = Agent(model=small(["one"]), tools=[hold.hold], on_compact=compactor, client=listening)
    await agent.prompt("A")
    agent.model = small(["-", Reply("I look.", calls=[Call("hold", {})])])
    run = agent.prompt("B")
    await hold.entered.wait()
    assert await agent.compact()
    agent.model = small(["-", "done"])
    hold.release()
    assert (await run).text == "done"
    assert listening.texts()[1:] == ["assistant: I look.['hold']", "tool_result: held"]
    assert [message.type for message in compactor.asked[0]] == ["user", "assistant", "user"]


async def test_one_right_after_another_takes_the_first_ones_summary_in() -> None:
    compactor = Shortening(100_000, lambda messages: Compact("So far.", tuple(messages[-1:])))
    agent = Agent(model=small(["one", "two"]), on_compact=compactor)
    await agent.prompt("A")
    await agent.prompt("B")
    assert await agent.compact()
    assert await agent.compact()
    assert [message.type for message in agent.request().messages] == ["summary", "assistant"]


async def test_a_checkpoint_takes_the_place_of_a_compaction_under_way() -> None:
    compactor = Shortening(10_000)
    agent = Agent(model=small(["one"]), on_compact=compactor)
    await agent.prompt("go")
    compactor.hold = Hold()
    asking = asyncio.create_task(agent.compact())
    await compactor.hold.entered.wait()
    await agent.checkpoint("A new start.")
    assert await asking is False
    assert [message.type for message in agent.request().messages] == ["summary"]


def overflowing(limit: int, seen: list[int]) -> httpx.MockTransport:
    """A server that refuses requests of more than so many characters."""

    async def hello() -> AsyncIterator[bytes]:
        for chunk in CHAT_HELLO:
            yield chunk

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(len(request.content))
        if len(request.content) > limit:
            error = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 10 tokens"}}
            return httpx.Response(400, json=error)
        json.loads(request.content)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=hello())

    return httpx.MockTransport(handle)


async def test_a_refused_length_is_shortened_and_asked_again() -> None:
    seen: list[int] = []
    compactor = Shortening(100_000, lambda messages: Compact("So far.", ()))
    agent = Agent(model=CHAT, on_compact=compactor, client=client(overflowing(3_000, seen)))
    assert (await agent.prompt("word " * 1_000)).text == "Hello"
    assert len(compactor.asked) == 1
    assert seen[0] > 3_000 >= seen[1]


async def test_old_tool_outputs_are_left_out_if_there_is_no_other_way() -> None:
    seen: list[int] = []
    agent = Agent(model=scripted_model([Reply(calls=[Call("long", {}), Call("long", {})]), "ok"]), tools=[long])
    await agent.prompt("go")
    asking = client(overflowing(12_000, seen))
    second = Agent(model=CHAT, client=asking, tools=[long])
    for entry in agent.state.messages:
        await second._recorder.append(entry.message)
    assert (await second.prompt("and?")).text == "Hello"
    assert len(seen) == 2
    assert paired([entry.message for entry in second.state.messages])
    assert sum("word" * 10 in text.replace(" ", "") for text in said(second)) >= 1
    assert (await second.prompt("once more")).text == "Hello"
    assert len(seen) == 3


def long() -> str:
    return "word " * 2_000


async def test_if_nothing_helps_the_refusal_is_raised() -> None:
    seen: list[int] = []
    agent = Agent(model=CHAT, client=client(overflowing(10, seen)))
    with pytest.raises(ContextOverflowError):
        await agent.prompt("word " * 100)
    assert 1 <= len(seen) <= 2
    assert agent.status == "idle"


def test_what_a_compactor_raises_has_a_name_of_its_own() -> None:
    assert issubclass(CompactionError, AgentError)


@pytest.mark.parametrize("way", ["spend", "result"])
async def test_what_a_custom_compactor_reports_is_counted_once(way: str) -> None:
    took, dollars = Usage(input_tokens=700, output_tokens=30), 0.25

    async def summarize(messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        if len(messages) < 3:
            return None
        if way == "spend":
            context_usage.spend(took, dollars)
            return Compact("So far: greetings.", messages[-1:])
        return Compact("So far: greetings.", messages[-1:], took, dollars)

    spent = SessionSpend()
    agent = Agent(model=scripted_model(["One.", "Two."]), on_compact=summarize, session_spend=spent)
    await agent.prompt("hi")
    before, tokens = agent.state, spent.tokens
    assert await agent.compact() is False, "there is too little to summarize"
    assert (agent.state.cost, spent.tokens) == (before.cost, tokens)
    result = await agent.prompt("again")
    added = agent.state.usage.total_tokens - before.usage.total_tokens
    assert added == result.usage.total_tokens == 730 + 5
    assert (agent.state.cost or 0) - (before.cost or 0) == pytest.approx(0.25)
    assert spent.tokens - tokens == added
