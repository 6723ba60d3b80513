"""The loop, seen from outside: prompts in, events and stored messages out. Only the model is scripted."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from collections.abc import AsyncIterator

import pytest

from planck_nb import Agent, Tool
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits, SessionSpend, TurnBudget
from planck_nb.agent.message_log import MemoryLog
from planck_nb.agent.prompt_queue import PromptQueue
from planck_nb.agent.tool_calls import MAX_CONCURRENT, run_calls
from planck_nb.agent.turn_runner import TurnRunner
from planck_nb.agent.wait_graph import Participant
from planck_nb.ai.messages import AssistantMessage, Message, ToolCallPart, ToolResultMessage, UserMessage
from planck_nb.base.async_tasks import uninterrupted
from planck_nb.base.errors import AgentStoppedError, NoRunningLoopError, ProviderError
from planck_nb.base.event_log import Subscription
from planck_nb.testing import Call, Reply, scripted_model


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calling(*calls: tuple[str, dict[str, object]], then: str = "done") -> list[Reply | str]:
    return [Reply(calls=[Call(name, args) for name, args in calls]), then]


async def events_of(agent: Agent, prompt: str) -> list[AgentEvent]:
    return [event async for event in agent.prompt(prompt)]


def kinds(events: list[AgentEvent]) -> list[str]:
    """The types of the events, runs of deltas as one."""
    found: list[str] = []
    for event in events:
        if not found or found[-1] != event.type or not event.type.endswith("_delta"):
            found.append(event.type)
    return found


def results(agent: Agent) -> list[tuple[str, bool]]:
    """Texts and error flags of all tool results of the conversation."""
    messages = [entry.message for entry in agent.state.messages]
    found = [part for message in messages if isinstance(message, ToolResultMessage) for part in message.content]
    return [(part.text, part.is_error) for part in found]


def answered_exactly_once(agent: Agent) -> bool:
    """Whether each stored call has one result, in the message right after it, in call order."""
    messages = [entry.message for entry in agent.state.messages]
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            answer = messages[index + 1]
            if not isinstance(answer, ToolResultMessage):
                return False
            if [part.id for part in answer.content] != [call.id for call in message.tool_calls]:
                return False
    return True


async def test_a_prompt_streams_and_ends() -> None:
    agent = Agent(model=scripted_model([Reply("Hello there.", thinking="A greeting.")]))
    events = await events_of(agent, "hi")
    assert kinds(events) == [
        "turn_start", "message", "thinking_delta", "text_delta", "message", "usage_delta", "turn_end",
    ]  # fmt: skip
    assert "".join(event.text for event in events if event.type == "text_delta") == "Hello there."
    assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
    assert agent.status == "idle"


async def test_a_tool_turn_runs_the_tool_and_answers_with_its_result() -> None:
    model = scripted_model([Reply(calls=[Call("add", {"a": 20, "b": 22})]), "It is {result}."])
    agent = Agent(model=model, tools=[add])
    result = await agent.prompt("what is 20 and 22?")
    assert result.text == "It is 42."
    assert [message.type for message in result.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert results(agent) == [("42", False)]


async def test_results_are_in_call_order_whatever_ends_first() -> None:
    released = asyncio.Event()

    async def slow() -> str:
        await released.wait()
        return "slow"

    async def fast() -> str:
        released.set()
        return "fast"

    agent = Agent(model=scripted_model(calling(("slow", {}), ("fast", {}))), tools=[slow, fast])
    await agent.prompt("go")
    assert [text for text, _ in results(agent)] == ["slow", "fast"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("ghost", {}), "Error: unknown tool: ghost. Known are: add, broken."),
        (("ad", {}), "Error: unknown tool: ad. Did you mean add?"),
        (("broken", {}), "Error: ValueError: no such city"),
        (("add", {"a": 1}), "Error: Invalid arguments for add: b: Field required."),
        (("add", {"a": 1, "b": "x"}), "Error: Invalid arguments for add: b: Input should be a valid integer"),
        (("add", {"a": 1, "b": 2, "c": 3}), "Error: Invalid arguments for add: c: Extra inputs are not permitted."),
    ],
)
async def test_a_failing_call_becomes_a_result_and_the_loop_goes_on(
    call: tuple[str, dict[str, object]], said: str
) -> None:
    def broken() -> str:
        raise ValueError("no such city")

    agent = Agent(model=scripted_model(calling(call, then="I see.")), tools=[add, broken])
    events = await events_of(agent, "go")
    ends = [event for event in events if event.type == "tool_end"]
    assert [event.type for event in events].count("tool_start") == len(ends) == 1
    assert ends[0].error
    assert ends[0].result.startswith(said)
    assert events[-1].type == "turn_end"


async def waits_for_something_cancelled() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def fails_like_a_test() -> None:
    pytest.fail("not as expected")


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (Tool(name="odd", description="", parameters={"type": "objekt"}, execute_fn=lambda args: 1), "objekt"),
        (Tool(name="odd", description="", parameters={"$ref": "#/nope"}, execute_fn=lambda args: 1), "nope"),
        (Tool(name="odd", description="", execute_fn=lambda args: waits_for_something_cancelled()), "was cancelled"),
        (Tool(name="odd", description="", execute_fn=lambda args: cancels_itself()), "was stopped"),
        (Tool(name="odd", description="", execute_fn=lambda args: fails_like_a_test()), "not as expected"),
    ],
    ids=["schema", "reference", "cancelled", "cancels itself", "no Exception"],
)
async def test_whatever_a_tool_does_its_call_has_a_result(tool: Tool, said: str) -> None:
    agent = Agent(model=scripted_model(calling(("odd", {}), ("add", {"a": 1, "b": 1}), then="fine")), tools=[tool, add])
    assert (await agent.prompt("go")).text == "fine"
    (text, failed), other = results(agent)
    assert failed
    assert said in text
    assert other == ("2", False)


async def test_a_stopping_agent_takes_no_prompts_and_ends_last() -> None:
    held = asyncio.Event()

    async def slow_to_stop() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await held.wait()

    agent = Agent(model=scripted_model(calling(("slow_to_stop", {}))), tools=[slow_to_stop], name="bob")
    watcher = agent.subscribe(since=0)
    run = agent.prompt("go")
    async for event in run:
        if event.type == "tool_start":
            break
    stopping = [asyncio.create_task(agent.stop()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(AgentStoppedError):
        agent.prompt("one more")
    held.set()
    await asyncio.gather(*stopping)
    assert run.status == "aborted"
    assert [event.type async for event in watcher][-2:] == ["aborted", "agent_stopped"]
    assert answered_exactly_once(agent)


async def test_a_given_schema_is_enforced() -> None:
    ran: list[object] = []
    tool = Tool(
        name="pick",
        description="Pick a colour.",
        parameters={"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]},
        execute_fn=ran.append,
    )
    agent = Agent(model=scripted_model(calling(("pick", {"colour": "green"}))), tools=[tool])
    await agent.prompt("go")
    assert not ran
    text, failed = results(agent)[0]
    assert failed
    assert "'red', 'blue'" in text


@pytest.mark.parametrize(
    ("text", "said"), [("{bad", r"not a JSON object: \{bad"), ("", "cut off before the arguments")]
)
async def test_arguments_that_are_not_json_are_never_run(text: str, said: str) -> None:
    agent = Agent(model=scripted_model([]), tools=[add])
    turn = TurnRunner(
        [],
        setup=agent._setup,
        recorder=agent._recorder,
        window=agent._runner.window,
        gate=None,
        queue=PromptQueue(),
        budget=TurnBudget(Limits(), SessionSpend()),
        participant=Participant("a"),
    )
    await run_calls(turn, [ToolCallPart("1", "add", {}, invalid=text)])
    result = agent.state.messages[-1].message
    assert isinstance(result, ToolResultMessage)
    assert result.content[0].is_error
    assert re.search(said, result.content[0].text)


async def test_prompts_that_join_share_the_turn_after_the_running_one() -> None:
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "ok"

    agent = Agent(model=scripted_model([*calling(("wait", {}), then="first"), "second"]), tools=[wait])
    first = agent.prompt("A")
    second, third = agent.prompt("B", join=True), agent.prompt("C", join=True)
    assert [prompt.text for prompt in agent.state.queue] == ["B", "C"]
    assert [event.type for event in second.events.since(0)] == ["queued"]
    assert [event.text for event in first.events.since(0) if event.type == "queued"] == ["B", "C"]
    gate.set()
    assert (await first).text == "first"
    assert (await second).text == (await third).text == "second"
    said = [entry.message.text for entry in agent.state.messages if isinstance(entry.message, UserMessage)]
    assert said == ["A", "B", "C"]
    assert agent.state.turn == 1
    assert agent.state.queue == ()


async def test_a_queued_prompt_can_be_withdrawn() -> None:
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "ok"

    agent = Agent(model=scripted_model(calling(("wait", {}))), tools=[wait])
    first = agent.prompt("A")
    second = agent.prompt("B")
    second.abort()
    assert (await second).aborted
    gate.set()
    await first
    assert [entry.message.text for entry in agent.state.messages if isinstance(entry.message, UserMessage)] == ["A"]


async def test_stop_while_streaming_keeps_the_text_so_far() -> None:
    agent = Agent(model=scripted_model(["one two three four five", "again"], pace=0.01))
    run = agent.prompt("count")
    async for event in run:
        if event.type == "text_delta" and "two" in event.text:
            run.abort()
    result = await run
    assert result.aborted
    assert result.text.startswith("one two")
    assert "five" not in result.text
    last = agent.state.messages[-1].message
    assert isinstance(last, AssistantMessage)
    assert last.stop_reason == "aborted"
    assert agent.status == "idle"
    assert (await agent.prompt("go on")).text == "again"


async def test_stop_while_a_tool_runs_answers_every_call() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent = Agent(model=scripted_model(calling(("forever", {}), ("add", {"a": 1, "b": 1}))), tools=[forever, add])
    run = agent.prompt("go")
    await started.wait()
    await agent.abort()
    assert ended.is_set()
    assert run.status == "aborted"
    assert answered_exactly_once(agent)
    assert agent.state.running == ()
    assert (await run).aborted


def test_a_loop_that_ends_while_a_tool_is_stopped_leaves_every_call_answered() -> None:
    async def stubborn() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopping.set()
            await asyncio.Event().wait()

    async def main() -> Agent:
        agent = Agent(model=scripted_model(calling(("stubborn", {}), ("add", {"a": 1, "b": 1}))), tools=[stubborn, add])
        run = agent.prompt("go")
        await started.wait()
        run.abort()
        await stopping.wait()
        return agent

    started, stopping = asyncio.Event(), asyncio.Event()
    agent = asyncio.run(main())
    assert answered_exactly_once(agent)
    assert agent.status == "idle"


async def test_stop_does_not_wait_for_a_blocking_function() -> None:
    release = threading.Event()
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def block() -> str:
        loop.call_soon_threadsafe(entered.set)
        release.wait(60)
        return "late"

    agent = Agent(model=scripted_model([*calling(("block", {})), "fine"]), tools=[block])
    agent.prompt("go")
    await entered.wait()
    began = loop.time()
    await agent.abort()
    assert loop.time() - began < 20  # the function would block for a minute
    release.set()
    assert answered_exactly_once(agent)
    assert ("late", False) not in results(agent)


class SlowLog(MemoryLog):
    """A log whose disk waits for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Semaphore(0)
        self.disk = asyncio.Semaphore(0)

    async def append(self, message: Message, *, turn: int, time: float) -> int:
        self.waiting.release()
        await uninterrupted(asyncio.ensure_future(self.disk.acquire()))
        return await super().append(message, turn=turn, time=time)


