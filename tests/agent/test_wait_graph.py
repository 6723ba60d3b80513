"""Agents that would wait for each other for ever are told at once: one of them, while the others make progress."""

from __future__ import annotations

import asyncio
import contextvars
import signal
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Thread
from typing import Any

import pytest
from support.agents import calling, until
from support.virtual_time import virtually

from planck_nb import Agent
from planck_nb.agent import wait_graph
from planck_nb.agent.limits import Limits
from planck_nb.agent.run import Run
from planck_nb.agent.run_result import RunResult
from planck_nb.base.errors import DeadlockError
from planck_nb.base.sync import run_sync
from planck_nb.testing import Call, Reply, scripted_model

SOON = 60
"""Seconds, far below the 300 that a tool may take."""

Ask = Callable[[Agent], Awaitable[str]]


async def by_await(agent: Agent) -> str:
    return (await agent.prompt("?")).text


async def by_wait(agent: Agent) -> str:
    return (await agent.prompt("?").wait()).text


async def by_iteration(agent: Agent) -> str:
    events = [event async for event in agent.prompt("?")]
    return events[-1].type


async def by_task(agent: Agent) -> str:
    return await asyncio.create_task(by_await(agent))


async def by_gather(agent: Agent) -> str:
    return (await asyncio.gather(by_await(agent), asyncio.sleep(0)))[0]


async def by_task_group(agent: Agent) -> str:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(by_await(agent))
    return task.result()


async def by_deadline(agent: Agent) -> str:
    return await asyncio.wait_for(by_await(agent), 300)


async def by_steering(agent: Agent) -> str:
    return (await agent.steer("?")).text


async def by_thread(agent: Agent) -> str:
    return await asyncio.to_thread(lambda: agent.run_sync("?").text)


async def by_thread_and_loop(agent: Agent) -> str:
    return await asyncio.to_thread(lambda: asyncio.run(by_await(agent)))


async def by_executor_with_context(agent: Agent) -> str:
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    return await loop.run_in_executor(None, context.run, lambda: agent.run_sync("?").text)


async def by_pool_with_context(agent: Agent) -> str:
    def ask() -> str:
        with ThreadPoolExecutor() as pool:
            return pool.submit(contextvars.copy_context().run, lambda: agent.run_sync("?").text).result()

    return await asyncio.to_thread(ask)


WAYS: list[Ask] = [
    by_await, by_wait, by_iteration, by_task, by_gather, by_task_group, by_deadline, by_steering, by_thread,
    by_thread_and_loop, by_executor_with_context, by_pool_with_context,
]  # fmt: skip


def errors(result: RunResult[Any]) -> list[str]:
    """What the tools of a turn reported as failed."""
    return [
        part.text
        for message in result.messages
        if message.type == "tool_result"
        for part in message.content
        if part.is_error
    ]


def failed_calls(agent: Agent) -> list[str]:
    """The results of the agent's tool calls that failed."""
    return [event.result for event in agent.events.since(0) if event.type == "tool_end" and event.error]


def asking(name: str, *others: str, agents: dict[str, Agent], ask: Ask = by_await, rounds: int = 1) -> Agent:
    """An agent with a tool that asks the others at once and returns their answers."""

    async def ask_others() -> str:
        return ", ".join(await asyncio.gather(*(ask(agents[other]) for other in others)))

    script = [*calling(("ask_others", {}), then=f"I am {name}.")] * rounds
    agents[name] = Agent(name=name, model=scripted_model(script), tools=[ask_others])
    return agents[name]


@pytest.mark.parametrize("ask", WAYS)
async def test_a_tool_that_waits_for_its_own_agent_is_told(ask: Ask) -> None:
    agents: dict[str, Agent] = {}
    agent = asking("ann", "ann", agents=agents, ask=ask, rounds=3)
    result = await asyncio.wait_for(agent.prompt("go"), SOON)
    [error] = errors(result)
    assert "Agent ann cannot wait for its own answer" in error
    assert result.text == "I am ann."


@pytest.mark.parametrize("ask", [by_await, by_task, by_gather, by_task_group, by_thread])
@pytest.mark.parametrize("names", ["ab", "abc", "abcde"])
async def test_exactly_one_of_the_agents_in_a_cycle_is_told(names: str, ask: Ask) -> None:
    agents: dict[str, Agent] = {}
    results: dict[str, RunResult[Any]] = {}
    for name, other in zip(names, names[1:] + names[0], strict=True):
        asking(name, other, agents=agents, ask=ask)
    results["a"] = await asyncio.wait_for(agents["a"].prompt("go"), SOON)
    assert results["a"].text == "I am a."
    failures = [error for agent in agents.values() for error in failed_calls(agent)]
    assert len(failures) == 1
    assert f"Agent {names[-1]} cannot wait for a, because a waits for b" in failures[0]
    for agent in agents.values():
        assert agent.status == "idle"


