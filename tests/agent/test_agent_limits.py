"""Limits: each ends a turn gently, with a sentence, and only a turn that would have gone on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from support.agents import Hold, calling, kinds, paired, said
from support.wire import CHAT, MESSAGES, chat_chunk, client, replying, sse

from planck_nb import Agent, ai
from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import (
    CHECKED_CHARACTERS,
    Limits,
    RunSpend,
    SessionSpend,
    TurnBudget,
    restored_limits,
)
from planck_nb.ai.messages import AssistantMessage, ToolCallPart, ToolResultPart, Usage
from planck_nb.ai.models import Model, Pricing
from planck_nb.base.errors import ConfigError, LimitError
from planck_nb.testing import Call, Reply, scripted_model

NONE = Limits(rounds=None, tokens=None, cost=None, seconds=None, session_tokens=None, session_cost=None)
LOOP = [Reply("word " * 5, calls=[Call("tick", {})])] * 100


def tick() -> str:
    return "tock"


def priced(script: Sequence[Reply | str], dollars: float = 1.0) -> Model:
    """A model that takes so much for each word it writes, and nothing for what it reads."""
    return replace(scripted_model(script), pricing=Pricing(input=0, output=dollars * 1_000_000))


async def spent(agent: Agent) -> tuple[list[AgentEvent], str, str]:
    """What a turn published, the name of the limit that ended it, and the sentence."""
    run = agent.prompt("go")
    result = await run
    told = [event async for event in run]
    reached = [event for event in told if event.type == "limit_reached"]
    assert kinds(told)[-2:] == ["limit_reached", "turn_end"]
    assert [event.reason for event in reached] == [result.limit]
    assert agent.status == "idle"
    assert paired([entry.message for entry in agent.state.messages])
    return told, reached[0].limit, result.limit


@pytest.mark.parametrize(
    ("limits", "name", "sentence"),
    [
        (replace(NONE, rounds=3), "rounds", "The turn has used up its 3 rounds"),
        (replace(NONE, tokens=40), "tokens", "The turn has only 18 of its 40 tokens left"),
        (replace(NONE, cost=12.5), "cost", "The turn has used up its 12.5 US dollars"),
        (replace(NONE, session_tokens=40), "session_tokens", "The session has only 18 of its 40 tokens left"),
        (replace(NONE, session_cost=12.5), "session_cost", "The session has used up its 12.5 US dollars"),
    ],
)
async def test_a_model_that_calls_for_ever_is_stopped(limits: Limits, name: str, sentence: str) -> None:
    agent = Agent(model=priced(LOOP), tools=[tick], limits=limits)
    _, reached, said_so = await spent(agent)
    assert reached == name
    assert said_so.startswith(sentence)
    assert f"`{name}`" in said_so
    rounds = sum(isinstance(entry.message, AssistantMessage) for entry in agent.state.messages)
    assert rounds in {2, 3}


async def test_time_is_a_limit() -> None:
    agent = Agent(model=scripted_model(LOOP, pace=0.002), tools=[tick], limits=replace(NONE, seconds=0.05))
    _, reached, sentence = await spent(agent)
    assert reached == "seconds"
    assert "0.05 seconds" in sentence


def test_a_budget_counts_the_seconds_of_its_clock() -> None:
    now = [100.0]
    budget = TurnBudget(replace(NONE, seconds=10), SessionSpend(), clock=lambda: now[0])
    model = scripted_model([])
    assert budget.reached_limit(model) is None
    now[0] = 109.9
    assert budget.reached_limit(model) is None
    now[0] = 110.0
    assert (budget.reached_limit(model) or ("",))[0] == "seconds"


async def test_a_turn_ends_in_time_though_the_model_is_silent() -> None:
    agent = Agent(model=scripted_model(["one two"], pace=60), limits=replace(NONE, seconds=0.05))
    events = [event async for event in agent.prompt("go on")]
    assert [event.limit for event in events if event.type == "limit_reached"] == ["seconds"]
    assert events[-1].type == "turn_end"
    assert agent.status == "idle"


@pytest.mark.one_process
async def test_a_turn_ends_in_time_though_a_tool_runs() -> None:
    hold = Hold()
    agent = Agent(
        model=scripted_model([*calling(("hold", {})), "never said"]),
        tools=[hold.hold],
        limits=replace(NONE, seconds=0.05),
    )
    result = await agent.prompt("go on")
    assert "0.05 seconds" in result.limit
    assert not result.aborted
    (answered,) = [message for message in result.messages if message.type == "tool_result"]
    assert [part.text for part in answered.content] == [STOPPED]


@pytest.mark.parametrize("bound", [-1, float("nan"), "3"])
def test_an_invalid_limit_is_refused(bound: object) -> None:
    with pytest.raises(ConfigError, match="`rounds` must be 0 or more, or None for no limit, not"):
        Limits(rounds=bound)  # type: ignore[arg-type]


async def test_there_are_limits_by_default() -> None:
    agent = Agent(model=scripted_model(LOOP), tools=[tick])
    await spent(agent)
    rounds = sum(isinstance(entry.message, AssistantMessage) for entry in agent.state.messages)
    assert rounds == Limits().rounds == 50
    assert all(bound is not None for bound in (Limits().tokens, Limits().cost, Limits().seconds))


async def test_a_turn_that_is_over_is_not_called_cut() -> None:
    agent = Agent(model=scripted_model(["the whole answer"]), limits=replace(NONE, rounds=1, tokens=1))
    run = agent.prompt("go")
    assert (await run).limit == ""
    assert "limit_reached" not in kinds([event async for event in run])


@pytest.mark.one_process
async def test_a_budget_that_is_crossed_mid_stream_cuts_the_reply_and_keeps_it() -> None:
    agent = Agent(model=scripted_model(["word " * 2_000], pace=1e-6), limits=replace(NONE, tokens=300))
    told, reached, _ = await spent(agent)
    assert reached == "tokens"
    (reply,) = [message for entry in agent.state.messages if isinstance(message := entry.message, AssistantMessage)]
    assert reply.stop_reason == "length"
    assert 300 * 4 <= len(reply.text) <= 300 * 4 + 2 * CHECKED_CHARACTERS
    assert told[-1].type == "turn_end"
    assert told[-1].message == reply


async def test_a_cut_reply_is_called_cut_whatever_its_provider_has_counted_so_far() -> None:
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word " * 100}}
            for _ in range(20)
        ],
    ]
    chunks = [b"event: %s\n%s" % (str(item["type"]).encode(), one) for item in events for one in sse(item)]
    agent = Agent(model=MESSAGES, client=client(replying(chunks)), limits=replace(NONE, tokens=500))
    _, reached, _ = await spent(agent)
    assert reached == "tokens"
    (reply,) = [message for entry in agent.state.messages if isinstance(message := entry.message, AssistantMessage)]
    assert reply.stop_reason == "length"
    assert len(reply.text) < 5_000


async def test_calls_that_were_being_written_are_not_run() -> None:
    ran: list[str] = []

    def note(text: str) -> None:
        ran.append(text)

    script = [Reply("I write.", calls=[Call("note", {"text": "word " * 2_000})])]
    agent = Agent(model=scripted_model(script, pace=1e-6), tools=[note], limits=replace(NONE, tokens=200))
    await spent(agent)
    assert not ran
    assert said(agent) == ["user: go", "assistant: I write."]


async def test_a_reply_that_was_cut_before_its_first_word_is_counted() -> None:
    session_spend = SessionSpend()
    script = [Reply(calls=[Call("note", {"text": "word " * 2_000})])]
    agent = Agent(
        model=scripted_model(script, pace=1e-6), limits=replace(NONE, tokens=200), session_spend=session_spend
    )
    await spent(agent)
    assert said(agent) == ["user: go"]
    assert session_spend.tokens >= 200


async def test_a_session_without_budget_says_so_before_asking_the_model() -> None:
    session_spend = SessionSpend(tokens=100)
    agent = Agent(model=scripted_model(["hi"]), limits=replace(NONE, session_tokens=100), session_spend=session_spend)
    run = agent.prompt("go")
    with pytest.raises(LimitError, match=r"The session has used up its 100 tokens; raise `session_tokens`"):
        await run
    assert [event async for event in run][-1].type == "error"
    assert said(agent) == ["user: go"]
    agent.limits = replace(NONE, session_tokens=1_000)
    assert (await agent.prompt("again")).text == "hi"


async def test_agents_of_a_session_share_its_spend() -> None:
    session_spend, limits = SessionSpend(), replace(NONE, session_cost=8.0)
    first = Agent(model=priced(["one two three four five"]), limits=limits, session_spend=session_spend)
    second = Agent(model=priced(LOOP), tools=[tick], limits=limits, session_spend=session_spend)
    await first.prompt("go")
    assert session_spend.cost == 5.0
    _, reached, _ = await spent(second)
    assert reached == "session_cost"
    assert session_spend.cost == 5.0 + 7.0
    with pytest.raises(LimitError, match="session_cost"):
        await first.prompt("more")


async def test_steering_becomes_the_next_prompt_if_a_limit_ends_the_turn() -> None:
    hold = Hold()
    agent = Agent(
        model=scripted_model(calling(("hold", {}), then="steered")), tools=[hold.hold], limits=replace(NONE, rounds=1)
    )
    run = agent.prompt("go")
    await hold.entered.wait()
    steer = agent.steer("left")
    hold.release()
    assert "rounds" in (await run).limit
    result = await steer
    assert (result.text, result.limit) == ("steered", "")
    assert agent.state.turn == 1


async def test_each_turn_has_its_budget() -> None:
    agent = Agent(model=scripted_model(LOOP), tools=[tick], limits=replace(NONE, rounds=2))
    for turn in range(3):
        await spent(agent)
        assert agent.state.turn == turn


async def test_limits_that_change_hold_from_the_next_turn_on() -> None:
    agent = Agent(model=scripted_model(LOOP), tools=[tick], limits=replace(NONE, rounds=1))
    await spent(agent)
    agent.limits = replace(NONE, rounds=4)
    await spent(agent)
    assert sum(isinstance(entry.message, AssistantMessage) for entry in agent.state.messages) == 5


def test_what_is_streamed_is_estimated_until_the_reply_is_counted() -> None:
    session_spend = SessionSpend()
    budget = TurnBudget(replace(NONE, tokens=100), session_spend)
    model = priced([])
    assert not budget.count_streamed(CHECKED_CHARACTERS - 1, model)
    assert budget.count_streamed(1, model)
    counted = TurnBudget(NONE, session_spend)
    counted.count_streamed(4_000, model)
    counted.spend(7, 0.5)
    counted.end_reply()
    assert (session_spend.tokens, session_spend.cost) == (7, 0.5)
    assert counted.reached_limit(model) is None


@pytest.mark.parametrize("characters", [0, 10])
def test_usage_is_checked_as_soon_as_it_is_reported(characters: int) -> None:
    budget, model = TurnBudget(replace(NONE, tokens=100), SessionSpend()), priced([])
    # Together with characters it is checked with the next 400 of them.
    assert budget.count_streamed(characters, model, Usage(150, 0)) is (characters == 0)
    assert not budget.count_streamed(0, model, Usage(160, 0))
    assert budget.count_streamed(CHECKED_CHARACTERS, model, Usage(160, 0))


async def test_a_server_that_reports_no_usage_does_not_escape_the_limits() -> None:
    chunks = sse(chat_chunk({"content": "Hello."}), chat_chunk({}, "stop"), "[DONE]")
    agent = Agent(model=CHAT, client=client(replying(chunks)), limits=replace(NONE, session_tokens=5_500))
    await agent.prompt("word " * 1_000)
    await agent.prompt("word " * 1_000)
    with pytest.raises(LimitError, match="session"):
        await agent.prompt("word " * 1_000)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (replace(NONE, tokens=2_000_000), "its 2,000,000 tokens;"),
        (replace(NONE, session_tokens=1_234_567), "its 1,234,567 tokens;"),
        (replace(NONE, session_cost=2_500_000.0), "its 2,500,000 US dollars;"),
        (replace(NONE, cost=0.00005), "its 0.00005 US dollars;"),
    ],
)
def test_a_limit_is_named_in_plain_digits(limits: Limits, words: str) -> None:
    budget = TurnBudget(limits, SessionSpend())
    budget.spend(3_000_000, 3_000_000.0)
    reached = budget.reached_limit(scripted_model([]))
    assert reached is not None
    assert words in reached[1]


def test_a_reply_that_broke_off_is_not_counted_again_with_the_next_one() -> None:
    budget, model = TurnBudget(replace(NONE, tokens=2_500), SessionSpend()), scripted_model([])
    budget.start_request(Usage(500))
    assert not budget.count_streamed(4_000, model, Usage(500))
    budget.spend(1_500, 0.0)  # it broke off and nothing of it is kept
    budget.start_request(Usage(500))
    assert not budget.count_streamed(CHECKED_CHARACTERS, model)
    assert budget.reached_limit(model) is None


async def test_a_reply_that_was_aborted_is_counted() -> None:
    session_spend = SessionSpend()
    agent = Agent(model=scripted_model(["word " * 2_000], pace=0.0001), session_spend=session_spend)
    run = agent.prompt("go")
    async for event in run:
        if event.type == "text_delta" and event.seq > 300:
            run.abort()
    await run
    assert session_spend.tokens > 0


def test_a_run_without_limits_goes_on() -> None:
    run = RunSpend(NONE)
    run.spend(10**9, 1e9)
    assert run.reached_limit() is None
    assert run.crossed_by(Usage(10**9), priced([])) is None
    assert run.seconds_left is None
    limited = RunSpend(replace(NONE, tokens=10, cost=1.0), outer=RunSpend(replace(NONE, tokens=5)))
    model = priced([])
    assert limited.crossed_by(Usage(5), model) is None
    assert (limited.crossed_by(Usage(6), model) or ("",))[0] == "tokens"
    assert (limited.crossed_by(Usage(0, 2), model) or ("",))[0] == "cost"
    limited.spend(5, 0.0)
    assert (limited.reached_limit() or ("",))[0] == "tokens"


def test_repeated_calls_without_a_limit_are_not_counted() -> None:
    budget = TurnBudget(replace(NONE, repeated_calls=None), SessionSpend())
    call, result = ToolCallPart("1", "tick", {}), ToolResultPart("1", "tick", "tock")
    assert [budget.count_call(call, result) for _ in range(60)] == [0] * 60
    counted = TurnBudget(replace(NONE, repeated_calls=3), SessionSpend())
    assert [counted.count_call(call, result) for _ in range(6)] == [0, 0, 3, 0, 0, 6]


def test_the_limit_of_rounds_is_named() -> None:
    budget = TurnBudget(replace(NONE, rounds=2), SessionSpend())
    model = priced([])
    found = []
    for _ in range(2):
        budget.end_reply()
        found.append(budget.reached_limit(model))
    assert found[0] is None
    assert found[1] is not None
    assert found[1][0] == "rounds"
    assert "2 rounds" in found[1][1]


@pytest.mark.parametrize(
    ("bound", "words"), [(0.1, "its 0.1 US"), (2.0, "its 2 US"), (1234.5, "its 1,234.5 US"), (100, "its 100 US")]
)
def test_amounts_are_written_without_needless_zeros(bound: float, words: str) -> None:
    run = RunSpend(replace(NONE, cost=bound))
    run.spend(0, bound)
    assert words in (run.reached_limit() or ("", ""))[1]


GROQ, OPENROUTER = ai.get_model("groq:any-model"), ai.get_model("openrouter:any/model")


def answering(usage: Mapping[str, object] | None, text: str = "Hello.") -> ai.Client:
    """A client whose server answers each request with this text and usage."""
    end = [{"choices": [], "usage": usage}] if usage else []
    transport = replying(sse(chat_chunk({"content": text}), chat_chunk({}, "stop"), *end, "[DONE]"))
    keys = {"GROQ_API_KEY": "gsk_1", "OPENROUTER_API_KEY": "sk-or-1", "OPENAI_API_KEY": "sk-open-1"}
    return ai.Client(transport=transport, credentials=keys, retries=ai.RetryPolicy(retries=0))


async def warnings_of(agent: Agent, prompts: int = 2) -> list[str]:
    """The sentences that some prompts publish."""
    found = []
    for _ in range(prompts):
        run = agent.prompt("go")
        found += [event.text async for event in run if event.type == "warning"]
    return found


COUNTED = {"prompt_tokens": 400, "completion_tokens": 100, "total_tokens": 500}


async def test_a_model_without_a_price_is_named_once_under_the_usual_limits() -> None:
    agent = Agent(model=GROQ, client=answering(COUNTED))
    (warning,) = await warnings_of(agent)
    assert warning == (
        "The price of groq:any-model is not known, so the limit of 5 US dollars does not hold for it; limit its "
        "`tokens`, or say what it costs with `unknown_price` in the limits."
    )
    assert await warnings_of(Agent(model=GROQ, client=answering(COUNTED), limits=Limits(unknown_price=0))) == []
    assert await warnings_of(Agent(model=GROQ, client=answering(COUNTED), limits=NONE)) == []
    assert await warnings_of(Agent(model=CHAT, client=answering(COUNTED))) == []  # on this machine


@pytest.mark.parametrize("limits", [Limits(cost=2.0), Limits(session_cost=2.0)])
async def test_a_limit_of_cost_that_was_set_by_hand_refuses_a_model_without_a_price(limits: Limits) -> None:
    with pytest.raises(LimitError, match="The price of groq:any-model is not known, so its limit of 2 US dollars"):
        await Agent(model=GROQ, client=answering(COUNTED), limits=limits).prompt("go")


async def test_tokens_without_a_price_count_as_the_limits_say() -> None:
    limits = Limits(session_cost=2.0, unknown_price=3_000.0)
    agent = Agent(model=GROQ, client=answering(COUNTED), limits=limits)
    assert (await agent.prompt("go")).cost is None  # 500 tokens count as $1.50
    with pytest.raises(LimitError, match=r"has only \$0.5000 of its 2 US dollars left"):
        await agent.prompt("go")


async def test_a_team_run_refuses_a_model_without_a_price() -> None:
    outer = RunSpend(Limits(cost=2.0))
    budget = TurnBudget(Limits(), SessionSpend(), run_spend=RunSpend(Limits(), outer=outer))
    assert (budget.crossed_by(Usage(1), GROQ) or ("",))[0] == "cost"
    assert budget.crossed_by(Usage(1), CHAT) is None


async def test_what_a_server_says_that_a_reply_costs_counts() -> None:
    agent = Agent(model=OPENROUTER, client=answering({**COUNTED, "cost": 0.75}), limits=Limits(session_cost=1.0))
    assert (await agent.prompt("go")).cost == 0.75
    assert await warnings_of(agent, 1) == []
    with pytest.raises(LimitError, match="The session has used up its 1 US dollars"):
        await agent.prompt("go")


async def test_a_server_that_stops_to_report_costs_is_refused_from_the_next_request_on() -> None:
    agent = Agent(model=OPENROUTER, client=answering(COUNTED), limits=Limits(session_cost=1.0))
    assert len(await warnings_of(agent, 1)) == 1
    with pytest.raises(LimitError, match="The price of openrouter:any/model is not known"):
        await agent.prompt("go")


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}])
async def test_a_server_that_counts_nothing_is_named_once(usage: Mapping[str, object] | None) -> None:
    agent = Agent(model=GROQ, client=answering(usage), limits=Limits(unknown_price=0))
    assert await warnings_of(agent) == [
        "groq:any-model did not say how many tokens it read and wrote, so the limits count an estimate."
    ]
    assert agent.state.usage.total_tokens > 0


def test_somebody_elses_session_cannot_say_that_a_model_is_free() -> None:
    stored = {"unknown_price": 0, "cost": 1.0}
    assert restored_limits(stored, Limits(), trusted=False) == Limits(cost=1.0)
    assert restored_limits(stored, Limits(), trusted=True) == Limits(cost=1.0, unknown_price=0)