@pytest.mark.parametrize("written", [1, 2, 3, 4])
async def test_stop_while_a_message_is_written_loses_and_doubles_nothing(written: int) -> None:
    slow = SlowLog()

    class Store:
        id = "s"

        def log(self, agent_id: str) -> SlowLog:
            return slow

    agent = Agent(model=scripted_model(calling(("add", {"a": 1, "b": 1}))), tools=[add], session=Store())
    agent.prompt("go")
    for _ in range(written - 1):
        await slow.waiting.acquire()
        slow.disk.release()
    await slow.waiting.acquire()
    aborting = asyncio.create_task(agent.abort())
    await asyncio.sleep(0)
    for _ in range(9):
        slow.disk.release()
    await aborting
    assert [(entry.id, entry.message) for entry in agent.state.messages] == slow.messages()
    assert len(slow.messages()) >= written
    assert answered_exactly_once(agent)
    assert agent.status == "idle"


async def test_a_tool_that_takes_too_long_is_given_up() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    tool = Tool(name="forever", description="", execute_fn=lambda args: forever(), timeout=0.01)
    agent = Agent(model=scripted_model(calling(("forever", {}))), tools=[tool])
    await agent.prompt("go")
    assert "did not return within 0.01 s" in results(agent)[0][0]


async def test_cancelling_the_await_aborts_and_observing_does_not() -> None:
    agent = Agent(model=scripted_model(["one two three four five six", "fine"], pace=0.01))
    run = agent.prompt("count")
    observer = asyncio.create_task(run.wait())
    await anext(aiter(run))
    observer.cancel()
    await asyncio.wait([observer])
    assert not run.events.closed

    async def own() -> None:
        await run

    owner = asyncio.create_task(own())
    await asyncio.sleep(0)
    owner.cancel()
    await asyncio.wait([owner])
    assert owner.cancelled()
    assert run.status == "aborted"


