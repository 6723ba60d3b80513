"""Tests for every engine.

An engine only sends requests and reads answers; agents must not notice a difference.

Example:
    A test module for an engine of your own::

        from planck_nb.testing.engine_tests import EngineTests

        class TestMyEngine(EngineTests):
            @pytest.fixture
            def engine(self):
                return MyEngine()
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from planck_nb import ai
from planck_nb.agent.agent import Agent
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.approval.policy import Policy
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.effect import Effect
from planck_nb.agent.limits import Limits
from planck_nb.ai.dialects.demo import Call, Reply
from planck_nb.ai.engine import Engine
from planck_nb.ai.retries.retry import RetryPolicy, Timeouts
from planck_nb.base.errors import (
    AgentStoppedError,
    AuthenticationError,
    BadRequestError,
    OutputError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
)
from planck_nb.base.json_types import JsonObject
from planck_nb.testing.scripted_server import Refusal, ScriptedServer

Make = Callable[..., Agent]

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _change(calls_made: list[int]) -> Tool:
    """Make a tool with approval which notes its calls."""

    def change(_arguments: JsonObject) -> str:
        calls_made.append(1)
        return "changed"

    effects = [Effect("execute", "change")]
    return Tool(name="change", description="Change something.", execute_fn=change, touches=lambda _: effects)


class EngineTests:
    """Tests for an engine, from a subclass's fixture `engine`."""

    @pytest_asyncio.fixture
    async def client(self, engine: Engine | None) -> AsyncIterator[ai.Client]:
        """A client with the engine."""
        async with ai.Client(engine=engine, retries=RetryPolicy(retries=3, base=0.01)) as client:
            yield client

    @pytest.fixture
    def make(self, client: ai.Client) -> Make:
        """Make an agent for a server."""

        def make(server: ScriptedServer, **settings: Any) -> Agent:  # noqa: ANN401 - of `Agent`
            return Agent(model=settings.pop("model", None) or server.model(), client=client, **settings)

        return make

    # Answers

    async def test_a_prompt_is_answered(self, make: Make) -> None:
        async with ScriptedServer(["Hello there."]) as server:
            assert (await make(server).prompt("Hi.")).text == "Hello there."

    async def test_the_request_holds_prompt_instructions_and_key(self, make: Make) -> None:
        async with ScriptedServer(["Yes."]) as server:
            await make(server, system_prompt="Be brief.").prompt("Is 7 prime?")
            [body], [key] = server.requests, server.keys
        assert [message["content"] for message in body["messages"]] == ["Be brief.", "Is 7 prime?"]
        assert key == "scripted-key"

    async def test_text_streams_before_the_answer_is_whole(self, make: Make) -> None:
        async with ScriptedServer(["one two three four"], held=True) as server:
            run = make(server).prompt("Count.")
            async for event in run:
                if event.type == "text_delta" and event.text.startswith("one"):
                    break
            assert run.status == "running"
            server.release()
            assert (await run).text == "one two three four"

    async def test_deltas_join_to_the_text(self, make: Make) -> None:
        text = " ".join(f"word{number}" for number in range(300))
        async with ScriptedServer([text]) as server:
            run = make(server).prompt("Write.")
            await run
            assert "".join([event.text async for event in run if event.type == "text_delta"]) == text

    async def test_other_scripts_and_signs_arrive_unchanged(self, make: Make) -> None:
        text = "naïve 数据 😀 \u2028 \x00 end"
        async with ScriptedServer([text]) as server:
            assert (await make(server).prompt("Echo.")).text == text

    async def test_thinking_comes_before_text(self, make: Make) -> None:
        async with ScriptedServer([Reply(text="42", thinking="Six times seven.")]) as server:
            run = make(server).prompt("What?")
            assert (await run).text == "42"
            kinds = [event.type async for event in run]
        assert kinds.index("thinking_delta") < kinds.index("text_delta")

    async def test_tokens_are_counted(self, make: Make) -> None:
        async with ScriptedServer(["one two"]) as server:
            agent = make(server)
            await agent.prompt("Hi.")
        assert (agent.state.usage.input_tokens, agent.state.usage.output_tokens) == (10, 3)

    async def test_a_conversation_is_sent_whole(self, make: Make) -> None:
        async with ScriptedServer(["first", "second"]) as server:
            agent = make(server)
            await agent.prompt("one")
            assert (await agent.prompt("two")).text == "second"
            roles = [message["role"] for message in server.requests[-1]["messages"]]
        assert roles == ["user", "assistant", "user"]

    async def test_pictures_are_sent(self, make: Make) -> None:
        async with ScriptedServer(["A pixel."]) as server:
            model = server.model(modalities=("text", "image"))
            image = ai.ImagePart(_PIXEL, "image/png")
            await make(server, model=model).prompt([ai.TextPart("What is it?"), image])
            kinds = [part["type"] for part in server.requests[0]["messages"][0]["content"]]
        assert kinds == ["text", "image_url"]

    async def test_a_structured_answer_is_read(self, make: Make) -> None:
        async with ScriptedServer(['{"apples": 3}']) as server:
            assert (await make(server).prompt("Count.", output=dict[str, int])).output == {"apples": 3}

    async def test_a_structured_answer_is_corrected_once(self, make: Make) -> None:
        async with ScriptedServer(["three", '{"apples": 3}']) as server:
            assert (await make(server).prompt("Count.", output=dict[str, int])).output == {"apples": 3}

    async def test_a_structured_answer_that_stays_wrong_fails(self, make: Make) -> None:
        async with ScriptedServer(["three", "four"]) as server:
            with pytest.raises(OutputError):
                await make(server).prompt("Count.", output=dict[str, int])

    async def test_a_cut_answer_is_known_as_cut(self, make: Make) -> None:
        async with ScriptedServer([Reply(text="so far", stop_reason="length")]) as server:
            assert (await make(server).prompt("Write.")).stop_reason == "length"

    async def test_many_agents_are_answered_side_by_side(self, make: Make) -> None:
        async with ScriptedServer(["one", "two", "three"], pace=0.002) as server:
            agents = [make(server) for _ in range(30)]
            for text in ("one", "two", "three"):
                results = await asyncio.gather(*(agent.prompt("Next.") for agent in agents))
                assert {result.text for result in results} == {text}
            assert len(server.requests) == 90

    async def test_a_long_conversation_is_sent(self, make: Make) -> None:
        async with ScriptedServer(["Read."]) as server:
            await make(server).prompt("x" * 3_000_000)
            assert len(server.requests[0]["messages"][0]["content"]) == 3_000_000

    # Tools

    async def test_a_tool_is_called_and_its_result_sent(self, make: Make) -> None:
        script = [Reply(calls=[Call("add", {"a": 1, "b": 2})]), "It is {result}."]
        async with ScriptedServer(script) as server:
            assert (await make(server, tools=[add]).prompt("1 + 2?")).text == "It is 3."

    async def test_calls_of_one_reply_run_side_by_side(self, make: Make) -> None:
        barrier = asyncio.Barrier(2)

        async def meet() -> str:
            await barrier.wait()
            return "met"

        async with ScriptedServer([Reply(calls=[Call("meet", {}), Call("meet", {})]), "done"]) as server:
            assert (await make(server, tools=[meet]).prompt("Meet.")).text == "done"

    async def test_a_failed_tool_is_told_to_the_model(self, make: Make) -> None:
        def fail() -> None:
            raise ValueError("no such file")

        async with ScriptedServer([Reply(calls=[Call("fail", {})]), "{result}"]) as server:
            assert "no such file" in (await make(server, tools=[fail]).prompt("Try.")).text

    async def test_an_unknown_tool_is_told_to_the_model(self, make: Make) -> None:
        async with ScriptedServer([Reply(calls=[Call("absent", {})]), "{result}"]) as server:
            assert "absent" in (await make(server, tools=[add]).prompt("Try.")).text

    async def test_a_call_waits_for_approval(self, make: Make, tmp_path: Path) -> None:
        approvals = Approvals(Policy.ask_before_changes(tmp_path))
        calls_made: list[int] = []
        async with ScriptedServer([Reply(calls=[Call("change", {})]), "{result}"]) as server:
            agent = make(server, tools=[_change(calls_made)], approvals=approvals)
            run = agent.prompt("Write.")
            async for event in run:
                if event.type == "approval_request":
                    agent.decide(event.id, allow=True)
            assert (await run).text == "changed"
        assert calls_made == [1]

    async def test_a_denied_call_is_told_to_the_model(self, make: Make, tmp_path: Path) -> None:
        approvals = Approvals(Policy.ask_before_changes(tmp_path))
        calls_made: list[int] = []
        async with ScriptedServer([Reply(calls=[Call("change", {})]), "{result}"]) as server:
            agent = make(server, tools=[_change(calls_made)], approvals=approvals)
            run = agent.prompt("Write.")
            async for event in run:
                if event.type == "approval_request":
                    agent.decide(event.id, allow=False, reason="not today")
            assert "not today" in (await run).text
        assert calls_made == []

    # Steering, queues, ends

    async def test_steering_enters_the_turn(self, make: Make) -> None:
        is_held, leave = asyncio.Event(), asyncio.Event()

        async def hold() -> str:
            is_held.set()
            await leave.wait()
            return "held"

        async with ScriptedServer([Reply(calls=[Call("hold", {})]), "left"]) as server:
            agent = make(server, tools=[hold])
            run = agent.prompt("Go.")
            await is_held.wait()
            agent.steer("Left, please.")
            leave.set()
            assert (await run).text == "left"
            assert server.requests[-1]["messages"][-1]["content"] == "Left, please."

    async def test_prompts_queue(self, make: Make) -> None:
        async with ScriptedServer(["one", "two"]) as server:
            agent = make(server)
            first, second = agent.prompt("first"), agent.prompt("second")
            assert [(await first).text, (await second).text] == ["one", "two"]

    async def test_an_abort_ends_the_request_and_keeps_the_text(self, make: Make) -> None:
        async with ScriptedServer(["one two three"], held=True) as server:
            agent = make(server)
            run = agent.prompt("Count.")
            async for event in run:
                if event.type == "text_delta" and "two" in event.text:
                    break
            await agent.abort()
            await server.until(ended_early=1)
        assert "one two" in str(agent.state.messages[-1].message)

    async def test_an_abort_before_the_first_word_ends_the_request(self, make: Make) -> None:
        async with ScriptedServer([""], held=True, pace=60.0) as server:
            agent = make(server)
            agent.prompt("Wait.")
            await server.until(answering=1)
            await agent.abort()
            await server.until(ended_early=1, answering=0)

    async def test_after_an_abort_the_agent_answers(self, make: Make) -> None:
        async with ScriptedServer(["one two three", "again"], held=True) as server:
            agent = make(server)
            agent.prompt("Count.")
            await server.until(answering=1)
            await agent.abort()
            server.release()
            assert (await agent.prompt("Again.")).text

    async def test_a_stopped_agent_accepts_nothing(self, make: Make) -> None:
        async with ScriptedServer(["Hello."]) as server:
            agent = make(server)
            await agent.stop()
            with pytest.raises(AgentStoppedError):
                agent.prompt("Hi.")

    async def test_a_cancelled_task_ends_its_request(self, client: ai.Client) -> None:
        async with ScriptedServer(["one two three"], held=True) as server:
            context = ai.Context(messages=[ai.UserMessage("Count.")])
            task = asyncio.create_task(client.complete(server.model(), context))
            await server.until(answering=1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.until(ended_early=1)

    # Limits

    async def test_a_limit_of_rounds_ends_the_turn(self, make: Make) -> None:
        script = [Reply(calls=[Call("add", {"a": number, "b": 1})]) for number in range(5)]
        async with ScriptedServer(script) as server:
            assert "`rounds`" in (await make(server, tools=[add], limits=Limits(rounds=2)).prompt("Go on.")).limit
            assert len(server.requests) == 2

    async def test_a_limit_of_cost_ends_the_turn(self, make: Make) -> None:
        script = [Reply(calls=[Call("add", {"a": number, "b": 1})]) for number in range(5)]
        async with ScriptedServer(script) as server:
            limits = Limits(cost=0.000_001, unknown_price=1.0)
            assert "`cost`" in (await make(server, tools=[add], limits=limits).prompt("Go on.")).limit
            assert len(server.requests) == 1

    async def test_a_limit_of_time_ends_the_request(self, make: Make) -> None:
        async with ScriptedServer(["one two three"], held=True) as server:
            assert "`seconds`" in (await make(server, limits=Limits(seconds=0.5)).prompt("Count.")).limit
            await server.until(ended_early=1)

    # Refusals and faults

    async def test_a_busy_server_is_asked_again(self, make: Make) -> None:
        refusals = [Refusal(429, headers={"retry-after": "0"}), Refusal(503)]
        async with ScriptedServer(["At last."], refusals=refusals) as server:
            assert (await make(server).prompt("Hi.")).text == "At last."
            assert len(server.requests) == 3

    @pytest.mark.parametrize(
        ("status", "kind"),
        [(400, BadRequestError), (401, AuthenticationError), (429, RateLimitError), (503, ProviderUnavailableError)],
    )
    async def test_a_refusal_keeps_its_kind_and_words(
        self, client: ai.Client, status: int, kind: type[ProviderError]
    ) -> None:
        client.retries = RetryPolicy(retries=0)
        async with ScriptedServer([], refusals=[Refusal(status, "scripted words")]) as server:
            with pytest.raises(kind, match="scripted words") as failure:
                await client.complete(server.model(), ai.Context(messages=[ai.UserMessage("Hi.")]))
        assert (failure.value.provider, failure.value.model) == ("openai", "scripted")

    async def test_a_missing_server_is_named(self, client: ai.Client) -> None:
        async with ScriptedServer([]) as server:
            model = server.model()
        with pytest.raises(ProviderConnectionError, match=r"127\.0\.0\.1"):
            await client.complete(model, ai.Context(messages=[ai.UserMessage("Hi.")]))

    async def test_an_error_inside_a_stream_keeps_the_text(self, client: ai.Client) -> None:
        async with ScriptedServer([Reply(text="so far", error="it broke")]) as server:
            stream = client.stream(server.model(), ai.Context(messages=[ai.UserMessage("Hi.")]))
            with pytest.raises(ProviderError, match="it broke"):
                async for _ in stream:
                    pass
            await stream.aclose()
        assert stream.message.text == "so far"

    async def test_a_document_in_place_of_a_stream_is_refused(self, client: ai.Client) -> None:
        async with ScriptedServer([], refusals=[Refusal(200)]) as server:
            with pytest.raises((ProviderProtocolError, BadRequestError, ProviderError)):
                await client.complete(server.model(), ai.Context(messages=[ai.UserMessage("Hi.")]))

    async def test_a_silent_server_is_given_up(self, engine: Engine | None) -> None:
        timeouts = Timeouts(first_byte=30.0, idle=0.3)
        client = ai.Client(engine=engine, timeouts=timeouts, retries=RetryPolicy(retries=0))
        async with ScriptedServer(["one two three"], held=True) as server, client:
            with pytest.raises(ProviderTimeoutError):
                await client.complete(server.model(), ai.Context(messages=[ai.UserMessage("Hi.")]))
            await server.until(ended_early=1)

    async def test_no_key_reaches_a_message(self, client: ai.Client) -> None:
        client.retries = RetryPolicy(retries=0)
        refusals = [Refusal(401, "the key sk-secret-4711 is unknown")]
        async with ScriptedServer([], refusals=refusals) as server:
            model = server.model(api_key="sk-secret-4711")
            with pytest.raises(AuthenticationError) as failure:
                await client.complete(model, ai.Context(messages=[ai.UserMessage("Hi.")]))
        assert "4711" not in str(failure.value)

    # Contexts

    async def test_a_checkpoint_shortens_the_request(self, make: Make) -> None:
        async with ScriptedServer(["one", "two"]) as server:
            agent = make(server)
            await agent.prompt("first")
            await agent.checkpoint("They counted.")
            await agent.prompt("second")
            request = str(server.requests[-1]["messages"])
        assert "They counted." in request
        assert "first" not in request

    async def test_a_compactor_shortens_the_request(self, make: Make) -> None:
        async with ScriptedServer(["one", "two"]) as server:
            agent = make(server, on_compact=lambda messages: ("Before.", messages[-1:]) if len(messages) > 2 else None)
            await agent.prompt("first")
            await agent.prompt("second")
            assert "Before." in str(server.requests[-1]["messages"])

    async def test_an_agent_asks_another(self, make: Make) -> None:
        async with ScriptedServer(["helped"]) as theirs:
            helper = make(theirs)

            async def ask() -> str:
                return (await helper.prompt("Help.")).text

            async with ScriptedServer([Reply(calls=[Call("ask", {})]), "{result}"]) as server:
                assert (await make(server, tools=[ask]).prompt("Go.")).text == "helped"