@pytest.mark.parametrize("names", ["ab", "abc", "abcde"])
async def test_agents_that_begin_to_wait_at_once_all_answer_and_one_is_told(names: str) -> None:
    agents: dict[str, Agent] = {}
    for name, other in zip(names, names[1:] + names[0], strict=True):
        asking(name, other, agents=agents, rounds=2)
    runs = [agent.prompt("go") for agent in agents.values()]
    results = await asyncio.wait_for(asyncio.gather(*runs), SOON)
    assert sum(len(errors(result)) for result in results) == 1
    assert [result.text for result in results] == [f"I am {name}." for name in names]


async def test_a_second_wait_of_one_tool_may_close_the_cycle() -> None:
    agents: dict[str, Agent] = {}
    asking("a", "b", "c", agents=agents)
    asking("b", agents=agents)
    asking("c", "a", agents=agents)
    result = await asyncio.wait_for(agents["a"].prompt("go"), SOON)
    assert result.text == "I am a."
    assert errors(result) == []
    [failed] = failed_calls(agents["c"])
    assert "Agent c cannot wait for a, because a waits for c" in failed


async def test_the_second_of_two_calls_in_one_reply_counts_too() -> None:
    agents: dict[str, Agent] = {}

    async def ask_b() -> str:
        return await by_await(agents["b"])

    async def ask_c() -> str:
        return await by_await(agents["c"])

    agents["a"] = Agent(
        name="a",
        model=scripted_model([Reply(calls=[Call("ask_b", {}), Call("ask_c", {})]), "I am a."]),
        tools=[ask_b, ask_c],
    )
    asking("b", agents=agents)
    asking("c", "a", agents=agents)
    result = await asyncio.wait_for(agents["a"].prompt("go"), SOON)
    assert (result.text, errors(result)) == ("I am a.", [])


async def test_agents_that_wait_without_a_cycle_are_left_alone() -> None:
    agents: dict[str, Agent] = {}
    asking("a", "b", "c", "d", agents=agents)
    asking("b", "d", agents=agents)
    asking("c", "d", agents=agents)
    asking("d", agents=agents, rounds=9)
    result = await asyncio.wait_for(agents["a"].prompt("go"), SOON)
    assert errors(result) == []
    assert agents["d"].state.turn == 2


async def test_a_prompt_that_is_not_awaited_is_answered_after_the_turn() -> None:
    agents: dict[str, Agent] = {}
    later: list[Run[str]] = []

    async def remind() -> str:
        later.append(agents["a"].prompt("later"))
        return "sent"

    agents["a"] = Agent(name="a", model=scripted_model([*calling(("remind", {})), "and later"]), tools=[remind])
    result = await agents["a"].prompt("go")
    assert (result.text, errors(result)) == ("done", [])
    assert (await later[0]).text == "and later"


async def test_a_task_that_outlives_its_tool_blocks_no_agent() -> None:
    agents: dict[str, Agent] = {}
    tasks: list[asyncio.Task[str]] = []

    async def remind() -> str:
        tasks.append(asyncio.create_task(by_await(agents["a"])))
        return "sent"

    agents["a"] = Agent(name="a", model=scripted_model([*calling(("remind", {})), "and later"]), tools=[remind])
    assert (await agents["a"].prompt("go")).text == "done"
    assert await asyncio.wait_for(tasks[0], SOON) == "and later"


async def test_after_the_error_nothing_is_left_in_the_queue_and_the_agents_go_on() -> None:
    agents: dict[str, Agent] = {}
    asking("a", "b", agents=agents, rounds=3)
    asking("b", "a", agents=agents, rounds=3)
    for _ in range(3):
        assert (await asyncio.wait_for(agents["a"].prompt("go"), SOON)).text == "I am a."
        assert [agent.state.queue for agent in agents.values()] == [(), ()]
    assert [message.text for entry in agents["a"].state.messages if (message := entry.message).type == "user"] == [
        "go"
    ] * 3


async def test_a_wait_for_the_running_prompt_of_another_does_not_abort_it() -> None:
    agents: dict[str, Agent] = {}
    first: list[Run[str]] = []

    async def wait_for_the_first() -> str:
        return (await first[0]).text

    asking("a", "b", agents=agents)
    agents["b"] = Agent(
        name="b", model=scripted_model(calling(("wait_for_the_first", {}), then="I am b.")), tools=[wait_for_the_first]
    )
    first.append(agents["a"].prompt("go"))
    assert (await asyncio.wait_for(first[0].wait(), SOON)).text == "I am a."
    [failed] = failed_calls(agents["b"])
    assert "DeadlockError" in failed


async def test_a_compactor_that_asks_its_own_agent_is_told() -> None:
    told: list[str] = []

    async def summarise(_messages: object) -> None:
        try:
            await agent.prompt("Summarise it.")
        except DeadlockError as error:
            told.append(str(error))

    agent = Agent(name="a", model=scripted_model(["one", "two"]), on_compact=summarise)
    assert (await asyncio.wait_for(agent.prompt("go"), SOON)).text == "one"
    assert len(told) == 1


Work = Callable[[], object]


def in_thread(work: Work) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


def in_pool(work: Work) -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(work).result()