async def test_a_stream_that_breaks_fails_the_run_and_keeps_what_came() -> None:
    agent = Agent(model=scripted_model([Reply("half an ans", error="The connection broke."), "better"]))
    run = agent.prompt("hi")
    with pytest.raises(ProviderError, match="The connection broke"):
        await run
    last = agent.state.messages[-1].message
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.stop_reason, last.error) == ("half an ans", "error", "The connection broke.")
    assert last.api == "demo"  # without the format a signature could be sent back to somebody else
    assert agent.state.error == "The connection broke."
    assert [event.type async for event in run][-1] == "error"
    assert (await agent.prompt("again")).text == "better"
    assert agent.state.error is None


async def test_prompts_that_waited_are_answered_after_a_failed_turn() -> None:
    agent = Agent(model=scripted_model([Reply("x", error="broken"), "fine"]))
    first, second = agent.prompt("A"), agent.prompt("B")
    with pytest.raises(ProviderError):
        await first
    assert (await second).text == "fine"


async def test_a_failure_that_nobody_awaits_is_silent() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    agent = Agent(model=scripted_model([]))
    run = agent.prompt("hi")
    assert [event.type async for event in run][-1] == "error"
    del run
    gc.collect()
    assert complaints == []


async def test_usage_and_cost_add_up() -> None:
    from dataclasses import replace

    from planck_nb.ai.models import Pricing

    model = replace(scripted_model(["a b c", "d e"]), pricing=Pricing(input=1_000_000, output=2_000_000))
    agent = Agent(model=model)
    first = await agent.prompt("one two")
    assert (first.usage.input_tokens, first.usage.output_tokens, first.cost) == (2, 3, 8.0)
    await agent.prompt("x")
    assert agent.state.usage.output_tokens == 5
    assert agent.state.cost == 8.0 + (2 + 3 + 1) + 4


