from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support.stored import START, converse, reply

from planck_nb import Config, Workspace
from planck_nb.ai.messages import AssistantMessage, TextPart, UserMessage
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.charts import UsageTables, unpriced_note, usage_tables
from planck_nb.jupyter.charts.usage import NOTHING
from planck_nb.testing import scripted_model


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path))


def used(agent: str, turn: int | None = 0, *, tokens: int | None = 100, cost: float | None = 0.5) -> dict[str, object]:
    counted = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens"), tokens)
    fixed = {
        "agent_id": agent,
        "model": "local:small",
        "purpose": "reply",
        "prompt": "go",
        "replies": 1,
        "cost_usd": cost,
    }
    return {"agent": agent, "turn": turn, **fixed, **counted}


def tables_of(*rows: dict[str, object]) -> UsageTables:
    return UsageTables(pd.DataFrame(rows))


def cells(tables: UsageTables) -> list[list[str]]:
    """The words in each line of the text."""
    return [line.split() for line in repr(tables).splitlines() if line]


@pytest.mark.slow
async def test_the_sums_are_what_was_spent_also_on_what_a_rewind_took_back(workspace: Workspace) -> None:
    async with workspace:
        session = workspace.session
        await converse(session)
        ids = await converse(session, turn=1)
        await session.log("a1").truncate_from(ids[0])
        await session.flush()
        tables = await usage_tables(workspace)
        spent = await workspace.query_async("SELECT * FROM usage")
    frame = tables.frame
    assert frame[["agent", "model", "prompt"]].to_numpy().tolist()[0] == ["Ada", "demo:small", "question 0"]
    assert frame.turn.tolist() == [0, pd.NA]
    for column in ("replies", "input_tokens", "output_tokens", "cache_read_tokens", "thinking_tokens", "cost_usd"):
        assert frame[column].sum() == spent[column][0] > 0
    text = repr(tables)
    assert text.startswith("Usage: 1 agent, 50 tokens, $1.50\n")
    assert "taken back" in text
    assert "question 0" in text


@pytest.mark.slow
async def test_a_fork_counts_its_own_replies(workspace: Workspace) -> None:
    async with workspace:
        ids = await converse(workspace.session)
        with workspace.session.fork(before=ids[-1] + 1) as fork:
            await fork.log("a1").append(UserMessage("more"), turn=1, time=START + 9)
            await fork.log("a1").append(reply("yes"), turn=1, time=START + 10)
        tables = await usage_tables(workspace, session=fork.id)
    assert tables.frame.turn.tolist() == [1]
    assert repr(tables).startswith("Usage: 1 agent, 15 tokens, $0.250\n")


@pytest.mark.slow
async def test_the_same_conversation_gives_the_same_tables(tmp_path: Path) -> None:
    shown = []
    for folder in ("one", "two"):
        async with Workspace(Config.load(environment={}, directory=tmp_path / folder)) as workspace:
            for name in ("ann", "bob"):
                agent = workspace.add_agent(name, model=scripted_model(["hello there", "and again"]))
                await agent.prompt("say <hello> & more")
                await agent.prompt("once more")
            tables = await usage_tables(workspace)
            assert set((await usage_tables(workspace, agents=["bob"])).frame.agent) == {"bob"}
            with pytest.raises(UsageError, match="Did you mean ann"):
                await usage_tables(workspace, agents=["anne"])
        shown.append((repr(tables), tables._repr_html_()))
    assert shown[0] == shown[1]
    assert "say &lt;hello&gt; &amp; more" in shown[0][1]


@pytest.mark.slow
async def test_nothing_yet_and_a_reply_without_counts(workspace: Workspace) -> None:
    async with workspace:
        nothing = await usage_tables(workspace)
        assert (repr(nothing), len(nothing)) == (NOTHING, 0)
        log = workspace.session.log("a")
        await log.append(UserMessage("go"), turn=0, time=START)
        await log.append(AssistantMessage((TextPart("x"),), "stop", None, None, "local", "tiny"), turn=0, time=START)
        tables = await usage_tables(workspace)
    assert cells(tables)[:2] == [["Usage:", "1", "agent"], ["By", "agent"]]
    assert "?" not in repr(tables)
    assert repr(tables).endswith("Cost not known: local:tiny (no token counts).")


def test_an_unknown_cost_is_explained_once_and_has_no_column() -> None:
    unknown = tables_of(used("a", cost=None), used("b", cost=None))
    assert repr(unknown).count("not known") == 1
    assert "cost" not in cells(unknown)[2]
    partly = tables_of(used("a", cost=0.25), used("b", cost=None))
    assert repr(partly).startswith("Usage: 2 agents, 400 tokens, ≥ $0.250\n")
    assert "Cost not known: local:small (no price is known" in repr(partly)
    assert "not known" not in repr(tables_of(used("a", cost=0.0)))
    assert "$0" in repr(tables_of({**used("a", cost=None), "model": "demo:demo"})), "the demo models are free"


def test_many_models_without_a_price_are_counted() -> None:
    assert unpriced_note([]) == ""
    assert unpriced_note(["b", "a", "b"]).startswith("Cost not known: a and b (")
    assert unpriced_note("abcde").startswith("Cost not known: a, b, c and 2 more (")


def test_many_agents_and_turns_are_summed_up() -> None:
    tables = tables_of(*(used(f"agent {n}", turn, tokens=n) for n in range(40) for turn in range(3)))
    text = repr(tables)
    assert "and 31 more" in text
    assert "and 111 earlier" in text
    assert "agent 39" in text
    assert "agent 30" not in text
    assert len(text.splitlines()) < 40
    assert len(tables) == 120
    assert "$60.00" in text.splitlines()[0], "the total is that of all"


def test_bars_are_to_scale() -> None:
    tables = tables_of(used("a", tokens=600), used("b", tokens=300), used("c", tokens=1))
    bars = [word for line in cells(tables) for word in line if set(word) <= set("▏▎▍▌▋▊▉█")]
    assert bars == ["█" * 12, "█" * 6, "▏"]
    assert 'aria-hidden="true">████' in tables._repr_html_()


@pytest.mark.parametrize("name", ["<b>&\"'", "a\x00b\x1b[31m\x9f", "x" * 3000, "\u202eevil", "漢字" * 90, "👩\u200d🔬"])
def test_any_name_is_text(name: str) -> None:
    tables = tables_of({**used(name), "model": name, "prompt": name}, used("b"), used("b", 1))
    assert not any(char in repr(tables) for char in "\x00\x1b\u202e")
    assert "<b>" not in tables._repr_html_()
