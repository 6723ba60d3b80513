from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from support.stored import START, converse, reply

from planck_nb import Config, Workspace
from planck_nb.ai.messages import AssistantMessage, TextPart, UserMessage
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.charts import Chart, usage_chart
from planck_nb.jupyter.charts.svg import WIDTH, cut, plain, width_of
from planck_nb.jupyter.charts.usage import NOTHING, draw_usage
from planck_nb.testing import scripted_model

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path))


def words(chart: Chart) -> list[str]:
    return [str(text.text) for text in ET.fromstring(chart.svg).iter(f"{SVG}text")]


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


@pytest.mark.slow
async def test_the_sums_are_what_was_spent_also_on_what_a_rewind_took_back(workspace: Workspace) -> None:
    async with workspace:
        session = workspace.session
        await converse(session)
        ids = await converse(session, turn=1)
        await session.log("a1").truncate_from(ids[0])
        await session.flush()
        chart = await usage_chart(workspace)
        spent = await workspace.query_async("SELECT * FROM usage")
    frame = chart.frame
    assert frame[["agent", "model", "prompt"]].to_numpy().tolist()[0] == ["Ada", "demo:small", "question 0"]
    assert frame.turn.tolist() == [0, pd.NA]
    for column in ("replies", "input_tokens", "output_tokens", "cache_read_tokens", "thinking_tokens", "cost_usd"):
        assert frame[column].sum() == spent[column][0] > 0
    assert {"By agent", "By turn", "turn 0", "question 0", "taken back", "Total", "$1.50", "50"} <= set(words(chart))
    assert repr(chart) == "Usage: 1 agent, 50 tokens, $1.50"


@pytest.mark.slow
async def test_a_fork_counts_its_own_replies(workspace: Workspace) -> None:
    async with workspace:
        ids = await converse(workspace.session)
        with workspace.session.fork(before=ids[-1] + 1) as fork:
            await fork.log("a1").append(UserMessage("more"), turn=1, time=START + 9)
            await fork.log("a1").append(reply("yes"), turn=1, time=START + 10)
        chart = await usage_chart(workspace, session=fork.id)
    assert chart.frame.turn.tolist() == [1]
    assert repr(chart) == "Usage: 1 agent, 15 tokens, $0.250"


@pytest.mark.slow
async def test_the_same_conversation_gives_the_same_image(tmp_path: Path) -> None:
    seen = []
    for folder in ("one", "two"):
        async with Workspace(Config.load(environment={}, directory=tmp_path / folder)) as workspace:
            for name in ("ann", "bob"):
                agent = workspace.add_agent(name, model=scripted_model(["hello there", "and again"]))
                await agent.prompt("say <hello> & more")
                await agent.prompt("once more")
            chart = await usage_chart(workspace)
            assert await _of(workspace, "bob") == {"bob"}
            with pytest.raises(UsageError, match="Did you mean ann"):
                await usage_chart(workspace, agents=["anne"])
        seen.append(chart._repr_mimebundle_())
    assert seen[0] == seen[1]
    assert set(seen[0]) == {"image/svg+xml", "text/html", "text/plain"}
    assert {"ann, turn 0", "bob, turn 1", "say <hello> & more"} <= set(words(chart))


async def _of(workspace: Workspace, agent: str) -> set[str]:
    return set((await usage_chart(workspace, agents=[agent])).frame.agent)


@pytest.mark.slow
async def test_nothing_yet_and_a_reply_that_nobody_counted(workspace: Workspace) -> None:
    async with workspace:
        nothing = await usage_chart(workspace)
        assert (words(nothing), repr(nothing), len(nothing.frame)) == ([NOTHING], NOTHING, 0)
        log = workspace.session.log("a")
        await log.append(UserMessage("go"), turn=0, time=START)
        await log.append(AssistantMessage((TextPart("x"),), "stop", None, None, "local", "tiny"), turn=0, time=START)
        chart = await usage_chart(workspace)
    assert repr(chart) == "Usage: 1 agent, ? tokens, cost not known"
    assert words(chart).count("?") == 4