async def test_tools_come_and_go_between_requests() -> None:
    agent = Agent(model=scripted_model([*calling(("add", {"a": 1, "b": 1})), *calling(("add", {"a": 1, "b": 1}))]))
    agent.add_tool(add)
    await agent.prompt("go")
    agent.remove_tool("add")
    await agent.prompt("go")
    assert results(agent) == [("2", False), ("Error: unknown tool: add.", True)]


async def test_a_tool_of_the_same_name_replaces_the_old_one() -> None:
    def version(text: str) -> Tool:
        return Tool(name="say", description="", execute_fn=lambda args: text)

    agent = Agent(model=scripted_model(calling(("say", {}))), tools=[version("old")])
    agent.add_tool(version("new"))
    await agent.prompt("go")
    assert results(agent) == [("new", False)]


async def test_a_stopped_agent_takes_no_prompts() -> None:
    async with Agent(model=scripted_model(["hi"]), name="bob") as agent:
        await agent.prompt("hi")
    with pytest.raises(AgentStoppedError, match="bob was stopped"):
        agent.prompt("again")


def test_a_prompt_without_a_loop_says_what_to_do() -> None:
    with pytest.raises(NoRunningLoopError, match=r"asyncio\.run"):
        Agent(model=scripted_model(["hi"])).prompt("hi")


