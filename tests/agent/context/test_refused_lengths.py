"""What a refused length teaches an agent: about which model, for how long, and what it does not say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from support.wire import CHAT, CHAT_HELLO, client

from planck_nb import Agent, ai
from planck_nb.agent.context import fitting
from planck_nb.agent.context.fitting import fitted, size
from planck_nb.agent.tokens import estimate
from planck_nb.ai.messages import AssistantMessage, FilePart, Message, TextPart, UserMessage
from planck_nb.base.errors import ContextOverflowError, PromptTooLongError

SMALL = replace(CHAT, context_window=100_000)
LARGE = replace(CHAT, id="large", context_window=1_000_000)
BYTES = {"type": "request_too_large", "message": "Request exceeds the maximum size"}


class Server:
    """Refuses requests of more than so many bytes to a model."""

    def __init__(self, limit: int, status: int, error: dict[str, Any]) -> None:
        self.limit = limit
        self.sizes: list[int] = []
        self.status, self.error = status, error

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sizes.append(len(request.content))
        if len(request.content) > self.limit and b'"large"' not in request.content:
            return httpx.Response(self.status, json={"error": self.error})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._hello())

    async def _hello(self) -> AsyncIterator[bytes]:
        for chunk in CHAT_HELLO:
            yield chunk


async def talked(server: Server, **settings: Any) -> Agent:
    """An agent with a long conversation."""
    agent = Agent(model=SMALL, client=client(httpx.MockTransport(server)), **settings)
    for _ in range(4):
        await agent._recorder.append(UserMessage("word " * 1_000))
        await agent._recorder.append(AssistantMessage((TextPart("text " * 100),)))
    return agent


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (413, BYTES),
        (413, {"message": "Request Entity Too Large"}),
        (413, {}),
        (413, {"message": "Request too large for m on tokens per minute (TPM): Limit 6000, Requested 8123"}),
        (429, {"message": "Request too large for m: 45000 tokens per min exceeds the limit of 300", "type": "tokens"}),
    ],
)
async def test_a_refusal_without_the_window_leaves_a_known_window_as_it_is(status: int, error: dict[str, Any]) -> None:
    server = Server(15_000, status, error)
    agent = await talked(server)
    assert (await agent.prompt("go")).text == "Hello"
    assert server.sizes[0] > 15_000 >= server.sizes[-1]
    assert agent._runner.window.usage().window == 100_000
    sent = len(server.sizes)
    assert (await agent.prompt("on")).text == "Hello"
    assert len(server.sizes) == sent + 1  # what was refused is not sent again


async def test_an_unknown_window_is_learned_from_a_refusal_without_sizes() -> None:
    agent = await talked(Server(15_000, 400, {"message": "The prompt is too long.", "code": "context_length_exceeded"}))
    agent.model = replace(CHAT, context_window=None)
    await agent.prompt("go")
    assert agent._runner.window.usage().window is not None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (413, BYTES),
        (413, {"message": "Request Entity Too Large"}),
        (413, {}),
        (413, {"message": "Request body of 20123 bytes exceeds the limit of 15000 bytes"}),
        (413, {"message": "Request too large for m on tokens per minute (TPM): Limit 6000, Requested 8123"}),
        (429, {"message": "Request too large for m: 45000 tokens per min exceeds the limit of 300", "type": "tokens"}),
    ],
)
async def test_an_unknown_window_is_not_learned_from_bytes_or_minutes(status: int, error: dict[str, Any]) -> None:
    server = Server(15_000, status, error)
    agent = await talked(server)
    agent.model = replace(CHAT, context_window=None)
    assert (await agent.prompt("go")).text == "Hello"
    assert server.sizes[0] > 15_000 >= server.sizes[-1]
    assert agent._runner.window.usage().window is None


async def test_another_model_is_sent_the_whole_conversation_and_nothing_is_multiplied() -> None:
    server = Server(15_000, 400, {"message": "maximum context length is 3000 tokens, you requested 30000 tokens"})
    agent = await talked(server)
    await agent.prompt("go")
    assert agent._runner.window.usage().scale > 2
    assert server.sizes[-1] < 15_000
    agent.model = LARGE
    assert agent._runner.window.usage().scale == 1.0
    await agent.prompt("on")
    assert server.sizes[-1] > 20_000


async def test_a_fallback_is_sent_the_whole_conversation() -> None:
    server = Server(10, 413, BYTES)
    agent = await talked(server, fallbacks=(LARGE,))
    assert (await agent.prompt("go")).text == "Hello"
    assert server.sizes[-1] == pytest.approx(server.sizes[0], abs=100)


async def test_a_trimmed_conversation_is_sent_whole_once_it_is_short_again() -> None:
    agent = await talked(Server(15_000, 413, BYTES))
    await agent.prompt("go")
    assert agent._runner.window._trim_to is not None
    prompts = tuple(entry.id for entry in agent.state.messages if entry.message.type == "user")
    await agent._recorder.append(AssistantMessage((), "error", error="too long", set_aside=prompts[:2]))
    assert (await agent.prompt("on")).text == "Hello"
    assert agent._runner.window._trim_to is None


@pytest.mark.parametrize(("requested", "read", "resent"), [(16_000, 2_000, False), (9_000, 8_000, True)])
async def test_a_requested_reply_is_not_taken_for_the_conversation(requested: int, read: int, *, resent: bool) -> None:
    words = (
        f"maximum context length is 4097 tokens. However, you requested {requested} tokens ({read} in the messages, "
        f"{requested - read} in the completion)."
    )
    server = Server(15_000, 400, {"message": words})
    agent = await talked(server)
    if resent:
        assert (await agent.prompt("go")).text == "Hello"
        assert len(server.sizes) == 2
    else:  # no shorter conversation would be answered
        with pytest.raises(ContextOverflowError, match="14000 in the completion"):
            await agent.prompt("go")
        assert len(server.sizes) == 1
        assert agent._runner.window._trim_to is None
    assert agent._runner.window._refused_scale < 2


@pytest.mark.parametrize("prompts", [True, False])
def test_shortening_estimates_each_message_a_few_times(prompts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0

    def counting(message: Message) -> int:
        nonlocal counted
        counted += 1
        return estimate(message)

    monkeypatch.setattr(fitting, "estimate", counting)
    reply = AssistantMessage((TextPart("answer text " * 100),))
    for count in (50, 400):
        talk: list[Message] = [UserMessage("go")]
        for _ in range(count):
            talk += [UserMessage("word " * 60), reply] if prompts else [reply]
        talk += [UserMessage("on")] if prompts else []
        counted = 0
        short = fitted(talk, 3_000)
        assert counted < 12 * len(talk)
        assert size(short) <= 3_000
        assert len(short) > 10


async def test_what_is_trimmed_once_is_not_shortened_anew_for_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = await talked(Server(15_000, 413, BYTES))
    await agent.prompt("go")
    window = agent._runner.window
    short = window.messages()
    monkeypatch.setattr("planck_nb.agent.context.window.fitted", None)
    assert window.messages() == short


@pytest.mark.parametrize(
    ("status", "error"),
    [(413, BYTES), (400, {"message": "prompt is too long: 250000 tokens > 100000 maximum"})],
)
async def test_a_refused_file_is_set_aside_however_few_tokens_it_is_estimated_at(
    status: int, error: dict[str, Any]
) -> None:
    server = Server(40_000, status, error)
    agent = Agent(model=SMALL, client=client(httpx.MockTransport(server)))
    await agent.prompt("hello")
    with pytest.raises(PromptTooLongError, match="refused the request as too long") as refused:
        await agent.prompt([TextPart("read"), FilePart(b"%PDF-1.4 " + b"x" * 60_000, "application/pdf", "x.pdf")])
    assert "about" not in str(refused.value)  # the estimate would contradict the refusal
    assert agent._runner.window.usage().scale == 1.0  # a file says nothing about the tokenizer
    for prompt in ("and now?", "again"):
        assert (await agent.prompt(prompt)).text == "Hello"
    assert len(server.sizes) == 4


async def test_a_prompt_is_not_set_aside_for_a_long_system_prompt() -> None:
    server = Server(100, 400, {"message": "prompt is too long: 90000 tokens > 80000 maximum"})
    agent = Agent(model=SMALL, client=client(httpx.MockTransport(server)), system_prompt="word " * 80_000)
    with pytest.raises(ContextOverflowError) as refused:
        await agent.prompt("go")
    assert not isinstance(refused.value, PromptTooLongError)


async def test_a_prompt_that_its_server_would_cut_is_not_sent() -> None:
    server = Server(0, 400, {})
    model = replace(ai.get_model("ollama", "m", base_url="http://127.0.0.1:9"), context_window=1_000)
    agent = Agent(model=model, client=client(httpx.MockTransport(server)))
    with pytest.raises(PromptTooLongError):
        await agent.prompt("far too long " * 1_000)
    assert server.sizes == []
