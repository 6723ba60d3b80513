"""One agent in the event loops of several threads: everything works, or one sentence says why not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.agents import Hold, calling, prompts, said, until
from support.wire import CHAT_HELLO

from planck_nb import Agent, Session, ai
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError, AgentStoppedError, NoRunningLoopError, WrongLoopError
from planck_nb.base.event_loops import call_in_loop
from planck_nb.testing import Reply, scripted_model

SOON = 60


def numbered(count: int = 30) -> list[Reply | str]:
    return [f"answer {number}" for number in range(1, count + 1)]


async def elsewhere(work: Callable[[], Awaitable[Any]]) -> Any:
    """The result of `work()` in the event loop of another thread."""

    async def awaited() -> object:
        return await work()

    return await asyncio.wait_for(asyncio.to_thread(lambda: asyncio.run(awaited())), SOON)


async def eventually(condition: Callable[[], bool]) -> None:
    """Return once another thread has made the condition true."""
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110 - no event of this loop says so
            await asyncio.sleep(0)


def held(*then: str) -> tuple[Agent, Hold]:
    """An agent whose first turn waits in its tool."""
    hold = Hold()
    first, *others = then
    script = [*calling(("hold", {}), then=first), *others]
    return Agent(name="ann", model=scripted_model(script), tools=[hold.hold]), hold


async def test_an_idle_agent_answers_in_any_loop_one_after_another() -> None:
    agent = Agent(model=scripted_model(numbered()))
    assert (await agent.prompt("1")).text == "answer 1"
    assert (await elsewhere(lambda: agent.prompt("2"))).text == "answer 2"
    assert (await agent.prompt("3")).text == "answer 3"
    assert await asyncio.to_thread(lambda: agent.run_sync("4").text) == "answer 4"


async def test_a_prompt_waits_for_the_turn_of_another_thread_and_is_answered_in_its_own_loop() -> None:
    agent, hold = held("first", "second", "third")
    first = agent.prompt("A")
    await hold.entered.wait()
    waiting = asyncio.ensure_future(elsewhere(lambda: agent.prompt("B")))
    await asyncio.to_thread(lambda: None)
    second = agent.prompt("C")
    hold.release()
    assert (await first).text == "first"
    texts = {(await second).text, (await waiting).text}
    assert texts == {"second", "third"}
    assert sorted(prompts(agent)) == ["A", "B", "C"]
    assert agent.status == "idle"


@pytest.mark.parametrize("used_before", [False, True])
def test_blocking_threads_share_an_agent(used_before: bool) -> None:
    """As in a notebook cell that blocks the kernel's loop, which has used the agent before."""
    agent = Agent(model=scripted_model(numbered()))

    async def cell() -> list[str]:
        if used_before:
            await agent.prompt("first")
        with ThreadPoolExecutor(6) as pool:
            return list(pool.map(lambda number: agent.run_sync(f"question {number}").text, range(6)))

    texts = asyncio.run(cell())
    assert sorted(texts) == [f"answer {number}" for number in range(1 + used_before, 7 + used_before)]
    assert len(prompts(agent)) == 6 + used_before


def test_loops_of_many_threads_gather_prompts_on_one_agent() -> None:
    agent = Agent(model=scripted_model(numbered()))

    async def ask(thread: int) -> list[tuple[str, str]]:
        names = [f"{thread}.{number}" for number in range(4)]
        results = await asyncio.gather(*(agent.prompt(name) for name in names))
        asked = [message.text for result in results for message in result.messages if message.type == "user"]
        assert asked == names
        return [(name, result.text) for name, result in zip(names, results, strict=True)]

    with ThreadPoolExecutor(5) as pool:
        answers = [pair for pairs in pool.map(lambda thread: asyncio.run(ask(thread)), range(5)) for pair in pairs]
    assert sorted(text for _, text in answers) == sorted(f"answer {number}" for number in range(1, 21))
    assert sorted(prompts(agent)) == sorted(name for name, _ in answers)


