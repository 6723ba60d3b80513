"""Sessions whose numbers cannot be right, as servers sent them and version 0.1.0 stored them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.hostile import NONSENSE, raw

from planck_nb import Config, Limits, Workspace
from planck_nb.testing import scripted_model


def config(folder: Path) -> Config:
    return Config.load(environment={}, directory=folder)


async def store(folder: Path) -> Path:
    """A session with two turns; its journal."""
    async with Workspace(config(folder)) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(["hello there", "once more"]))
        await agent.prompt("one")
        await agent.prompt("two")
        await workspace.flush()
    (journal,) = (folder / ".planck" / "sessions").glob("*.jsonl")
    return journal


def damage(journal: Path, value: Any) -> None:
    """Put a value in the place of every count and cost of the first turn, and of all totals."""
    lines = []
    for line in journal.read_text().splitlines():
        record = json.loads(line)
        data = record["data"]
        first = record.get("turn") == 0
        if record["kind"] == "message" and data["type"] == "assistant" and first:
            record |= dict.fromkeys(["input_tokens", "output_tokens", "cache_read_tokens", "cost_usd"], value)
            data |= {"usage": dict.fromkeys(data["usage"], value), "cost": value}
        if record.get("type") == "usage_delta":
            data |= {"total": dict.fromkeys(data["total"], value), "total_cost": value, "context_tokens": value}
            if first:
                data |= {"delta": dict.fromkeys(data["delta"], value), "cost": value}
        if record.get("type") == "turn_end" and first:
            data["usage"] = dict.fromkeys(data["usage"], value)
            data["message"] |= {"usage": dict.fromkeys(data["usage"], value), "cost": value}
        lines.append(raw(json.dumps(record)))
    journal.write_text("\n".join(lines) + "\n")
    for database in journal.parent.glob("*.duckdb*"):
        database.unlink()


IMPOSSIBLE = (
    "a fraction",
    "a huge number",
    "a negative number",
    "more than 64 bits",
    "true",
    "a word",
    "a nested object",
    "not a number",
)


@pytest.mark.parametrize("what", IMPOSSIBLE)
async def test_a_stored_session_opens_adds_up_and_goes_on(what: str, tmp_path: Path) -> None:
    journal = await store(tmp_path)
    damage(journal, NONSENSE[what])
    async with Workspace(config(tmp_path)) as workspace:
        workspace.limits = Limits(session_tokens=100_000, session_cost=1.0)
        await workspace.resume()
        agent = workspace.agent("ann")
        texts = [entry.message.text for entry in agent.state.messages if entry.message.type != "tool_result"]
        assert texts == ["one", "hello there", "two", "once more"]
        assert 0 <= agent.state.usage.total_tokens < 1000
        spent = workspace.agent_factory.session_spend
        assert 0 <= spent.tokens < 1000
        assert 0 <= spent.cost < 1
        agent.model = scripted_model(["", "", "and on"])
        assert (await agent.prompt("three")).output == "and on"
        for view in ("messages", "usage", "sessions", "turns"):
            frame = await workspace.query_async(f"SELECT * FROM {view}")
            assert len(frame)
            for column in ("input_tokens", "output_tokens", "cost_usd"):
                assert not (frame[column].dropna().astype(float) < 0).any()
                assert not (frame[column].dropna().astype(float) > 10**10).any()
