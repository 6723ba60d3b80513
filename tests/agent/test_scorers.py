"""Scorers and cases as pytest parameters, without a workspace."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.loopback import Exchange, serving
from support.mapping import priced_model
from support.wire import CHAT_HELLO

from planck_nb import Agent, ai
from planck_nb.agent.scoring import function_scorer
from planck_nb.base.errors import UsageError
from planck_nb.testing import (
    Case,
    CaseAnswer,
    case_parameters,
    check_case,
    contains,
    cost_below,
    equals,
    json_equal,
    matches,
    scripted_model,
)


@pytest.mark.parametrize(
    ("scorer", "expected", "answer", "passed"),
    [
        (equals, "42", " 42\n", True),
        (equals, "42", "It is 42.", False),
        (equals, {"n": 1}, {"n": 1}, True),
        (contains, ["Two", "THREE"], "two and three", True),
        (contains, "four", "two and three", False),
        (matches, r"\d{4}", "in 1969", True),
        (matches, r"^\d{4}$", "in 1969", False),
        (json_equal, {"a": 1, "b": [2]}, '{"b": [2], "a": 1}', True),
        (json_equal, '{"a": 1}', "{'a': 1}", False),
        (json_equal, True, "1", False),
    ],
)
def test_scorers_compare_with_what_is_expected(scorer: Any, expected: Any, answer: Any, passed: bool) -> None:
    assert scorer(CaseAnswer(Case("x", expected=expected), answer)) is passed


def test_scorers_say_what_a_case_lacks() -> None:
    with pytest.raises(UsageError, match=r"The case 'x' has no `expected` to compare with."):
        equals(CaseAnswer(Case("x"), "y"))
    with pytest.raises(UsageError, match="`contains` needs a text or a list with texts as `expected`, not 5"):
        contains(CaseAnswer(Case("x", expected=5), "y"))
    with pytest.raises(UsageError, match="The price for acme:one is unknown"):
        cost_below(1)(CaseAnswer(Case("x"), "y", "acme:one"))
    with pytest.raises(UsageError, match="more than 0 US dollars, not -1"):
        cost_below(-1)


async def test_a_case_that_fails_names_its_scorers_and_the_answer() -> None:
    def two(answer: CaseAnswer) -> dict[str, object]:
        return {"good": True, "bad": 0}

    async with Agent(model=scripted_model(["It is 41."])) as agent:
        with pytest.raises(AssertionError) as raised:
            await check_case(agent, Case("6 times 7?", expected="42", name="product"), [contains, two])
    assert str(raised.value) == "product: contains: 0.0; two.bad: 0.0\nThe answer: It is 41."


async def hello(exchange: Exchange) -> None:
    await exchange.head()
    for chunk in CHAT_HELLO:
        await exchange.send(chunk)
    await exchange.end()


@pytest.mark.parametrize("case", case_parameters([{"input": "Greet me.", "expected": "hello", "name": "greeting"}]))
async def test_cases_need_no_key_with_a_cassette(case: Case, tmp_path: Path) -> None:
    async with serving(hello) as server:
        for mode in ("record", "replay"):
            cassette = ai.Cassette(tmp_path / "tape.jsonl", mode)
            async with (
                ai.Client(cassette=cassette) as client,
                Agent(model=priced_model(server.url), client=client) as agent,
            ):
                assert (await check_case(agent, case, [contains])).answer == "Hello"
        assert len(server.exchanges) == 1


def _at_least(least: int, answer: CaseAnswer) -> bool:
    return len(str(answer.answer)) >= least


def test_a_scorer_with_another_bound_argument_is_another_one() -> None:
    digests = [function_scorer("long", partial(_at_least, least)).digest for least in (1, 2, 1)]
    assert digests[0] == digests[2] != digests[1]
