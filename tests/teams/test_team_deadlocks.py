"""Agents that would wait for each other for ever: one is told, and the others go on."""

from __future__ import annotations

import asyncio

import pytest
from support.agents import Hold
from support.teams import HandMade, call, calls, delegated, responded, results

from planck_nb import Agent
from planck_nb.agent.agent_access import is_stopped
from planck_nb.testing import Reply

SOON = 60


def ask(name: str) -> Reply:
    return call("ask_agent", agent_id=name, question="?")


def deadlocks(*agents: Agent) -> list[str]:
    return [text for agent in agents for text in results(agent) if "Deadlock detected" in text]


# clause team_integration 3; IA-05
@pytest.mark.parametrize("names", [["ann"], ["ann", "ben"], ["ann", "ben", "cem", "dan"]])
async def test_a_cycle_of_questions_ends_for_the_last_one_and_the_others_go_on(names: list[str]) -> None:
    team = HandMade()
    lead = team.lead([ask("ann"), "{result} All done."])
    cycle = [*names[1:], "lead"]
    workers = [team.worker(name, [ask(other), f"{name} answers."]) for name, other in zip(names, cycle, strict=True)]
    async with asyncio.timeout(SOON):
        result = await lead.prompt("go")
    assert result.text == "ann answers. All done."
    [sentence] = deadlocks(lead, *workers)
    assert sentence.startswith("Error: Deadlock detected: Agent ")
    assert sentence.endswith("Use delegate_task, which does not wait, or answer without it.")
    assert deadlocks(workers[-1])
    for agent in (lead, *workers):
        assert len(delegated(agent)) == len(responded(agent))
        assert agent.state.open_tasks == ()


# W-05; IA-06
async def test_a_cycle_through_the_second_of_two_questions_is_detected() -> None:
    team, hold = HandMade(), Hold()
    both = calls(
        ("ask_agent", {"agent_id": "ben", "question": "?"}), ("ask_agent", {"agent_id": "cem", "question": "?"})
    )
    lead = team.lead([both, "end"])
    team.worker("ben", [call("hold"), "ben answers."], tools=[hold.hold])
    cem = team.worker("cem", [ask("lead"), "cem answers."])
    run = lead.prompt("go")
    await hold.entered.wait()
    await until_idle(cem, 1)
    hold.release()
    async with asyncio.timeout(SOON):
        await run
    assert results(lead) == ["ben answers.", "cem answers."]
    assert len(deadlocks(cem)) == 1


async def until_idle(agent: Agent, turns: int) -> None:
    async with asyncio.timeout(SOON):
        async for event in agent.subscribe(since=0):
            turns -= event.type in {"turn_end", "error", "aborted"}
            if not turns:
                return


async def test_two_that_ask_each_other_at_once_both_end() -> None:
    team = HandMade()
    ann = team.worker("ann", [ask("ben"), "ann was told {result}", "ann answers."])
    ben = team.worker("ben", [ask("ann"), "ben was told {result}", "ben answers."])
    async with asyncio.timeout(SOON):
        await asyncio.gather(ann.prompt("go"), ben.prompt("go"))
    assert len(deadlocks(ann, ben)) == 1
    told = ann if deadlocks(ben) else ben
    assert results(told)[0].endswith("answers.")


async def test_three_that_ask_in_a_cycle_at_once_all_end() -> None:
    team = HandMade()
    names = ["ann", "ben", "cem"]
    agents = [
        team.worker(name, [ask(other), f"{name} is through.", f"{name} answers."])
        for name, other in zip(names, ["ben", "cem", "ann"], strict=True)
    ]
    async with asyncio.timeout(SOON):
        await asyncio.gather(*(agent.prompt("go") for agent in agents))
    assert len(deadlocks(*agents)) == 1


async def test_a_question_inside_a_tool_of_the_user_counts_too() -> None:
    team = HandMade()
    agents: dict[str, Agent] = {}

    async def consult() -> str:
        return (await agents["lead"].prompt("?")).text

    agents["lead"] = team.lead([ask("ann"), "{result}"])
    ann = team.worker("ann", [call("consult"), "ann answers."], tools=[consult])
    async with asyncio.timeout(SOON):
        result = await agents["lead"].prompt("go")
    assert result.text == "ann answers."
    assert "cannot wait for" in results(ann)[0]


async def test_circular_delegation_is_no_deadlock() -> None:
    team = HandMade()
    lead = team.lead([call("delegate_task", agent_id="ann", task="t"), "waiting", "small", "done"])
    ann = team.worker("ann", [call("delegate_task", agent_id="lead", task="back"), "waiting", "all"])
    async with asyncio.timeout(SOON):
        await lead.prompt("go")
        await until_idle(lead, 3)
    assert [event.text for event in responded(ann)] == ["small"]
    assert [event.text for event in responded(lead)] == ["all"]


async def test_an_agent_that_waits_for_responses_can_be_asked() -> None:
    """A delegation blocks nothing, so the worker may ask the one that gave it."""
    team = HandMade()
    lead = team.lead([call("delegate_task", agent_id="ann", task="t"), "waiting", "blue", "done"])
    ann = team.worker("ann", [ask("lead"), "I painted it {result}."])
    async with asyncio.timeout(SOON):
        await lead.prompt("go")
        await until_idle(lead, 3)
    assert results(ann) == ["blue"]
    assert [event.text for event in responded(lead)] == ["I painted it blue."]


async def test_agents_that_wait_for_each_other_can_be_destroyed() -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead([call("destroy_agent", agent_id="ann"), "end"])
    ann = team.worker("ann", [ask("ben"), "never"])
    ben = team.worker("ben", [call("hold"), "never"], tools=[hold.hold])
    run = ann.prompt("go")
    await hold.entered.wait()
    async with asyncio.timeout(SOON):
        await lead.prompt("end it")
        assert (await run).aborted
    assert is_stopped(ann)
    assert not is_stopped(ben)
    assert ben.status == "idle"