async def in_executor(work: Work) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


class OtherThread:
    """An agent whose tool `ask` waits for a thread without the tool's context, in which the agent itself is prompted.

    Args:
        start: Runs a function in such a thread and waits for it.
        prompt: Prompts the agent there.
        seconds: How long a turn may take.
    """

    def __init__(
        self,
        start: Callable[[Work], Any],
        prompt: Callable[[Agent], str] = lambda agent: agent.run_sync("?").text,
        *,
        seconds: float | None = None,
    ) -> None:
        async def ask() -> None:
            await start(self._ask)

        def ask_in_thread() -> None:
            start(self._ask)

        tool = ask if start is in_executor else ask_in_thread
        tool.__name__ = "ask"
        script = [*calling(("ask", {})), "and later"]
        self.agent = Agent(name="ann", model=scripted_model(script), tools=[tool], limits=Limits(seconds=seconds))
        self.answered = Future[str]()
        self.begun = Event()
        """Set when the thread runs. A thread that only begins could get the exception that interrupts the tool."""
        self._prompt = prompt

    def _ask(self) -> None:
        self.begun.set()
        self.answered.set_result(self._prompt(self.agent))


def in_virtual_time(agent: Agent) -> str:
    return virtually(lambda: by_await(agent))


@pytest.mark.parametrize("start", [in_thread, in_pool, in_executor])
async def test_a_turn_says_that_a_thread_without_its_context_waits_for_it(start: Callable[[Work], Any]) -> None:
    other = OtherThread(start, in_virtual_time)
    run = other.agent.prompt("go")
    warning = await asyncio.wait_for(until(run, "warning"), SOON)
    assert warning.type == "warning"
    assert "If ask waits for its answer" in warning.text
    assert "contextvars.copy_context().run" in warning.text
    run.abort()
    assert (await asyncio.wait_for(run, SOON)).aborted
    assert await asyncio.wait_for(asyncio.wrap_future(other.answered), SOON) == "done"
    assert [event.type for event in other.agent.events.since(0)].count("warning") == 1


async def test_a_prompt_from_another_thread_that_waits_for_no_tool_is_not_mentioned() -> None:
    entered, released = asyncio.Event(), asyncio.Event()

    async def wait(_messages: object) -> None:
        entered.set()
        await released.wait()

    async def ask_and_wait_long() -> str:
        run = agent.prompt("?")
        await asyncio.sleep(60)
        here.call_soon_threadsafe(released.set)
        return (await run).text

    here = asyncio.get_running_loop()
    agent = Agent(name="ann", model=scripted_model(["one", "two"]), on_compact=wait)
    run = agent.prompt("go")
    await entered.wait()
    assert await asyncio.wait_for(asyncio.to_thread(virtually, ask_and_wait_long), SOON) == "two"
    assert (await run).text == "one"
    assert "warning" not in [event.type for event in agent.events.since(0)]


@pytest.mark.slow
async def test_the_time_limit_ends_a_wait_for_a_thread_without_context() -> None:
    other = OtherThread(in_thread, seconds=1)
    result = await asyncio.wait_for(other.agent.prompt("go"), SOON)
    assert (
        result.limit == "The turn has used up its 1 seconds; prompt again to go on, or raise `seconds` in the limits."
    )
    assert errors(result) == ["The call was stopped before it returned."]
    assert await asyncio.wait_for(asyncio.wrap_future(other.answered), SOON) == "done"


def test_ctrl_c_ends_a_wait_for_a_thread_without_context() -> None:
    other = OtherThread(in_thread)

    async def main() -> None:
        run = other.agent.prompt("go")
        assert await asyncio.to_thread(other.begun.wait, SOON)
        signal.raise_signal(signal.SIGINT)
        await run

    with pytest.raises(KeyboardInterrupt):
        run_sync(main())
    assert other.answered.result(SOON) == "done"
    assert failed_calls(other.agent) == ["The call was stopped before it returned."]
    assert "aborted" in [event.type for event in other.agent.events.since(0)]


async def test_the_graph_alone() -> None:
    one, two, three = (wait_graph.Participant(name) for name in ("one", "two", "three"))

    async def waits(waiting: wait_graph.Participant, *awaited: wait_graph.Participant) -> None:
        with wait_graph.within(waiting), wait_graph.waiting_for(*awaited):
            await asyncio.Event().wait()

    def run(step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(step)

    with wait_graph.waiting_for(one):  # outside a turn nothing waits
        pass
    first, second = run(waits(one, two)), run(waits(two, three))
    await asyncio.sleep(0)
    with pytest.raises(DeadlockError, match="Agent three cannot wait for one, because one waits for two"):
        await waits(three, one)
    with pytest.raises(DeadlockError):
        await waits(three, three)
    second.cancel()
    await asyncio.wait([second])
    third = run(waits(three, one))  # the cycle is open now
    await asyncio.sleep(0)
    assert not third.done()
    for task in (first, third):
        task.cancel()
    await asyncio.wait([first, third])
    assert [one.waits, two.waits, three.waits] == [[], [], []]
