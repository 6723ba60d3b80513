"""Sessions whose numbers cannot be right, because somebody else wrote or changed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.hostile import NONSENSE, raw
from support.stored import converse, reply

from planck_nb import Config, Limits, Workspace
from planck_nb.agent.events import ApprovalDecision
from planck_nb.sessions import VIEWS, Session, list_sessions, query
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
    """Put a value in place of every count and cost of the first turn, and of all totals."""
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


@pytest.mark.slow
@pytest.mark.parametrize("what", IMPOSSIBLE)
async def test_a_stored_session_opens_adds_up_and_goes_on(what: str, tmp_path: Path) -> None:
    journal = await store(tmp_path)
    damage(journal, NONSENSE[what])
    async with Workspace(config(tmp_path)) as workspace:
        workspace.limits = Limits(session_tokens=100_000, session_cost=2.0)
        await workspace.resume()
        agent = workspace.agent("ann")
        texts = [entry.message.text for entry in agent.state.messages if entry.message.type != "tool_result"]
        assert texts == ["one", "hello there", "two", "once more"]
        assert 0 <= agent.state.usage.total_tokens < 1000
        spent = workspace.agent_factory.session_spend
        assert 0 <= spent.tokens < 1000
        assert spent.cost == {"a fraction": 1.5, "true": 1.0}.get(what, 0), "dollars can be a fraction"
        agent.model = scripted_model(["", "", "and on"])
        assert (await agent.prompt("three")).output == "and on"
        views = ("messages", "usage", "sessions", "turns")
        rows = (f"select '{view}' as view, input_tokens, output_tokens, cost_usd from {view}" for view in views)
        frame = await workspace.query_async(" union all ".join(rows))
        assert set(frame.view) == set(views)
        for column in ("input_tokens", "output_tokens", "cost_usd"):
            assert not (frame[column].dropna().astype(float) < 0).any()
            assert not (frame[column].dropna().astype(float) > 10**10).any()


HOSTILE: tuple[Any, ...] = (10**18, 2**63 - 1, -(10**18), 10**30, 1e308, "a word", True, None, [], {"a": 1})
"""Values in place of every number and boolean."""


def _hostile(data: Any, value: Any) -> Any:
    if isinstance(data, dict):
        return {name: _hostile(part, value) for name, part in data.items()}
    if isinstance(data, list):
        return [_hostile(part, value) for part in data]
    return value if isinstance(data, int | float) else data


@pytest.mark.slow
async def test_no_view_fails_with_such_numbers_in_many_rows(tmp_path: Path) -> None:
    for value in HOSTILE:
        with Session.create(tmp_path) as session:
            for turn in range(3):
                await converse(session, turn=turn)
            log = session.log("a1")
            for number in range(20):
                log.record(ApprovalDecision("a1", session.id, 0, number, 1.0, "call_1", "weather", True, "user"))
                await log.append(reply(f"{number}"), turn=number, time=1.75e9)
        header, *lines = session.path.read_text().splitlines()
        records = [json.loads(line) for line in lines]
        for record in records:
            numbers = dict.fromkeys(
                ("input_tokens", "output_tokens", "cache_read_tokens", "thinking_tokens", "cost_usd"), value
            )
            record.update({name: number for name, number in numbers.items() if name in record})
            record["turn"], record["data"] = value, _hostile(record["data"], value)
        session.path.write_text("\n".join([header, *(raw(json.dumps(record)) for record in records)]) + "\n")
    for materialized in (False, True):
        for view in VIEWS:
            query(tmp_path, f"select * from {view}")
        totals = query(tmp_path, "select input_tokens as i, messages as m from sessions")
        assert totals.m.tolist() == [12 + 20] * len(HOSTILE)
        assert not (totals.i > 10**10).any()
        if not materialized:
            for info in list_sessions(tmp_path):
                info.database.unlink()
                Session.open(tmp_path, info.id).close()
