"""A server that is away for a while in the middle of a turn: the turn goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import httpx
import pytest
from support.virtual_time import policy, virtually
from support.wire import CHAT, CHAT_HELLO, chat_chunk, sse

from planck_nb import Agent, ai
from planck_nb.agent import events as ev
from planck_nb.agent.context.summary import summarise
from planck_nb.base.errors import ProviderUnavailableError


def calls(number: int) -> list[bytes]:
    call = {"index": 0, "id": f"call{number}", "function": {"name": "look", "arguments": "{}"}}
    return sse(chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls"), "[DONE]")


class Away(httpx.AsyncBaseTransport):
    """A server that asks for a tool in each round before `rounds`, and is away for a while before round `at`."""

    def __init__(self, at: int, seconds: float, *, rounds: int = 4) -> None:
        self.at, self.seconds, self.rounds = at, seconds, rounds
        self.answered = 0
        self._back: float | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        now = asyncio.get_running_loop().time()
        if self.answered + 1 == self.at:
            self._back = now + self.seconds if self._back is None else self._back
            if now < self._back:
                if int(now) % 2:
                    raise httpx.ConnectError("connection refused")
                return httpx.Response(529, content=b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}')
        self.answered += 1
        body = calls(self.answered) if self.answered < self.rounds else CHAT_HELLO
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(body))


async def look() -> str:
    """Look."""
    return "seen"


def run(
    server: Away,
    *,
    tool: Callable[[Agent], Callable[..., object]] = lambda _agent: look,
    fallbacks: Sequence[ai.Model] = (),
) -> tuple[str, list[ev.AgentEvent]]:
    async def main() -> tuple[str, list[ev.AgentEvent]]:
        client = ai.Client(credentials={"OPENAI_API_KEY": "k"}, transport=server, retries=policy())
        agent = Agent(model=CHAT, client=client, fallbacks=fallbacks)
        agent.add_tool(tool(agent))
        prompt = agent.prompt("go")
        events = [event async for event in prompt]
        return (await prompt).text, events

    return virtually(main)


@pytest.mark.parametrize("at", [2, 3, 4])
def test_a_turn_survives_an_outage_of_thirty_seconds_after_its_first_request(at: int) -> None:
    server = Away(at, 30)
    text, events = run(server)
    assert text == "Hello"
    assert server.answered == 4
    retries = [event for event in events if event.type == "retry"]
    assert 4 <= len(retries) <= 8
    assert 28 <= sum(event.delay for event in retries) <= 40
    assert "Overloaded" in retries[0].reason or "connection" in retries[0].reason.lower()


def test_the_first_request_is_given_up_after_ten_seconds() -> None:
    assert run(Away(1, 9))[0] == "Hello"
    with pytest.raises(ProviderUnavailableError, match="Overloaded"):
        run(Away(1, 11))


def test_after_steering_the_turn_is_still_the_same() -> None:
    def steering(agent: Agent) -> Callable[..., object]:
        async def look() -> str:
            """Look."""
            agent.steer("and hurry")
            return "seen"

        return look

    assert run(Away(2, 30, rounds=2), tool=steering)[0] == "Hello"


def test_with_another_model_to_ask_nobody_waits_a_minute_for_the_first() -> None:
    other = ai.get_model("openai", "other", base_url="http://127.0.0.1:9/v1")
    text, events = run(Away(3, 45), fallbacks=[other])
    assert text == "Hello"
    place = [event.type for event in events].index("fallback")
    waited = [sum(event.delay for event in part if event.type == "retry") for part in (events[:place], events[place:])]
    assert waited[0] == pytest.approx(10)
    assert waited[1] > 30


def test_a_summary_is_waited_for_like_a_turn() -> None:
    async def main() -> str:
        client = ai.Client(credentials={"OPENAI_API_KEY": "k"}, transport=Away(1, 30, rounds=1), retries=policy())
        return (await summarise([ai.UserMessage("hi")], model=CHAT, window=None, client=client)).text

    assert virtually(main) == "Hello"
