"""Compactors and observers in sidecars."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.sidecar_links import FAST, Events, hostile, until

from planck_nb import Agent
from planck_nb.agent import events as ev
from planck_nb.agent.context.compactor import stored_compactor
from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.testing import Reply, scripted_model

pytestmark = pytest.mark.process

LONG = "word " * 200


@asynccontextmanager
async def with_sidecar(state: Path) -> AsyncIterator[tuple[Sidecars, Events]]:
    events = Events()
    sidecars = Sidecars(timing=FAST, on_event=events, session_id=lambda: "s1")
    sidecars.add(hostile(state))
    await sidecars.start()
    try:
        yield sidecars, events
    finally:
        await sidecars.aclose()


async def summaries(sidecars: Sidecars, name: str) -> list[str]:
    """The summaries in the conversation of an agent that has this compactor and soon fills its window."""
    model = replace(scripted_model(["local summary " + LONG] * 30), context_window=2_000)
    compactor = sidecars.compactor(name, ratio=0.5, keep_recent=2)
    async with Agent(model=model, on_compact=compactor) as agent:
        for _ in range(6):
            await agent.prompt(LONG)
        messages = [entry.message for entry in agent.state.messages]
    return [message.text for message in messages if message.type == "summary"]


async def test_a_compactor_of_a_sidecar_writes_the_summary(tmp_path: Path) -> None:
    async with with_sidecar(tmp_path) as (sidecars, events):
        assert sidecars.compactors() == {"short": "hostile"}
        found = await summaries(sidecars, "short")
        assert set(found) == {"all so far"}
        assert set(await summaries(sidecars, "hostile/short")) == {"all so far"}
        assert "compactor_failed" not in events.kinds
        stored = stored_compactor(sidecars.compactor("short", ratio=0.5))
        assert stored == {"name": "short", "ratio": 0.5, "keep_recent": 10, "timeout": 3_600.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("unknown", "which is the id of no message"),
        ("schema", 'its "summary" is not a text'),
        ("empty", "empty summary"),
        ("die", "was lost during the call"),
        ("slow", "did not answer within 0.5 s"),
    ],
)
async def test_the_built_in_compactor_is_used_on_any_failure(tmp_path: Path, way: str, reason: str) -> None:
    (tmp_path / "compact").write_text(way)
    async with with_sidecar(tmp_path) as (sidecars, events):
        found = await summaries(sidecars, "short")
        assert found
        assert all(text.startswith("local summary") for text in found)
        failed = await events.until("compactor_failed")
        assert failed.sidecar == "hostile"
        assert reason in failed.text
        assert failed.text.startswith("The compactor short failed, so the built-in one is used: ")


async def test_a_compactor_that_does_not_exist_or_is_not_connected_is_replaced(tmp_path: Path) -> None:
    async with with_sidecar(tmp_path) as (sidecars, events):
        assert (await summaries(sidecars, "shrt"))[0].startswith("local summary")
        assert "has a compactor shrt. Did you mean short?" in events.all[-1].text
        await sidecars.stop()
        assert (await summaries(sidecars, "short"))[0].startswith("local summary")
        assert "The sidecar hostile is idle" in events.all[-1].text
        await sidecars.start()  # it is looked up at each call
        assert set(await summaries(sidecars, "short")) == {"all so far"}


async def test_a_compactor_may_leave_the_conversation_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "compact").write_text("skip")
    async with with_sidecar(tmp_path) as (sidecars, events):
        assert await summaries(sidecars, "short") == []
        assert "compactor_failed" not in events.kinds


def seen(state: Path) -> list[tuple[str, str]]:
    lines = (state / "events").read_text().splitlines() if (state / "events").exists() else []
    return [(session, event["type"]) for session, event in map(json.loads, lines)]


async def test_observers_receive_the_events_of_a_session_in_order(tmp_path: Path) -> None:
    async with with_sidecar(tmp_path) as (sidecars, _):
        sent: list[str] = []
        async with Agent(model=scripted_model([Reply("hello")])) as agent, agent.subscribe() as events:
            run = agent.prompt("hi")
            async for event in events:
                sidecars.observe(event)
                sent.append(event.type)
                if event.type == "turn_end":
                    break
            await run
        await sidecars.flush()
        kept = [kind for kind in sent if kind not in ev.TRANSIENT]
        assert len(kept) < len(sent)
        assert seen(tmp_path) == [("s1", kind) for kind in kept]


async def test_an_observer_that_is_down_costs_nothing_and_loses_only_its_events(tmp_path: Path) -> None:
    async with with_sidecar(tmp_path) as (sidecars, _):
        await sidecars.stop()
        async with Agent(model=scripted_model([Reply("a"), Reply("b")])) as agent:
            async for event in agent.prompt("hi"):
                sidecars.observe(event)
            await sidecars.flush()
            assert seen(tmp_path) == []
            await sidecars.start()
            async for event in agent.prompt("hi"):
                sidecars.observe(event)
            await sidecars.flush()
            assert seen(tmp_path)


async def test_events_come_from_any_thread(tmp_path: Path) -> None:
    async with with_sidecar(tmp_path) as (sidecars, _):
        async with Agent(model=scripted_model([Reply("a")])) as agent:
            found = [event async for event in agent.prompt("hi")]

        def in_thread() -> None:
            for event in found:
                sidecars.observe(event)

        await asyncio.to_thread(in_thread)
        await until(lambda: len(seen(tmp_path)) >= 3)