async def test_the_answer_can_be_awaited_in_another_loop() -> None:
    agent, hold = held("first")
    run = agent.prompt("A")
    await hold.entered.wait()

    async def watch() -> list[str]:
        return [event.type async for event in run]

    waits = [asyncio.ensure_future(elsewhere(work)) for work in (lambda: run, run.wait, watch)]
    await eventually(lambda: bool(run.events._waiters))
    hold.release()
    one, two, kinds = await asyncio.gather(*waits)
    assert (one.text, two.text) == ("first", "first")
    assert kinds == [event.type for event in run.events.since(0)]
    assert (await elsewhere(run.wait)).text == "first"  # also when it is over


async def test_a_failure_is_raised_in_the_loop_that_waits() -> None:
    agent, hold = held("-")
    agent.model = scripted_model([*calling(("hold", {}))[:1], Reply(error="The server is down.")])
    run = agent.prompt("A")
    await hold.entered.wait()
    waiting = asyncio.ensure_future(elsewhere(run.wait))
    hold.release()
    with pytest.raises(Exception, match="The server is down"):
        await waiting


async def test_agents_are_controlled_from_other_threads() -> None:
    agent, hold = held("steered", "x")
    run = agent.prompt("A")
    await hold.entered.wait()
    waiting = agent.prompt("B")
    steered: list[Run[str]] = []

    async def control() -> str:
        steered.append(agent.steer("left"))
        agent.edit_queued(waiting.id, "C")
        return (await steered[0]).text

    controlled = asyncio.ensure_future(elsewhere(control))
    await until(agent.subscribe(since=0), "queued")
    await eventually(lambda: [prompt.text for prompt in agent.state.queue] == ["C", "left"])
    hold.release()
    assert await controlled == (await run).text == "steered"
    assert prompts(agent)[:2] == ["A", "left"]
    assert [message.text for message in (await waiting).messages if message.type == "user"] == ["C"]


@pytest.mark.parametrize("thread_has_loop", [False, True])
async def test_abort_and_removal_work_in_threads_with_and_without_a_loop(thread_has_loop: bool) -> None:
    agent, hold = held("-", "-")
    run = agent.prompt("A")
    await hold.entered.wait()
    waiting, removed = agent.prompt("B"), agent.prompt("C")

    def control() -> None:
        agent.remove_queued(removed.id)
        waiting.abort()
        run.abort()

    async def control_in_loop() -> None:
        control()

    if thread_has_loop:
        await elsewhere(control_in_loop)
    else:
        await asyncio.to_thread(control)
    results = await asyncio.gather(run, waiting, removed)
    assert [result.aborted for result in results] == [True, True, True]
    assert agent.status == "idle"


async def test_abort_and_stop_are_awaited_in_other_loops() -> None:
    agent, hold = held("x")
    run = agent.prompt("A")
    await hold.entered.wait()
    await elsewhere(agent.abort)
    assert run.status == "aborted"
    agent.model = scripted_model(["-", *calling(("hold", {}))])
    second = Hold()
    agent.remove_tool("hold")
    agent.add_tool(second.hold)
    run = agent.prompt("B")
    await second.entered.wait()
    line = asyncio.ensure_future(elsewhere(lambda: agent.prompt("in line").wait()))
    await eventually(lambda: bool(agent._runner._ownership._waiting))
    await elsewhere(agent.stop)
    assert run.status == "aborted"
    assert (await line).aborted
    with pytest.raises(AgentStoppedError):
        await elsewhere(lambda: agent.prompt("C"))


async def test_a_decision_may_come_from_a_thread() -> None:
    agent, hold = held("done")
    agent = Agent(
        model=agent.model, tools=[hold.hold], approvals=Approvals(Policy((Rule.parse("ask", "hold"),)), deadline=SOON)
    )
    run = agent.prompt("A")
    request = await until(run, "approval_request")
    assert request.type == "approval_request"

    def decide() -> None:
        with pytest.raises(AgentError, match="No call other is waiting"):
            agent.decide("other", allow=True)
        agent.decide(request.id, allow=True)

    await asyncio.to_thread(decide)
    hold.release()
    assert (await asyncio.wait_for(run, SOON)).text == "done"


