"""`Workspace.evaluate`: cases, models and scorers, with every failure a row."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.loopback import Exchange, serving
from support.mapping import priced_model
from support.wire import CHAT_HELLO, chat_chunk, sse

from planck_nb import Config, Tool, Workspace
from planck_nb.ai.models import Model
from planck_nb.base.errors import LimitError, ModelError, UsageError
from planck_nb.base.secrets import remember_secret
from planck_nb.testing import Call, Case, CaseAnswer, Reply, called_tool, contains, equals, scripted_model

CASES = [
    {"input": "6 times 7?", "expected": "42", "name": "product"},
    {"input": "40 plus 2?", "expected": "42", "metadata": {"level": 1}},
]
ANSWER = scripted_model(["It is 42."])
VERDICT = scripted_model(['{"passed": true, "reason": "It says 42."}'])


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)) as opened:
        yield opened


async def hello(exchange: Exchange) -> None:
    await exchange.head()
    for chunk in CHAT_HELLO:
        await exchange.send(chunk)
    await exchange.end()


def models_at(url: str, count: int) -> list[Model]:
    return [replace(priced_model(url), id=f"model-{number}") for number in range(count)]


async def test_every_kind_of_scorer_gives_rows(workspace: Workspace) -> None:
    def length(answer: CaseAnswer) -> dict[str, object]:
        return {"characters": len(answer.answer), "is short": len(answer.answer) < 20}

    async def level(answer: CaseAnswer) -> int:
        return int(answer.case.metadata.get("level", 0)) + answer.repetition

    judge = workspace.add_agent("judge", model=VERDICT, system_prompt="Be strict.")
    run = await workspace.evaluate(None, CASES, [contains, length, level, judge], models=ANSWER, repeat=2)
    frame = await run.frame()
    rows = frame[frame["repetition"] == 2].set_index(["case_name", "scorer"]).score
    assert rows.to_dict() == {
        ("product", "contains"): 1.0,
        ("product", "judge"): 1.0,
        ("product", "length.characters"): 9.0,
        ("product", "length.is short"): 1.0,
        ("product", "level"): 2.0,
        ("2", "contains"): 1.0,
        ("2", "judge"): 1.0,
        ("2", "length.characters"): 9.0,
        ("2", "length.is short"): 1.0,
        ("2", "level"): 3.0,
    }
    assert frame["case_name"].tolist() == ["product"] * 10 + ["2"] * 10
    assert frame[frame["scorer"] == "judge"].reason.tolist() == ["It says 42."] * 4
    assert (await workspace.query_async("select distinct metadata->>'level' as x from scores")).x.dropna().tolist() == [
        "1"
    ]
    assert judge.state.turn == -1
    assert set(workspace.agents) == {"judge"}


def _by_scorer(rates: pd.DataFrame) -> Any:
    return rates.set_index(["scorer", "case_name"])


async def _hangs(answer: CaseAnswer) -> bool:
    await asyncio.Event().wait()
    return True


def _raises(answer: CaseAnswer) -> bool:
    raise ValueError("the ruler broke")


async def _exits(answer: CaseAnswer) -> bool:
    raise SystemExit(3)


async def _cancels(answer: CaseAnswer) -> bool:
    raise asyncio.CancelledError


async def _times_out(answer: CaseAnswer) -> bool:
    raise TimeoutError("no answer from the dictionary")


@pytest.mark.parametrize(
    ("scorer", "error"),
    [
        (_raises, "ValueError: the ruler broke"),
        (_times_out, "TimeoutError: no answer from the dictionary"),
        (_hangs, "It took longer than 0.2 s."),
        (_exits, "SystemExit: 3"),
        (_cancels, "CancelledError"),
        (lambda answer: math.nan, "It returned nan; return a finite number."),
        (lambda answer: 10**400, "It returned inf; return a finite number."),
        (lambda answer: "good", "It returned str ('good'); return a bool, int or float."),
        (lambda answer: {}, "It returned an empty mapping; return a verdict or a number for each name."),
        (lambda answer: dict.fromkeys(range(1001), 1), "It returned 1,001 scores; return at most 1,000 by name."),
    ],
)
async def test_a_scorer_that_fails_is_one_row_and_no_more(workspace: Workspace, scorer: Any, error: str) -> None:
    scorers = {"bad": scorer, "contains": contains}
    run = await workspace.evaluate(None, CASES[:1], scorers, models=ANSWER, scorer_seconds=0.2)
    rows = (await run.frame()).astype(object).where(lambda frame: frame.notna(), None)
    assert rows[["scorer", "score", "error"]].to_numpy().tolist() == [["bad", None, error], ["contains", 1.0, None]]
    rates = _by_scorer(await run.rates())
    assert rates.loc[("bad", "product"), ["answers", "errors"]].tolist() == [0, 1]


async def test_a_scorer_cannot_prompt_the_agent_under_evaluation(workspace: Workspace) -> None:
    ann = workspace.add_agent("ann", model=ANSWER)

    async def asks(answer: CaseAnswer) -> bool:
        return bool(await ann.prompt("Is it good?"))

    run = await workspace.evaluate("ann", CASES[:1], [asks])
    assert (await run.frame()).error.tolist() == [
        "A scorer cannot prompt ann, whose answers it scores; let another agent judge."
    ]
    assert ann.state.messages == ()
    with pytest.raises(UsageError, match="The agent ann cannot judge its own answers; let another agent judge"):
        workspace.evaluate("ann", CASES, [ann])


async def test_the_same_call_again_asks_and_scores_only_the_rest(workspace: Workspace) -> None:
    async with serving(hello) as server:
        scored: list[str] = []

        def polite(answer: CaseAnswer) -> bool:
            scored.append(answer.case.name)
            return True

        def evaluate(scorers: list[Any], **options: Any) -> Any:
            return workspace.evaluate(None, CASES, scorers, models=models_at(server.url, 2), **options)

        first = await evaluate([polite])
        assert (len(server.exchanges), len(scored)) == (4, 4)
        again = await evaluate([polite])
        assert (len(server.exchanges), len(scored), again.answers) == (4, 4, 4)
        pd.testing.assert_frame_equal(await first.frame(), await again.frame())
        more = await evaluate([polite, equals], repeat=2)
        assert (len(server.exchanges), len(scored)) == (8, 8)
        assert len(await more.frame()) == 16
        assert more.id == first.id
        other = await evaluate([polite], name="monday")
        assert (len(server.exchanges), len(scored)) == (12, 12)
    rows = await workspace.query_async("select name, repeat, answers, cases from evaluations order by started")
    assert rows.to_numpy().tolist() == [["evaluation", 2, 8, 2], ["monday", 1, 4, 2]]
    assert other.id != first.id


async def test_a_case_without_an_answer_is_a_row_and_is_asked_again(workspace: Workspace) -> None:
    workspace.add_agent("ann", model=scripted_model([{"error": "The server is on fire."}, "42"]))
    run = await workspace.evaluate("ann", CASES[:1], [contains])
    [error] = (await run.frame()).error
    assert error.startswith("There is no answer: ")
    assert (run.failed, run.answers) == (1, 0)
    again = await workspace.evaluate("ann", CASES[:1], [contains])
    assert len(await again.frame()) == 1


async def verdict(exchange: Exchange) -> None:
    if "Judge the answer" not in json.dumps(exchange.body):
        await hello(exchange)
        return
    chunks = sse(
        chat_chunk({"role": "assistant", "content": '{"passed": true, "reason": "ok"}'}),
        chat_chunk({}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 15, "completion_tokens": 5}},
        "[DONE]",
    )
    await exchange.head()
    for chunk in chunks:
        await exchange.send(chunk)
    await exchange.end()


async def test_a_limit_of_cost_counts_the_answers_of_a_map_that_has_ended(workspace: Workspace) -> None:
    async def after_the_map(answer: CaseAnswer) -> bool:
        assert run._map is not None
        await run._map.wait()
        return True

    async with serving(verdict) as server:
        judge = workspace.add_agent("judge", model=priced_model(server.url))
        cases = [Case(f"Prompt {number}") for number in range(6)]
        scorers = [after_the_map, judge]
        run = workspace.evaluate(
            None, cases, scorers, models=models_at(server.url, 1), cost=6 * 7e-6 + 40e-6, concurrency=2
        )
        await run
        assert len(server.exchanges) <= 6 + 3  # two verdicts, and one in flight meanwhile


async def test_a_limit_of_cost_holds_over_models_and_judges(workspace: Workspace) -> None:
    async with serving(verdict) as server:
        judge = workspace.add_agent("judge", model=priced_model(server.url))
        cases = [Case(f"Prompt {number}") for number in range(6)]

        def evaluate(cost: float) -> Any:
            return workspace.evaluate(None, cases, [judge], models=models_at(server.url, 8), cost=cost, concurrency=2)

        run = await evaluate(200e-6)  # 7 tokens an answer, 20 a verdict
        assert 200e-6 <= run.cost + run.judge_cost <= 200e-6 + 2 * 27e-6
        spent = (await workspace.query_async("select sum(cost_usd) as x from charges")).x[0]
        assert run.cost + run.judge_cost == pytest.approx(spent)
        assert run.limit.startswith("The evaluation has used up its 0.0002 US dollars")
        count = len(server.exchanges)
        assert (await evaluate(200e-6)).limit
        assert len(server.exchanges) == count
        whole = await evaluate(1)
        assert not whole.limit
        assert len(server.exchanges) == 8 * 6 * 2
        assert len(await whole.frame()) == 48
    [row] = (await workspace.query_async("select cost_usd, judge_cost_usd from evaluations")).to_numpy().tolist()
    assert row == pytest.approx([48 * 7e-6, 48 * 20e-6])
    unpriced = replace(priced_model("https://example.org"), pricing=None)
    with pytest.raises(LimitError, match="so `cost` cannot hold"):
        await workspace.evaluate(None, cases, [equals], models=unpriced, cost=1)


async def test_calls_to_tools_are_scored(workspace: Workspace) -> None:
    look = Tool(name="look", description="Look.", execute_fn=lambda args: "a sea")
    model = scripted_model([Reply(calls=[Call("look", {"where": "north", "far": True})]), "A sea."])
    workspace.add_agent("ann", model=model, tools=[look])
    scorers = [called_tool("look", where="north"), called_tool("look", where="south"), called_tool("listen")]
    frame = await (await workspace.evaluate("ann", [{"input": "Look north."}], scorers)).frame()
    assert frame.score.tolist() == [0.0, 1.0, 0.0]
    assert frame.scorer.tolist() == [
        "called_tool(listen)",
        *(f"called_tool(look, where='{x}')" for x in ("north", "south")),
    ]


async def test_twice_by_a_cassette_gives_the_same_rows(tmp_path: Path) -> None:
    count = 0

    async def counting(exchange: Exchange) -> None:
        nonlocal count
        count += 1
        await exchange.head()
        text = json.dumps({"passed": count % 2 == 0, "reason": f"Number {count}."})
        for chunk in sse(chat_chunk({"content": text}), chat_chunk({}, "stop"), "[DONE]"):
            await exchange.send(chunk)
        await exchange.end()

    async def evaluate(folder: str, mode: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        place = tmp_path / folder
        place.mkdir()
        config = Config.load(
            environment={}, directory=place, home=place, cassette=str(tmp_path / "tape.jsonl"), cassette_mode=mode
        )
        async with Workspace(config) as workspace:
            judge = workspace.add_agent("judge", model=models_at(server.url, 3)[2])
            models = models_at(server.url, 2)
            run = await workspace.evaluate(None, CASES, [judge, contains], models=models, repeat=4)
            return (await run.frame()).drop(columns="seconds"), await run.rates()

    async with serving(counting) as server:
        rows, rates = await evaluate("first", "record")
    assert rows.answer.nunique() == 16
    for folder in ("second", "third"):
        again, rates_again = await evaluate(folder, "replay")
        pd.testing.assert_frame_equal(again, rows)
        pd.testing.assert_frame_equal(rates_again, rates)
    assert count == 32


async def test_rates_have_intervals_in_which_each_case_counts_once(workspace: Workspace) -> None:
    def first(answer: CaseAnswer) -> bool:
        return answer.case.name != "10" and answer.repetition <= 2

    def points(answer: CaseAnswer) -> float:
        return float(answer.case.name)

    cases = [Case(f"Prompt {number}") for number in range(10)]
    run = await workspace.evaluate(None, cases, {"first": first, "points": points}, models=ANSWER, repeat=4)
    rates = _by_scorer(await run.rates())
    columns = ["answers", "passed", "mean", "low", "high"]
    # Wilson's intervals for 0 and 2 of 4, and for the mean of 9 halves and a zero over 10 cases.
    assert rates.loc[("first", "10"), columns].tolist() == pytest.approx([4, 0, 0, 0, 0.4899], abs=1e-4)
    assert rates.loc[("first", "1"), columns].tolist() == pytest.approx([4, 2, 0.5, 0.1500, 0.8500], abs=1e-4)
    total = rates.loc["first"]
    total = total[total.index.isna()]
    assert total[columns].to_numpy()[0].tolist() == pytest.approx([40, 18, 0.45, 0.2014, 0.7263], abs=1e-4)
    total = rates.loc["points"]
    [low, mean, high] = total[total.index.isna()][["low", "mean", "high"]].to_numpy()[0].tolist()
    assert mean == 5.5
    assert 3.4 < low < 4.2
    assert 6.8 < high < 7.6
    assert rates.loc[("points", "3"), "interval"] == "bootstrap"


async def test_stop_keeps_answers_and_scores(workspace: Workspace) -> None:
    waiting = asyncio.Event()

    async def waits(answer: CaseAnswer) -> bool:
        if answer.case.name == "2":
            waiting.set()
            await asyncio.Event().wait()
        return True

    run = workspace.evaluate(None, CASES, [contains, waits], models=ANSWER)
    await waiting.wait()
    run.stop()
    await run
    assert run.stopped
    rows = (await run.frame())[["case_name", "scorer"]].to_numpy().tolist()
    assert ["product", "contains"] in rows
    assert ["2", "waits"] not in rows


async def test_nothing_is_scored_after_a_stop(workspace: Workspace) -> None:
    third_asked = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        if len(server.exchanges) == 3:
            third_asked.set()
        await hello(exchange)

    async with serving(answer) as server:
        begun: list[str] = []

        async def stops(answer: CaseAnswer) -> bool:
            begun.append(answer.case.name)
            if len(begun) == 1:
                await third_asked.wait()  # the second case has its answer
                run.stop()
            return True

        run = workspace.evaluate(None, [*CASES, *CASES[1:]], [stops], models=priced_model(server.url), concurrency=1)
        await run
        assert begun == ["product"]


async def test_cancelling_the_await_ends_everything(workspace: Workspace) -> None:
    waiting = asyncio.Event()

    async def waits(answer: CaseAnswer) -> bool:
        waiting.set()
        await asyncio.Event().wait()
        return True

    run = workspace.evaluate(None, CASES, [waits], models=ANSWER)
    task = asyncio.ensure_future(run)
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.done
    assert [t for t in asyncio.all_tasks() if "_score" in str(t.get_coro())] == []


def _raising() -> Iterator[dict[str, str]]:
    yield from ({"input": str(number)} for number in range(69))
    raise OSError("the disk has gone")


@pytest.mark.parametrize(
    ("cases", "scorers", "options", "sentence"),
    [
        (_raising(), [equals], {}, "The cases could not be read at case 70 (OSError: the disk has gone)"),
        (pd.DataFrame({"input": ["x", math.nan]}), [equals], {}, "Case 2 has no `input`"),
        ([], [equals], {}, "There are no cases"),
        ("6 times 7?", [equals], {}, "`cases` must be a list with cases"),
        ([{"prompt": "x"}], [equals], {}, "Case 1 has an unknown field 'prompt'."),
        ([{"expected": "x"}], [equals], {}, "Case 1 has no `input`"),
        ([{"input": " "}], [equals], {}, "Case 1 has no text as its `input`"),
        ([{"input": "x", "metadata": 1}], [equals], {}, "Case 1 has int as `metadata`"),
        ([{"input": "x", "name": "a"}, {"input": "y", "name": "a"}], [equals], {}, "Cases 1 and 2 are both named 'a'"),
        ([{"input": "x", "expected": object()}], [equals], {}, "Case 1 has an `expected` or `metadata` beyond JSON"),
        ([{"input": "x", "expected": "s3cret-s3cret-s3cret"}], [equals], {}, "Case 1 contains a secret"),
        (CASES, [], {}, "There are no scorers"),
        (CASES, equals, {}, "`scorers` must be a list with functions"),
        (CASES, [equals, equals], {}, "Several scorers are named equals"),
        (CASES, [lambda answer: True], {}, "Scorer 1 has no name"),
        (CASES, {"x": 1}, {}, "The scorer x is int"),
        (CASES, [equals], {"repeat": 0}, "`repeat` must be a whole number from 1"),
        (CASES, [equals], {"concurrency": 0}, "`concurrency` must be"),
        (CASES, [equals], {"cost": -1}, "`cost` must be 0 or more"),
        (CASES, [equals], {"scorer_seconds": 0}, "`scorer_seconds` must be more than 0"),
        (CASES, [equals], {"models": [ANSWER, ANSWER]}, "The model demo:script is there twice"),
        (CASES, [equals], {"task": 5}, "`task` must be an agent, its name or None"),
    ],
)
async def test_arguments_that_cannot_be_used_are_refused_at_once(
    workspace: Workspace, cases: Any, scorers: Any, options: dict[str, Any], sentence: str
) -> None:
    remember_secret("s3cret-s3cret-s3cret", "TEST_KEY")
    task = options.pop("task", None)
    with pytest.raises(UsageError) as raised:
        workspace.evaluate(task, cases, scorers, **options)
    assert str(raised.value).startswith(sentence)
    assert workspace.sessions() == []


async def test_an_unknown_model_is_named(workspace: Workspace) -> None:
    with pytest.raises(ModelError, match="nosuch"):
        workspace.evaluate(None, CASES, [equals], models=["nosuch:model"])


async def test_a_frame_has_cases(workspace: Workspace) -> None:
    frame = pd.DataFrame({"input": ["6 times 7?", "And 8?"], "expected": ["42", math.nan], "name": ["product", None]})
    run = await workspace.evaluate(None, frame, [contains], models=ANSWER)
    rows = await run.frame()
    assert rows.case_name.tolist() == ["product", "2"]
    assert rows.error.tolist()[1] == "The case '2' has no `expected` to compare with."


async def test_a_case_with_ten_megabytes_is_scored_like_others(workspace: Workspace) -> None:
    run = await workspace.evaluate(
        None, [Case("word " * 2_000_000, "42"), Case("short", "42")], [contains], models=ANSWER
    )
    assert (await run.frame()).score.tolist() == [1.0, 1.0]


async def test_a_secret_in_a_case_is_not_asked(workspace: Workspace) -> None:
    remember_secret("s3cret-s3cret-s3cret", "TEST_KEY")
    with pytest.raises(UsageError, match="Item 1 contains a secret"):
        await workspace.evaluate(None, [Case("sent s3cret-s3cret-s3cret")], [equals], models=ANSWER)
    assert len(await workspace.query_async("from map_items")) == 0
