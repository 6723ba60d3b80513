"""Agents on a server that others wrote, in every wire format: when it works, and when it breaks."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.aimock import Aimock, aimock_server

from planck_nb import Agent, ai
from planck_nb.agent.run_result import RunResult
from planck_nb.base.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    StreamTruncated,
)

pytestmark = pytest.mark.process

WIRES = {
    "messages": "anthropic",
    "chat": "openai",
    "responses": "openai",
    "generate_content": "google",
    "interactions": "google",
    "ollama": "ollama",
}
WORDS = "one two three four five six seven eight nine ten"
SAYS = {"response": {"content": WORDS}, "chunkSize": 4}
CALLS = {"response": {"toolCalls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}}


def failing(status: int, message: str, **rest: Any) -> dict[str, Any]:
    return {"response": {"error": {"message": message, "type": "server_error"}, "status": status, **rest}}


def broken(**chaos: float) -> dict[str, Any]:
    return {**SAYS, "chaos": chaos}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


BREAKS = (ProviderConnectionError, StreamTruncated)


class Line:
    """A wire format on the server, with a model that no other test asks."""

    def __init__(self, server: Aimock, api: str, name: str) -> None:
        self.server = server
        self.api = api
        self.model = ai.get_model(WIRES[api], name, base_url=server.url, api=api)
        self.client = ai.Client(
            credentials={f"{vendor}_API_KEY": "sk-none" for vendor in ("ANTHROPIC", "OPENAI", "GOOGLE")},
            retries=ai.RetryPolicy(retries=2, base=0.001),
            timeouts=ai.Timeouts(connect=5, first_byte=5, idle=5),
        )
        self.agent = Agent(model=self.model, tools=[add], client=self.client)
        self.retries: list[tuple[int, float]] = []
        self.pieces: list[str] = []
        self.calls: list[str] = []

    def script(self, *replies: dict[str, Any]) -> None:
        self.server.script(self.model.id, *replies)

    async def ask(self) -> RunResult:
        run = self.agent.prompt("Go on.")
        async for event in run:
            if event.type == "retry":
                self.retries.append((event.attempt, event.delay))
            elif event.type == "text_delta":
                self.pieces.append(event.text)
            elif event.type == "tool_args_delta":
                self.calls.append(event.name)
        return await run

    async def fails(self, kind: type[ProviderError] | tuple[type[ProviderError], ...], sentence: str) -> ProviderError:
        """Ask in vain. The error is of this kind, one sentence, and says who was asked."""
        with pytest.raises(kind, match=sentence) as caught:
            await self.ask()
        error = caught.value
        assert (error.provider, error.model) == (self.model.provider, self.model.id)
        assert "\n" not in str(error)
        assert str(error).endswith(".")
        assert "sk-none" not in str(error)
        return error

    @property
    def kept(self) -> ai.AssistantMessage | None:
        """The last reply in the conversation."""
        last = self.agent.state.messages[-1].message
        return last if isinstance(last, ai.AssistantMessage) else None

    def heard_results(self) -> list[str]:
        """The results of tools in the last request, as the server understood it."""
        messages = self.server.requests(self.model.id)[-1]["body"]["messages"]
        return [message["content"] for message in messages if message["role"] == "tool"]

    @property
    def asked(self) -> int:
        return len(self.server.requests(self.model.id))


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    with aimock_server(pathlib.Path(tmp_path_factory.mktemp("aimock"))) as server:
        yield server


@pytest.fixture(params=WIRES)
async def line(aimock: Aimock, request: pytest.FixtureRequest) -> Any:
    name = request.node.name.translate(str.maketrans("[]_", "---")).strip("-")
    made = Line(aimock, request.param, name)
    async with made.client, made.agent:
        yield made


@pytest.mark.slow
async def test_a_streamed_reply(line: Line) -> None:
    line.script(SAYS)
    result = await line.ask()
    assert result.text == "".join(line.pieces) == WORDS
    assert line.kept is not None
    assert line.kept.stop_reason == "stop"
    assert (line.retries, line.asked) == ([], 1)


async def test_a_tool_loop(line: Line) -> None:
    line.script(CALLS, CALLS, SAYS)
    result = await line.ask()
    assert result.text == WORDS
    assert len(result.messages) == 6
    for call, outcome in (result.messages[1:3], result.messages[3:5]):
        assert isinstance(call, ai.AssistantMessage)
        assert isinstance(outcome, ai.ToolResultMessage)
        assert call.stop_reason == "tool_use"
        assert [(part.name, part.args) for part in call.tool_calls] == [("add", {"a": 2, "b": 3})]
        assert [part.id for part in outcome.content] == [part.id for part in call.tool_calls]
    assert line.asked == 3
    assert line.heard_results() == ['{"output":"5"}' if line.api == "generate_content" else "5"] * 2


async def test_a_dropped_connection_is_retried(line: Line) -> None:
    line.script(broken(disconnectRate=1), SAYS)
    assert (await line.ask()).text == WORDS
    assert [attempt for attempt, _ in line.retries] == [1]
    assert line.asked == 2


async def test_connections_that_keep_dropping(line: Line) -> None:
    line.script(*[broken(disconnectRate=1)] * 4)
    await line.fails(ProviderConnectionError, "try again")
    assert [attempt for attempt, _ in line.retries] == [1, 2]
    assert line.asked == 3


async def test_a_stream_that_breaks_off(line: Line) -> None:
    line.script({**SAYS, "latency": 5, "truncateAfterChunks": 9}, SAYS)
    await line.fails(BREAKS, "again")
    assert line.kept is not None
    assert line.kept.stop_reason == "error"
    assert line.kept.text
    assert WORDS.startswith(line.kept.text)
    assert line.kept.text == "".join(line.pieces) != WORDS
    assert (line.retries, line.asked) == ([], 1)
    line.pieces.clear()
    assert (await line.ask()).text == WORDS


async def test_calls_of_a_broken_stream_are_not_run(line: Line) -> None:
    calls = [{"type": "toolCall", "name": "add", "arguments": {"a": 2, "b": 3}}] * 3
    chunks = {"messages": 7, "chat": 5, "responses": 11, "generate_content": 3, "interactions": 2, "ollama": 3}
    line.script(
        {
            "response": {"content": "Hm.", "blocks": [{"type": "text", "text": "Hm."}, *calls]},
            "chunkSize": 4,
            "latency": 5,
            "truncateAfterChunks": chunks[line.api],  # the end comes inside the first call, or right after it
        },
        SAYS,
    )
    await line.fails(BREAKS, "again")
    assert "add" in line.calls
    assert [entry.message.type for entry in line.agent.state.messages] == ["user", "assistant"]
    assert line.kept is not None
    assert (line.kept.text, line.kept.tool_calls) == ("Hm.", ())
    assert (line.retries, line.asked) == ([], 1)
    assert (await line.ask()).text == WORDS
    assert line.heard_results() == []


async def test_bytes_that_are_not_a_stream(line: Line) -> None:
    line.script(broken(malformedRate=1), SAYS)
    await line.fails(ProviderProtocolError, "instead of a stream")
    assert (line.retries, line.asked) == ([], 1)
    assert (await line.ask()).text == WORDS


@pytest.mark.slow
@pytest.mark.parametrize("line", ["messages", "ollama"], indirect=True)  # it takes a second
async def test_a_rate_limit_is_waited_for(line: Line) -> None:
    line.script(failing(429, "Slow down", retryAfter=1), SAYS)
    assert (await line.ask()).text == WORDS
    assert line.retries == [(1, 1.0)]
    assert line.asked == 2


async def test_a_server_that_keeps_failing(line: Line) -> None:
    line.script(failing(500, "It hurts"), broken(dropRate=1), failing(500, "It hurts"), SAYS)
    error = await line.fails(ProviderUnavailableError, "It hurts")
    assert isinstance(error, ProviderUnavailableError)
    assert error.status == 500
    assert [attempt for attempt, _ in line.retries] == [1, 2]
    assert line.asked == 3


@pytest.mark.slow
async def test_a_slow_server(line: Line) -> None:
    line.script({**SAYS, "streamingProfile": {"ttft": 200, "tps": 50, "jitter": 0.5}})
    assert (await line.ask()).text == WORDS
    assert "".join(line.pieces) == WORDS
    assert (line.retries, line.asked) == ([], 1)


async def test_a_server_that_stalls(line: Line) -> None:
    line.script({**SAYS, "streamingProfile": {"ttft": 3_000}}, SAYS)
    line.client._timeouts = ai.Timeouts(connect=5, first_byte=0.3, idle=0.3)
    await line.fails(ProviderTimeoutError, "sent nothing for too long")
    assert (line.retries, line.asked) == ([], 1)