async def test_a_thread_without_a_loop_prompts_the_agent_where_it_lives() -> None:
    agent = Agent(model=scripted_model(numbered()))
    with pytest.raises(NoRunningLoopError):
        await asyncio.to_thread(agent.prompt, "too early: no loop has used the agent")
    await agent.prompt("1")
    run = await asyncio.to_thread(agent.prompt, "2")
    assert (await asyncio.wait_for(run, SOON)).text == "answer 2"


async def test_cancelling_an_await_elsewhere_aborts_the_run() -> None:
    agent, hold = held("-", "B's")
    first = agent.prompt("A")
    await hold.entered.wait()

    async def give_up(run: Run[str] | None) -> str:
        task = asyncio.ensure_future(asyncio.wait_for(run or agent.prompt("in line"), 0.05))
        await asyncio.wait([task])
        return type(task.exception()).__name__

    assert await elsewhere(lambda: give_up(None)) == "TimeoutError"
    assert agent.status == "executing_tools"
    assert await elsewhere(lambda: give_up(first)) == "TimeoutError"
    assert (await first.wait()).aborted
    agent.model = scripted_model(["-", "B's"])
    assert (await agent.prompt("B")).text == "B's"
    assert prompts(agent) == ["A", "B"]


def test_a_loop_that_ends_while_another_waits_is_one_sentence() -> None:
    agent, hold = held("-", "later")
    runs: list[Run[str]] = []
    begun, waits = threading.Event(), threading.Event()

    async def begin() -> None:
        runs.append(agent.prompt("A"))
        await hold.entered.wait()
        begun.set()
        await asyncio.to_thread(waits.wait, SOON)

    async def watch() -> str:
        task = asyncio.ensure_future(runs[0].wait())
        await asyncio.sleep(0)
        waits.set()
        try:
            return "aborted" if (await asyncio.wait_for(task, SOON)).aborted else "answered"
        except WrongLoopError as error:
            return str(error)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(lambda: asyncio.run(begin()))
        assert begun.wait(SOON)
        said = asyncio.run(watch())
        ended.result(SOON)
    assert said == "aborted" or "was closed before there was an answer" in said
    assert asyncio.run(_text(agent)) == "-"


async def _text(agent: Agent) -> str:
    agent.model = scripted_model(["-", "-", "-"])
    return (await asyncio.wait_for(agent.prompt("B"), SOON)).text


def test_a_loop_that_was_closed_without_a_word_keeps_nobody_waiting() -> None:
    agent, hold = held("-", "-")
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it would report the tasks that it loses

    async def begin() -> Run[str]:
        run = agent.prompt("A")
        await hold.entered.wait()
        return run

    run = loop.run_until_complete(begin())
    loop.close()
    run.abort()  # changes nothing, and raises nothing
    assert asyncio.run(_text(agent)) == "-"
    with pytest.raises(WrongLoopError, match="was closed before there was an answer"):
        asyncio.run(run.wait())


def test_a_blocked_loop_is_one_sentence_and_not_for_ever() -> None:
    begun, done = threading.Event(), threading.Event()

    async def blocked() -> None:
        begun.set()
        done.wait(SOON)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(blocked()))
    thread.start()
    assert begun.wait(SOON)
    with pytest.raises(WrongLoopError, match="another thread, which is blocked"):
        call_in_loop(loop, lambda: pytest.fail("it must not be called later"), seconds=0.05)
    done.set()
    thread.join()
    loop.close()


