"""The run of a team: it ends when nothing that the prompt caused is open, and is stopped and limited as a whole."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel
from support.agents import Hold, prompts, said, until
from support.teams import call, calls, delegated, responded, results, team_from

from planck_nb import Agent, Limits, Team
from planck_nb.agent.agent_access import is_stopped
from planck_nb.agent.run_result import RunResult
from planck_nb.ai.models import Pricing
from planck_nb.base.errors import AgentError, AgentStoppedError, LimitError, OutputError, PlanckError, UsageError
from planck_nb.teams import TeamResult
from planck_nb.testing import Reply, scripted_model

SOON = 60
FAN = calls(*(("delegate_task", {"agent_id": name, "task": f"for {name}"}) for name in ("ann", "ben")))


def ask(name: str) -> Reply:
    return call("ask_agent", agent_id=name, question="?")


def delegate(name: str, task: str = "t") -> Reply:
    return call("delegate_task", agent_id=name, task=task)


def held(hold: Hold, *names: str) -> dict[str, Any]:
    """Options that give the agents with these names the tool `hold`."""
    return {"tool_pool": [hold.hold], "tools": {name: ["hold"] for name in names}}


async def test_the_run_ends_with_the_last_message_of_the_orchestrator() -> None:
    hold = Hold()
    options = held(hold, "ann", "ben")
    team = team_from(
        [FAN, "I wait.", "half", "The report."], ann=[call("hold"), "A"], ben=[call("hold"), "B"], options=options
    )
    async with team:
        run = team.prompt("go")
        await until(team.orchestrator.subscribe(since=0), "turn_end")
        await hold.entered.wait()
        assert run.outcome is None
        hold.release()
        result = await run
        assert isinstance(result, TeamResult)
        texts = [turn.text for _, turn in result.turns]
        assert result.text == ("The report." if len(texts) == 5 else "half")
        assert {"A", "B", "I wait."} <= set(texts)
        assert run.status == "done"
        assert all(agent.status == "idle" for agent in team.agents)
        assert team.orchestrator.state.open_tasks == ()


async def test_the_result_covers_all_members() -> None:
    team = team_from([ask("ann"), FAN, "waiting", "{result}", "late"], ann=["one", "two"], ben=["three"])
    async with team:
        run = team.prompt("go")
        result = await run
        events = [event async for event in run]
        total = sum(agent.info().usage.total_tokens for agent in team.agents)
        assert result.usage.total_tokens == total > 0
        texts = {message.text for message in result.messages if message.type in {"user", "assistant"}}
        assert {"go", "?", "for ann", "for ben", "one", "two", "three", "waiting"} <= texts
        assert {event.agent_id for event in events} == {agent.id for agent in team.agents}
        kinds = [event.type for event in events]
        assert kinds.count("delegated") == kinds.count("responded") == 3


async def test_abort_stops_everything_and_the_workers_stay() -> None:
    hold = Hold()
    team = team_from(
        [FAN, "waiting", "never"], ann=[call("hold"), "never", "here"], ben=["B"], options=held(hold, "ann")
    )
    async with team:
        run = team.prompt("go")
        await hold.entered.wait()
        run.abort()
        result = await run
        assert result.aborted
        assert run.status == "aborted"
        assert [agent.status for agent in team.agents] == ["idle"] * 3
        lead, ann = team.orchestrator, team.agent("ann")
        assert len(delegated(lead)) == len(responded(lead)) == 2
        assert lead.state.open_tasks == ()
        assert not is_stopped(ann)
        assert (await ann.prompt("still there?")).text == "never"


async def test_cancelling_the_await_stops_everything() -> None:
    hold = Hold()
    team = team_from([delegate("ann"), "waiting", "never"], ann=[call("hold"), "never"], options=held(hold, "ann"))
    async with team:
        run = team.prompt("go")
        await hold.entered.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 0.01)
        assert run.status == "aborted"
        assert team.agent("ann").status == "idle"
        again = await team.prompt("again")
        assert again.text == "never"


async def test_nothing_of_an_aborted_run_starts_afterwards() -> None:
    """A tool that swallows its cancellation and prompts another agent does not bring the run back to life."""
    started = asyncio.Event()
    agents: dict[str, Agent] = {}

    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await agents["ann"].prompt("once more")
        return "x"

    team = team_from(
        [call("stubborn"), "never"], ann=["never"], options={"tool_pool": [stubborn], "tools": {"lead": ["stubborn"]}}
    )
    async with team:
        agents["ann"] = team.agent("ann")
        run = team.prompt("go")
        await started.wait()
        run.abort()
        assert (await run).aborted
        assert [entry.message.text for entry in agents["ann"].state.messages if entry.message.type == "assistant"] == []


@pytest.mark.parametrize("name", ["tokens", "cost", "seconds"])
async def test_a_limit_bounds_the_whole_run_and_ends_it_with_a_sentence(name: str) -> None:
    limits = {"tokens": Limits(tokens=500), "cost": Limits(cost=0.0005), "seconds": Limits(seconds=0.05)}[name]
    forever = [delegate("ann"), "waiting"] * 40
    hold = Hold()
    options: dict[str, Any] = {"limits": limits}
    ann: list[Reply | str] = ["word " * 40] * 60
    if name == "seconds":
        options |= held(hold, "ann")
        ann = [call("hold")]
    team = team_from(forever, ann=ann, options=options, pricing=Pricing(1.0, 1.0))
    async with team:
        result = await asyncio.wait_for(team.prompt("go"), SOON)
        assert f"raise `{name}` in the limits" in result.limit
        assert not result.aborted
        assert all(agent.status == "idle" for agent in team.agents)
        assert (team.orchestrator.state.open_tasks, team.orchestrator.state.queue) == ((), ())
        used = sum(agent.info().usage.total_tokens for agent in team.agents)
        assert used == result.usage.total_tokens
        if name == "tokens":
            assert used < 3 * 500


async def test_a_run_that_may_use_nothing_fails_as_that_of_an_agent() -> None:
    async with team_from(["never"], options={"limits": Limits(tokens=0)}) as team:
        with pytest.raises(LimitError, match="used up its 0 tokens"):
            await team.prompt("go")


async def test_a_failure_of_the_orchestrator_is_raised_when_all_is_over() -> None:
    async with team_from([delegate("ann"), "waiting", Reply("", error="The line broke.")], ann=["x"]) as team:
        with pytest.raises(PlanckError, match="The line broke"):
            await team.prompt("go")
        assert all(agent.status == "idle" for agent in team.agents)


class Report(BaseModel):
    parts: list[str]


async def test_a_structured_answer_is_asked_for_when_all_is_done() -> None:
    team = team_from([FAN, "waiting", "read", '{"parts": ["A", "B"]}', '{"parts": ["A", "B"]}'], ann=["A"], ben=["B"])
    async with team:
        result = await team.prompt("go", output=Report)
        assert result.output == Report(parts=["A", "B"])
        assert prompts(team.orchestrator).count("go") == 1


async def test_a_last_reply_that_fits_is_the_structured_answer() -> None:
    async with team_from([delegate("ann"), "waiting", '{"parts": []}'], ann=["A"]) as team:
        assert (await team.prompt("go", output=Report)).output == Report(parts=[])
        assert len(prompts(team.orchestrator)) == 2


async def test_what_workers_write_is_not_streamed_as_the_structured_answer() -> None:
    answer = '{"parts": ["lead"]}'
    async with team_from([delegate("ann"), "waiting", answer], ann=['{"parts": ["ann"]}']) as team:
        run = team.prompt("go", output=Report)
        seen = [partial async for partial in run.stream_output(interval=0)]
        assert seen[-1] == {"parts": ["lead"]}
        assert "ann" not in str(seen)
        messages = [
            event.message async for event in run if event.type == "message" and event.agent_id != run.answered_by
        ]
        said = [message.text for message in messages if message.type == "assistant"]
        assert '{"parts": ["ann"]}' in said


async def test_a_structured_answer_that_never_fits_is_an_error() -> None:
    async with team_from(["no"] * 5) as team:
        with pytest.raises(OutputError):
            await team.prompt("go", output=Report)
        assert (await team.prompt("again")).text == "no"


async def test_two_prompts_at_once_are_two_runs() -> None:
    """Each gets the responses to what it has delegated itself."""
    hold = Hold()
    lead = [delegate("ann", "1"), "wait 1", delegate("ann", "2"), "wait 2", "read 1", "read 2"]
    team = team_from(lead, ann=[call("hold"), "first", "second"], options=held(hold, "ann"))
    async with team:
        one, two = team.prompt("one"), team.prompt("two")
        await hold.entered.wait()
        events = team.orchestrator.subscribe(since=0)
        for _ in range(2):
            await until(events, "turn_end")
        hold.release()
        first, second = await asyncio.gather(one, two)
        assert {first.text, second.text} == {"read 1", "read 2"}
        assert {"one", "1", "first"} <= {m.text for m in first.messages if m.type in {"user", "assistant"}}
        assert "second" not in {m.text for m in first.messages if m.type in {"user", "assistant"}}
        assert {"two", "2", "second"} <= {m.text for m in second.messages if m.type in {"user", "assistant"}}


async def test_stopping_one_of_two_runs_leaves_the_other() -> None:
    hold = Hold()
    lead = [delegate("ann"), "wait 1", delegate("ben"), "wait 2", "read"]
    team = team_from(lead, ann=[call("hold"), "A"], ben=[call("hold"), "B"], options=held(hold, "ann", "ben"))
    async with team:
        one, two = team.prompt("one"), team.prompt("two")
        events = team.subscribe(since=0)
        while (await until(events, "tool_start")).agent_id != team.agent("ben").id:
            pass
        one.abort()
        assert (await one).aborted
        hold.release()
        result = await two
        assert (result.text, result.aborted) == ("read", False)


async def test_steering_while_the_workers_work_belongs_to_the_run() -> None:
    hold = Hold()
    team = team_from(
        [delegate("ann"), "waiting", delegate("ben"), "steered", "x", "y"],
        ann=[call("hold"), "A"],
        ben=["B"],
        options=held(hold, "ann"),
    )
    async with team:
        run = team.prompt("go")
        lead = team.orchestrator
        await until(lead.subscribe(since=0), "turn_end")
        await hold.entered.wait()
        steer = lead.steer("And ask ben.")
        await steer
        hold.release()
        result = await run
        assert "And ask ben." in {message.text for message in result.messages if message.type == "user"}
        assert "B" in said(lead)[-2] or "B" in " ".join(said(lead))
        assert lead.state.open_tasks == ()


async def test_a_tool_that_prompts_another_agent_belongs_to_the_run() -> None:
    agents: dict[str, Agent] = {}

    async def consult() -> str:
        return (await agents["oracle"].prompt("?")).text

    agents["oracle"] = Agent(name="oracle", model=scripted_model(["42", "43"]))
    team = team_from([call("consult"), "{result}"], options={"tool_pool": [consult], "tools": {"lead": ["consult"]}})
    async with team:
        run = team.prompt("go")
        result = await run
        assert result.text == "42"
        assert agents["oracle"].id in {event.agent_id async for event in run}
        assert (
            result.usage.total_tokens
            == team.orchestrator.info().usage.total_tokens + agents["oracle"].info().usage.total_tokens
        )


async def test_a_team_that_a_tool_prompts_is_a_part_of_the_run() -> None:
    inner = team_from([delegate("ann"), "waiting", "inner report"], ann=["A"])

    async def other_team() -> str:
        return (await inner.prompt("?")).text

    outer = team_from(
        [call("other_team"), "{result}"], options={"tool_pool": [other_team], "tools": {"lead": ["other_team"]}}
    )
    async with inner, outer:
        run = outer.prompt("go")
        result = await run
        assert result.text == "inner report"
        agents = [*inner.agents, *outer.agents]
        assert result.usage.total_tokens == sum(agent.info().usage.total_tokens for agent in agents)
        assert {event.agent_id async for event in run} == {agent.id for agent in agents}


async def test_the_limits_of_a_run_hold_for_a_team_that_its_tool_prompts() -> None:
    inner = team_from([delegate("ann"), "waiting"] * 30, ann=["word " * 40] * 30)

    async def other_team() -> str:
        return (await inner.prompt("?")).limit

    options = {"tool_pool": [other_team], "tools": {"lead": ["other_team"]}, "limits": Limits(tokens=800)}
    async with inner, team_from([call("other_team"), "{result}"], options=options) as outer:
        result = await outer.prompt("go")
        assert "raise `tokens` in the limits" in result.limit
        assert result.usage.total_tokens < 3 * 800


async def test_stopping_a_run_stops_a_team_that_its_tool_prompts() -> None:
    hold = Hold()
    inner = team_from([delegate("ann"), "waiting"], ann=[call("hold")], options=held(hold, "ann"))

    async def other_team() -> str:
        return (await inner.prompt("?")).text

    options = {"tool_pool": [other_team], "tools": {"lead": ["other_team"]}}
    async with inner, team_from([call("other_team"), "x"], options=options) as outer:
        run = outer.prompt("go")
        await hold.entered.wait()
        run.abort()
        assert (await run).aborted
        assert [agent.status for agent in (*inner.agents, *outer.agents)] == ["idle"] * 3


@pytest.mark.parametrize("content", ["", "  \n"])
async def test_an_empty_prompt_is_refused(content: str) -> None:
    async with team_from(["x"]) as team:
        with pytest.raises(UsageError, match="prompt is empty"):
            team.prompt(content)
        assert (await team.prompt("go")).text == "x"


async def test_a_team_that_is_not_running_cannot_be_prompted() -> None:
    team = team_from(["x"])
    with pytest.raises(AgentError, match=r"start it with `await team.start\(\)`"):
        team.prompt("go")
    async with team:
        lead = team.orchestrator
    with pytest.raises(AgentError):
        team.prompt("go")
    with pytest.raises(AgentStoppedError):
        lead.prompt("go")


async def test_a_stop_during_a_run_ends_it() -> None:
    hold = Hold()
    team = team_from([delegate("ann"), "waiting"], ann=[call("hold")], options=held(hold, "ann"))
    await team.start()
    run = team.prompt("go")
    await hold.entered.wait()
    async with asyncio.timeout(SOON):
        await team.stop()
        result = await run
    assert result.text == "waiting"


async def test_a_run_that_nobody_awaits_goes_on_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async with team_from([delegate("ann"), Reply("", error="The line broke.")], ann=["A"]) as team:
        team.prompt("go")
        events = team.subscribe(since=0)
        await until(events, "error")
    assert capsys.readouterr() == ("", "")


# In threads and loops


def test_a_team_is_prompted_in_the_loop_of_another_thread() -> None:
    results: list[RunResult[Any]] = []

    async def in_thread(team: Team) -> None:
        results.append(await team.prompt("from a thread"))

    async def main() -> None:
        lead = [delegate("ann"), "waiting", "one", delegate("ann"), "waiting", "two"]
        async with team_from(lead, ann=["A", "B"]) as team:
            results.append(await team.prompt("here"))
            await asyncio.to_thread(lambda: asyncio.run(in_thread(team)))

    asyncio.run(main())
    assert [result.text for result in results] == ["one", "two"]


def test_a_run_of_one_loop_is_awaited_and_stopped_in_another_one() -> None:
    hold_entered, ended = threading.Event(), list[bool]()

    async def main() -> None:
        hold = Hold()
        team = team_from([delegate("ann"), "waiting"], ann=[call("hold")], options=held(hold, "ann"))
        async with team:
            run = team.prompt("go")
            await hold.entered.wait()
            hold_entered.set()

            async def elsewhere() -> None:
                watch = asyncio.create_task(watching())
                await asyncio.sleep(0)
                run.abort()
                ended.append((await run).aborted)
                await watch

            async def watching() -> None:
                kinds = [event.type async for event in run]
                ended.append("delegated" in kinds)

            await asyncio.wait_for(asyncio.to_thread(lambda: asyncio.run(elsewhere())), SOON)

    asyncio.run(main())
    assert ended == [True, True]


def test_a_worker_prompted_in_another_thread_belongs_to_the_run() -> None:
    agents: dict[str, Agent] = {}

    def in_a_thread() -> str:
        return agents["ann"].run_sync("?").text

    async def main() -> None:
        options = {"tool_pool": [in_a_thread], "tools": {"lead": ["in_a_thread"]}}
        async with team_from([call("in_a_thread"), "{result}"], ann=["A"], options=options) as team:
            agents["ann"] = team.agent("ann")
            run = team.prompt("go")
            result = await asyncio.wait_for(run, SOON)
            assert result.text == "A"
            assert {event.agent_id async for event in run} == {agent.id for agent in team.agents}

    asyncio.run(main())


def test_a_team_goes_on_in_a_new_loop_after_one_that_was_closed_in_the_middle() -> None:
    teams: list[Team] = []

    async def first() -> None:
        hold = Hold()
        team = team_from(
            [delegate("ann"), "waiting", "read", "again"], ann=[call("hold"), "A"], options=held(hold, "ann")
        )
        teams.append(await team.start())
        team.prompt("go")
        await hold.entered.wait()

    async def second() -> None:
        team = teams[0]
        result = await asyncio.wait_for(team.prompt("again"), SOON)
        assert result.text
        await asyncio.wait_for(team.stop(), SOON)

    asyncio.run(first())
    asyncio.run(second())


# Context


async def test_what_a_tool_leaves_behind_is_no_part_of_a_later_run() -> None:
    """A function that a tool has stored and that prompts later belongs to no run that is over, and to no task."""
    later: list[asyncio.Task[None]] = []
    go = asyncio.Event()
    agents: dict[str, Agent] = {}

    async def plan() -> str:
        async def prompt() -> None:
            await go.wait()
            await agents["ann"].prompt("later")

        later.append(asyncio.create_task(prompt()))
        return "planned"

    team = team_from(
        [delegate("ann"), "waiting", "read"],
        ann=[call("plan"), "A", call("send_response", response="too late"), "bye"],
        options={"tool_pool": [plan], "tools": {"ann": ["plan"]}},
    )
    async with team:
        agents["ann"] = team.agent("ann")
        result = await team.prompt("go")
        assert result.text == "read"
        go.set()
        await later[0]
        assert results(agents["ann"])[-1].startswith("Error: No delegator to respond to.")
        assert team.orchestrator.state.turn == 1


def test_the_events_of_a_team_are_read_in_the_loop_of_another_thread() -> None:
    waiting, seen = threading.Event(), list[str]()

    async def read(team: Team) -> None:
        events = team.subscribe()
        asyncio.get_running_loop().call_soon(waiting.set)  # once the reader below waits, with no timer that wakes it
        seen.append((await until(events, "turn_end")).agent_id)

    async def main() -> None:
        async with team_from(["x"]) as team:
            reader = threading.Thread(target=lambda: asyncio.run(read(team)), daemon=True)
            reader.start()
            await asyncio.to_thread(waiting.wait, SOON)
            await team.prompt("go")
            await asyncio.to_thread(reader.join, SOON)
            assert seen == [team.orchestrator.id]

    asyncio.run(main())