def test_costs_that_are_partly_known_are_a_least() -> None:
    partly = draw_usage(pd.DataFrame([used("a", cost=0.25), used("b", cost=None)]))
    assert {"$0.250", "?", "≥ $0.250"} <= set(words(partly))
    assert "$0" in words(draw_usage(pd.DataFrame([used("a", cost=0.0)])))


def test_many_agents_and_turns_are_summed_up() -> None:
    rows = [used(f"agent {n}", turn, tokens=n) for n in range(40) for turn in range(3)]
    chart = draw_usage(pd.DataFrame(rows))
    assert {"and 31 more", "and 111 earlier"} <= set(words(chart))
    assert {"agent 39", "agent 31"} <= set(words(chart))
    assert "agent 30" not in words(chart)
    assert float(ET.fromstring(chart.svg).attrib["height"]) < 1000
    assert len(chart.svg) < 20_000
    assert len(chart.frame) == 120
    assert "$60.00" in words(chart), "the total is that of all"


def test_bars_are_to_scale() -> None:
    rows = [{**used("a"), "input_tokens": 600, "cache_read_tokens": 200, "output_tokens": 400}, used("b", tokens=50)]
    chart = draw_usage(pd.DataFrame(rows))
    bars = [float(bar.attrib["width"]) for bar in ET.fromstring(chart.svg).iter(f"{SVG}rect")][3:]
    assert [round(bar + 1) for bar in bars] == [100, 200, 200, 25, 25]


@pytest.mark.parametrize("name", ["<b>&\"'", "a\x00b\x1b\x9f", "x" * 3000, "\u202eevil", "漢字" * 90, "👩\u200d🔬"])
def test_any_name_gives_well_formed_text_that_fits(name: str) -> None:
    chart = draw_usage(pd.DataFrame([{**used(name), "model": name, "prompt": name}, used("b"), used("b", 1)]))
    root = ET.fromstring(chart.svg.encode())
    assert root.attrib["role"] == "img"
    assert [part.tag for part in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    for text in root.iter(f"{SVG}text"):
        if text.attrib.get("text-anchor") is None:
            assert float(text.attrib["x"]) + width_of(str(text.text)) <= WIDTH
    alt = chart._repr_mimebundle_()["text/html"]
    assert ET.fromstring(alt.replace('height:auto">', 'height:auto"/>')).attrib["alt"]


def test_cut_text_fits_and_keeps_what_it_can() -> None:
    assert cut("short", 100) == "short"
    assert cut("word " * 50, 80) == "word wor…"
    for max_width in (0, 1, 20, 77.7):
        assert width_of(cut("Ein langer Satz, 漢字, und noch mehr.", max_width)) <= max(max_width, width_of("…"))
    assert plain("a\n\tb\x07c\ud800") == "a b\ufffdc\ufffd"


def test_the_image_in_the_page_is_the_saved_file(tmp_path: Path) -> None:
    chart = draw_usage(pd.DataFrame([used("a")]))
    saved = chart.save(tmp_path / "usage.svg")
    bundle = chart._repr_mimebundle_(include=None, exclude=None)
    data = bundle["text/html"].split("base64,")[1].split('"')[0]
    assert saved.read_text(encoding="utf-8") == b64decode(data).decode() == bundle["image/svg+xml"] == chart.svg
    assert bundle["text/plain"] == "Usage: 1 agent, 200 tokens, $0.500"
    with pytest.raises(OSError, match="nowhere"):
        chart.save(tmp_path / "nowhere" / "usage.svg")


def test_the_demo_models_cost_nothing() -> None:
    chart = draw_usage(pd.DataFrame([{**used("a", cost=None), "model": "demo:demo"}]))
    assert "?" not in words(chart)
    assert "$0" in words(chart)