class _Hello(BaseHTTPRequestHandler):
    """Answers every request with a greeting, over connections that are kept."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = b"".join(CHAT_HELLO)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


async def test_one_client_has_connections_for_the_loop_of_each_thread() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = ai.get_model("openai", "m", base_url=f"http://127.0.0.1:{server.server_port}/v1", api="chat")
    async with ai.Client(credentials={}) as client:
        agent = Agent(model=model, client=client)
        assert (await agent.prompt("here")).text == "Hello"
        for _ in range(2):
            assert (await elsewhere(lambda: agent.prompt("there"))).text == "Hello"
            assert (await agent.prompt("here again")).text == "Hello"
        one, other = await asyncio.gather(agent.prompt("here"), elsewhere(lambda: agent.prompt("there")))
        assert (one.text, other.text) == ("Hello", "Hello")
    await asyncio.to_thread(server.shutdown)
    server.server_close()


async def test_prompts_of_threads_are_stored_in_one_session(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        agent = Agent(model=scripted_model(numbered()), session=session)
        await agent.prompt("1")
        await asyncio.gather(*(elsewhere(lambda: agent.prompt("more")) for _ in range(4)))
        await agent.prompt("6")
        await agent.stop()
        rows = session.messages(agent.id)
        assert [row.message.type for row in rows] == ["user", "assistant"] * 6
        assert [row.db_id for row in rows] == sorted(row.db_id for row in rows)


async def test_a_loop_that_is_given_the_agent_runs_one_turn_at_a_time() -> None:
    agent, hold = held("first", "second", "third")
    first = agent.prompt("A")
    await hold.entered.wait()
    in_line, given = threading.Event(), threading.Event()

    async def two() -> list[str]:
        waiting = agent.prompt("B1")
        in_line.set()
        assert given.wait(SOON)  # blocks the loop, which is given the agent meanwhile
        later = agent.prompt("B2")
        return [(await run.wait()).text for run in (later, waiting)]

    both = asyncio.ensure_future(elsewhere(two))
    assert await asyncio.to_thread(in_line.wait, SOON)
    hold.release()
    await first
    given.set()
    assert await both == ["second", "third"]
    assert said(agent)[4:] == ["user: B2", "assistant: second", "user: B1", "assistant: third"]
    log = [event.type for event in agent.events.since(0) if event.type in ("turn_start", "turn_end")]
    assert log == ["turn_start", "turn_end"] * 3


async def test_a_prompt_that_is_aborted_when_its_loop_is_given_the_agent_passes_it_on() -> None:
    agent, hold = held("first", "last")
    first = agent.prompt("A")
    await hold.entered.wait()
    in_line, given = threading.Event(), threading.Event()

    async def give_up() -> bool:
        waiting = agent.prompt("B")
        in_line.set()
        assert given.wait(SOON)
        waiting.abort()
        return (await waiting.wait()).aborted

    aborted = asyncio.ensure_future(elsewhere(give_up))
    assert await asyncio.to_thread(in_line.wait, SOON)
    hold.release()
    await first
    last = agent.prompt("C")
    given.set()
    assert await aborted
    assert (await asyncio.wait_for(last.wait(), SOON)).text == "last"
    assert prompts(agent) == ["A", "C"]


async def test_prompts_sent_during_a_rewind_of_another_loop_are_answered_in_their_own(tmp_path: Path) -> None:
    stopping, released = asyncio.Event(), asyncio.Event()
    entered = asyncio.Event()
    threads: list[threading.Thread] = []

    async def stubborn() -> None:
        entered.set()
        try:
            await released.wait()
        finally:
            stopping.set()
            await released.wait()

    def parts() -> SystemPromptParts:
        threads.append(threading.current_thread())
        return SystemPromptParts()

    with Session.create(tmp_path) as session:
        idle = Agent(model=scripted_model(numbered()), session=session, prompt_parts=parts)
        await idle.prompt("1")
        script = [*calling(("stubborn", {})), "after"]
        busy = Agent(model=scripted_model(script), tools=[stubborn], session=session, prompt_parts=parts)
        run = busy.prompt("2")
        await entered.wait()
        message_id = busy.state.messages[0].id
        rewind = asyncio.ensure_future(elsewhere(lambda: busy.rewind_to_message(message_id)))
        await stopping.wait()  # the idle agent has been stopped by now
        sent = [agent.prompt("sent while it rewinds") for agent in (idle, busy)]
        assert [prompt.status for prompt in sent] == ["queued", "queued"]
        released.set()
        await rewind
        results = await asyncio.wait_for(asyncio.gather(*(prompt.wait() for prompt in sent)), SOON)
        assert [result.aborted for result in results] == [False, False]
        assert (await run.wait()).aborted
        assert set(threads) == {threading.current_thread()}
        assert prompts(idle) == ["1", "sent while it rewinds"]
        assert prompts(busy) == ["sent while it rewinds"]
        assert (await elsewhere(lambda: idle.prompt("3"))).text  # no loop keeps an agent that rests


async def test_a_busy_agent_is_compacted_in_the_loop_of_its_turn() -> None:
    threads: list[threading.Thread] = []

    async def compactor(_: object) -> None:
        threads.append(threading.current_thread())

    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold], on_compact=compactor)
    run = agent.prompt("A")
    await hold.entered.wait()
    threads.clear()
    assert await elsewhere(agent.compact) is False
    assert threads == [threading.current_thread()]
    hold.release()
    assert (await run).text == "done"
    other, hold = held("-")
    other.prompt("A")
    await hold.entered.wait()
    with pytest.raises(AgentError, match="has no compactor"):
        await elsewhere(other.compact)
    await other.abort()


async def test_an_idle_agent_is_compacted_in_the_loop_of_the_caller_and_prompts_of_others_wait() -> None:
    begun, shortened = threading.Event(), threading.Event()
    compacted: list[threading.Thread] = []
    answered: list[threading.Thread] = []
    shortened.set()

    async def compactor(_: object) -> None:
        compacted.append(threading.current_thread())
        begun.set()
        await asyncio.to_thread(shortened.wait, SOON)

    def parts() -> SystemPromptParts:
        answered.append(threading.current_thread())
        return SystemPromptParts()

    agent = Agent(model=scripted_model(numbered()), on_compact=compactor, prompt_parts=parts)
    await agent.prompt("1")
    begun.clear()
    shortened.clear()
    compacted.clear()
    compacting = asyncio.ensure_future(elsewhere(agent.compact))
    assert await asyncio.to_thread(begun.wait, SOON)
    run = agent.prompt("2")
    assert (run.status, agent._runner.is_busy) == ("queued", False)
    shortened.set()
    assert await compacting is False
    assert (await asyncio.wait_for(run.wait(), SOON)).text == "answer 2"
    assert compacted[0] is not threading.current_thread()
    assert set(compacted[1:]) == set(answered) == {threading.current_thread()}
    with pytest.raises(AgentError, match="has no compactor"):  # and the loop does not keep the agent
        await elsewhere((other := Agent(model=scripted_model(numbered()))).compact)
    assert (await other.prompt("1")).text == "answer 1"


async def test_a_checkpoint_from_another_loop_stops_a_compaction() -> None:
    begun = asyncio.Event()

    async def compactor(_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    agent = Agent(model=scripted_model(numbered()), on_compact=compactor)
    compacting = asyncio.ensure_future(agent.compact())
    await begun.wait()
    await elsewhere(lambda: agent.checkpoint("What matters."))
    assert await asyncio.wait_for(compacting, SOON) is False
    assert "What matters." in said(agent)[-1]


def test_a_prompt_whose_loop_is_closed_in_the_middle_of_a_rewind_is_settled() -> None:
    agent = Agent(model=scripted_model(["Next.", "Last."]))

    async def leave_in_a_rewind() -> list[Run[str]]:
        await agent._runner.rewinding()
        return [agent.prompt(text) for text in ("one", "two")]

    loop = asyncio.new_event_loop()
    runs = loop.run_until_complete(leave_in_a_rewind())
    loop.close()
    assert agent.run_sync("three").text == "Next."
    assert [run.status for run in runs] == ["aborted", "aborted"]
    assert agent.state.queue == ()
    assert agent.run_sync("four").text == "Last."
