"""Agents that keep handing the same work to one another: their run ends in a sentence, long before its budget does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from support.teams import HandMade, Script, call, results, team_from

from planck_nb import Limits
from planck_nb.testing import Reply

MANY = 400


def ask(name: str, question: str = "?") -> Reply:
    return call("ask_agent", agent_id=name, question=question)


def delegate(name: str, task: str = "?") -> Reply:
    return call("delegate_task", agent_id=name, task=task)


def always(*replies: Any) -> Script:
    return [*replies] * MANY


Circle = tuple[dict[str, Sequence[Any]], str, int]

CIRCLES: dict[str, Circle] = {
    "two that ask each other": (
        {"lead": always(ask("ben")), "ben": always(ask("lead"))},
        "ben called ask_agent 10 times for an answer that cannot come (lead waits for ben), so the run was ended;",
        20,
    ),
    "in other words each time": (
        {"lead": [ask("ben", f"{n}?") for n in range(MANY)], "ben": [ask("lead", f"{n}?") for n in range(MANY)]},
        "ben called ask_agent 10 times for an answer that cannot come (lead waits for ben), so the run was ended;",
        20,
    ),
    "a circle of three": (
        {"lead": always(ask("ben")), "ben": always(ask("cem")), "cem": always(ask("lead"))},
        "cem called ask_agent 10 times for an answer that cannot come (lead waits for ben, and ben waits for cem), so",
        20,
    ),
    "two workers that ask in both directions": (
        {
            "lead": always(ask("ben")),
            "ben": always(ask("cem")),
            "cem": [ask(("lead", "ben")[n % 2], f"{n}?") for n in range(MANY)],
        },
        "cem called ask_agent 10 times for an answer that cannot come (",
        20,
    ),
    "tasks within tasks": (
        {"lead": always(delegate("ben"), "I wait."), "ben": always(delegate("lead"), "I wait.")},
        "ben gave lead the same task 50 times and got the same response, so the run was ended;",
        250,
    ),
    "tasks without an end of the turn": (
        {"lead": always(delegate("ben")), "ben": always(delegate("lead"))},
        "times for an answer that cannot come (",
        60,
    ),
    "questions that lead to tasks": (
        {"lead": always(ask("ben")), "ben": always(delegate("lead"), "I wait.")},
        "lead gave ben the same task 50 times and got the same response, so the run was ended;",
        250,
    ),
    "the same task again after each response": (
        {"lead": always(delegate("ben"), "I wait."), "ben": always("Hello.")},
        "lead gave ben the same task 50 times and got the same response, so the run was ended;",
        160,
    ),
    "one that asks itself": (
        {"lead": always(ask("lead")), "ben": ["Hello."]},
        "The turn has used up its 50 rounds;",
        60,
    ),
}
"""Scripts by agent, the beginning of the sentence that ends the run, and the most requests."""


@pytest.mark.parametrize("name", CIRCLES)
async def test_a_circle_ends_in_a_sentence(name: str) -> None:
    scripts, sentence, most = CIRCLES[name]
    workers: Any = {key: script for key, script in scripts.items() if key != "lead"}
    team = team_from(scripts["lead"], **workers)
    async with team, asyncio.timeout(60):
        result = await team.prompt("go")
        replies = sum(message.type == "assistant" for message in result.messages)
    assert sentence in result.limit
    assert replies <= most
    assert result.usage.total_tokens < 300_000


async def test_agents_without_a_run_together_end_as_well() -> None:
    team = HandMade()
    lead = team.lead(always(ask("ben")))
    ben = team.worker("ben", always(ask("lead")))
    async with asyncio.timeout(60):
        result = await lead.prompt("go")
    assert "lead called ask_agent 10 times for an answer that cannot come (ben reaches its limit)" in result.limit
    assert results(lead)[0].startswith("Error: ben could not answer: ben called ask_agent 10 times for an answer")
    assert ben.state.turn == 9


async def test_repetitions_without_a_limit_go_on() -> None:
    limits = Limits(rounds=60, repeated_calls=None)
    team = team_from([*always(ask("ben"))[:55], "Done."], options={"limits": limits}, ben=[ask("lead"), "No."] * 55)
    async with team, asyncio.timeout(60):
        assert (await team.prompt("go")).text == "Done."
