"""What limits count, what agents show and what SQL sums are one number, whatever happens to requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.ledger import check_ledger
from support.wire import CHAT, chat_chunk, sse

from planck_nb import Agent, Compactor, Config, Workspace, ai
from planck_nb.agent.agent_access import complete_for
from planck_nb.ai.request import Context, Options
from planck_nb.base.errors import PlanckError

PRICED = replace(CHAT, pricing=ai.Pricing(3.0, 15.0, 0.3, 3.75), context_window=3_000)
USAGE = {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 30}}
WORDS = "word " * 120


class Weather(httpx.AsyncBaseTransport):
    """Answers at random: well, without usage, with a call, with an error, half, or not at all until it is stopped."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kinds: set[str] = set()
        self.waiting = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        kinds = ("counted", "uncounted", "call", "refused", "away", "silent", "half", "stuck", "mute")
        kind = self.chance.choice(kinds)
        self.kinds.add(kind)
        if kind == "away":
            raise httpx.ConnectError("connection refused")
        if kind == "refused":
            return httpx.Response(400, content=b'{"error": {"message": "No."}}')
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._body(kind))

    async def _body(self, kind: str) -> AsyncIterator[bytes]:
        said = [chat_chunk({"content": WORDS}), chat_chunk({}, "stop")]
        call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}
        if kind == "call":
            said = [chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls")]
        if kind in {"stuck", "mute"}:
            if kind == "stuck":
                yield sse(said[0])[0]
            self.waiting.set()
            await asyncio.Event().wait()
        elif kind != "silent":
            for chunk in sse(*said[: 1 if kind == "half" else 2], *([] if kind == "uncounted" else [USAGE])):
                yield chunk
        if kind in {"silent", "half"}:
            raise httpx.ReadError("connection reset")
        yield sse("[DONE]")[0]


def look() -> str:
    """Look."""
    return "seen"


class Storm:
    """Does something to the agents of a workspace, again and again."""

    def __init__(self, config: Config, client: ai.Client, weather: Weather) -> None:
        self.config, self.client = config, client
        self.workspace, self.weather, self.chance = Workspace(config, client=client), weather, weather.chance
        for name in ("ann", "ben", "cem"):
            compactor = Compactor.build(keep_recent=1)
            self.workspace.add_agent(name, model=PRICED, tools=[look], on_compact=compactor)

    def agents(self) -> Sequence[Agent]:
        return list(self.workspace.agents.values())

    async def prompt(self) -> None:
        """Prompt all; those whose server does not answer are stopped."""
        runs = [agent.prompt(f"go {WORDS}") for agent in self.agents()]
        self.weather.waiting.clear()
        stuck = asyncio.create_task(self.weather.waiting.wait())
        ends: asyncio.Future[Any] = asyncio.gather(*runs, return_exceptions=True)
        while not ends.done():
            await asyncio.wait([ends, stuck], return_when=asyncio.FIRST_COMPLETED)
            if stuck.done():
                self.weather.waiting.clear()
                stuck = asyncio.create_task(self.weather.waiting.wait())
                await asyncio.gather(*(agent.abort() for agent in self.agents()))
        stuck.cancel()

    async def sample(self) -> None:
        """Have a reply outside the conversation, as for a sidecar."""
        context = Context(messages=(ai.UserMessage("Sample."),))
        reply = asyncio.create_task(complete_for(self.chance.choice(self.agents()), context, Options()))
        await self._or_stop(reply)

    async def compact(self) -> None:
        await self._or_stop(asyncio.create_task(self.chance.choice(self.agents()).compact()))

    async def rewind(self) -> None:
        prompts = [
            entry.id for agent in self.agents() for entry in agent.state.messages if entry.message.type == "user"
        ]
        if prompts:
            await self.workspace.rewind(self.chance.choice(prompts))

    async def fork(self) -> None:
        await self.workspace.fork(f"fork-{self.chance.random()}")

    async def resume(self) -> None:
        session_id = self.workspace.session.id
        await self.workspace.close()
        self.workspace = Workspace(self.config, client=self.client)
        await self.workspace.resume(session_id, model=PRICED)

    async def _or_stop(self, task: asyncio.Task[Any]) -> None:
        self.weather.waiting.clear()
        stuck = asyncio.create_task(self.weather.waiting.wait())
        await asyncio.wait([task, stuck], return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        task.cancel()
        with suppress(PlanckError, asyncio.CancelledError):
            await task

    async def settle(self) -> None:
        """End what runs in the background."""
        await asyncio.gather(*(agent.abort() for agent in self.agents()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_what_was_paid_is_one_number_after_every_storm(tmp_path: Path, seed: int) -> None:
    weather = Weather(seed)
    client = ai.Client(credentials={"OPENAI_API_KEY": "k"}, transport=weather, retries=ai.RetryPolicy(retries=0))
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path, trust=True)
    async with client:
        storm = Storm(config, client, weather)
        actions = (storm.prompt, storm.sample, storm.compact, storm.rewind, storm.resume, storm.fork)
        for _ in range(30):
            [action] = weather.chance.choices(actions, (12, 4, 4, 3, 1, 1))
            await action()
            await storm.settle()
            await check_ledger(storm.workspace)
            running = await storm.workspace.query_async("from turns where outcome is null")
            assert not len(running), "nothing runs, and no turn says that it does"
        outcomes = await storm.workspace.query_async("select distinct outcome from turns")
        assert {"rewound"} <= set(outcomes.outcome) <= {"turn_end", "aborted", "error", "rewound"}
        purposes = await storm.workspace.query_async("select distinct purpose from charges order by all")
        assert purposes.purpose.tolist() == ["failed", "reply", "sampling", "summary"]
        assert weather.kinds == {"counted", "uncounted", "call", "refused", "away", "silent", "half", "stuck", "mute"}
        assert not (await storm.workspace.query_async("from charges where model is null")).size
        await storm.workspace.close()