@pytest.mark.one_process
async def test_late_subscribers_replay_and_slow_ones_never_stall() -> None:
    agent = Agent(model=scripted_model(["word " * 3_000], pace=1e-9))
    slow = agent.subscribe(since=0)
    await agent.prompt("go")
    seen = [event async for event in _until_idle(slow)]
    assert slow.missed > 0
    assert seen[-1].type == "turn_end"
    replay = agent.subscribe(since=0)
    assert (await anext(replay)).type in {"agent_started", "text_delta"}


async def _until_idle(subscription: Subscription[AgentEvent]) -> AsyncIterator[AgentEvent]:
    async for event in subscription:
        yield event
        if event.type == "turn_end":
            return


async def test_every_signature_of_a_tool_function_is_served() -> None:
    seen: list[tuple[object, ...]] = []
    tools = [
        Tool(name="one", description="", execute_fn=lambda args: seen.append((args,))),
        Tool(name="two", description="", execute_fn=lambda call_id, args: seen.append((call_id, args))),
        Tool(
            name="three",
            description="",
            execute_fn=lambda agent_id, call_id, args: seen.append((agent_id, call_id, args)),
        ),
    ]
    agent = Agent(model=scripted_model(calling(("one", {}), ("two", {}), ("three", {}))), tools=tools, id="me")
    await agent.prompt("go")
    assert sorted(seen, key=len) == [({},), ("call_1_2", {}), ("me", "call_1_3", {})]


async def test_no_more_than_so_many_calls_of_a_reply_run_at_once() -> None:
    running = most = 0
    full, go = asyncio.Event(), asyncio.Event()

    async def wait(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == MAX_CONCURRENT:
            full.set()
        await go.wait()
        running -= 1
        return number

    calls: list[tuple[str, dict[str, object]]] = [("wait", {"number": number}) for number in range(MAX_CONCURRENT + 8)]
    agent = Agent(model=scripted_model(calling(*calls)), tools=[wait])
    run = agent.prompt("go")
    await full.wait()
    assert len(agent.state.running) == MAX_CONCURRENT
    go.set()
    await run
    assert most == MAX_CONCURRENT
    assert results(agent) == [(str(number), False) for number in range(MAX_CONCURRENT + 8)]


async def test_calls_that_only_wait_all_run_at_once() -> None:
    count = MAX_CONCURRENT + 8
    barrier = asyncio.Barrier(count)

    async def wait(_args: object) -> str:
        await barrier.wait()
        return "all were there"

    calls: list[tuple[str, dict[str, object]]] = [("wait", {"number": number}) for number in range(count)]
    tool = Tool(name="wait", description="", execute_fn=wait, waits=True)
    agent = Agent(model=scripted_model(calling(*calls)), tools=[tool])
    async with asyncio.timeout(20):
        await agent.prompt("go")
    assert results(agent) == [("all were there", False)] * count
