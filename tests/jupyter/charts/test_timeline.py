from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from support.stored import START, converse

from planck_nb import Config, Workspace
from planck_nb.agent import events
from planck_nb.ai.messages import AssistantMessage, ToolCallPart, Usage, UserMessage
from planck_nb.base.errors import SessionNotFoundError, UsageError
from planck_nb.jupyter.charts import Chart, timeline_chart
from planck_nb.jupyter.charts.activity import DrawnTask, Kind, Span, spans_of
from planck_nb.jupyter.charts.time_scale import TimeScale, elapsed
from planck_nb.jupyter.charts.timeline import MAX_AGENTS, MAX_TASKS, NOTHING, draw_timeline
from planck_nb.sessions import Session, SessionLog
from planck_nb.testing import scripted_model

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path))


def words(chart: Chart) -> list[str]:
    return [str(text.text) for text in ET.fromstring(chart.svg).iter(f"{SVG}text")]


def span(
    agent: str,
    kind: Kind,
    begin: float,
    end: float,
    name: str = "",
    *,
    outcome: str = "",
    call: str = "",
    turn: int = 0,
) -> Span:
    return Span(agent, agent, turn, kind, begin, end, name, "", outcome, (1, call))


def turn(agent: str, begin: float, end: float, *, outcome: str = "turn_end", number: int = 0) -> Span:
    return span(agent, "turn", begin, end, outcome=outcome, turn=number)


def seconds(frame: pd.DataFrame) -> list[tuple[str, float, float]]:
    start = frame.began.min()
    return [
        (kind, (began - start).total_seconds(), (ended - start).total_seconds())
        for kind, began, ended in zip(frame.kind, frame.began, frame.ended, strict=True)
    ]


def say(log: SessionLog, session: Session, agent: str, *, at: float, turn: int = 0) -> None:
    log.record(events.TurnStart(agent, session.id, turn, 0, at, index=turn, model="demo:small"))


@pytest.mark.slow
async def test_a_turn_is_model_tool_and_model_again(workspace: Workspace) -> None:
    async with workspace:
        log = workspace.session.log("a1")
        say(log, workspace.session, "a1", at=START)
        await converse(workspace.session)
        log.record(events.TurnEnd("a1", workspace.session.id, 0, 9, START + 6, AssistantMessage((), "stop"), Usage()))
        await workspace.session.flush()
        chart = await timeline_chart(workspace)
    assert seconds(chart.frame) == [("turn", 0, 6), ("model", 0, 1), ("model", 4, 5), ("tool", 1, 3)]
    assert chart.frame.began[0] == pd.Timestamp(START, unit="s")
    assert (chart.frame.name[3], chart.frame.detail[3]) == ("weather", "Łódź")
    assert {"Ada", "weather Łódź", "0 s", "model", "tool"} <= set(words(chart))
    assert not {"failed", "stopped", "no end known", "waits for you"} & set(words(chart))


@pytest.mark.slow
async def test_waiting_for_approval_stands_before_the_call_it_held_up(workspace: Workspace) -> None:
    async with workspace:
        session = workspace.session
        log = session.log("a")
        say(log, session, "a", at=START)
        await log.append(UserMessage("go"), turn=0, time=START)
        call = AssistantMessage((ToolCallPart("c", "edit", {"path": "report.md"}),), "tool_use")
        await log.append(call, turn=0, time=START + 2)
        head = ("a", session.id, 0, 1)
        log.record(events.ToolStart(*head, START + 2, "c", "edit", {"path": "report.md"}))
        log.record(events.ApprovalRequest(*head, START + 3, "c", "edit", {"path": "report.md"}, (), "why", START + 99))
        log.record(events.ApprovalDecision(*head, START + 33, "c", "edit", True, "user"))
        log.record(events.ToolEnd(*head, START + 38, "c", "edit", "done", False))
        await session.flush()
        chart = await timeline_chart(workspace)
    assert ("hold", 3, 33) in seconds(chart.frame)
    assert ("tool", 33, 38) in seconds(chart.frame)
    assert {"waits for you", "edit report.md", "no end known"} <= set(words(chart))
    assert chart.svg.count('class="pk-hold"') == 2, "the legend and the bar"


@pytest.mark.slow
async def test_a_turn_that_crashed_is_drawn_to_its_last_event_and_marked(workspace: Workspace) -> None:
    async with workspace:
        for agent, at in (("a", START), ("b", START + 100)):
            log = workspace.session.log(agent)
            say(log, workspace.session, agent, at=at)
            await log.append(UserMessage("go"), turn=0, time=at)
            await log.append(AssistantMessage((ToolCallPart("1", "bash", {}),), "tool_use"), turn=0, time=at + 7)
        await workspace.session.flush()
        chart = await timeline_chart(workspace, agents=["a"])
        assert set(chart.frame.agent) == {"a"}
        assert seconds(chart.frame) == [("turn", 0, 7), ("model", 0, 7), ("tool", 7, 7)]
        assert "no end known" in words(chart)
        with pytest.raises(UsageError, match="has no agent c"):
            await timeline_chart(workspace, agents=["c"])


@pytest.mark.slow
async def test_sessions_by_name_and_without_a_turn(workspace: Workspace) -> None:
    async with workspace:
        with Session.create(workspace.sessions_dir, name="it-s-old") as old:
            await converse(old)
        nothing = await timeline_chart(workspace)
        assert (words(nothing), repr(nothing), len(nothing.frame)) == ([NOTHING], NOTHING, 0)
        for known in (old.name, old.id):
            assert "Ada" in words(await timeline_chart(workspace, session=known))
        with pytest.raises(SessionNotFoundError, match="Did you mean it-s-old"):
            await timeline_chart(workspace, session="it-s-ol")


@pytest.mark.slow
async def test_a_real_run_is_drawn_while_it_goes_on(workspace: Workspace) -> None:
    async with workspace:

        async def look(place: str) -> str:
            """Look."""
            chart = await timeline_chart(workspace)
            assert set(chart.frame.outcome) <= {"running", ""}
            assert "no end known" not in words(chart)
            return repr(chart)

        model = scripted_model([{"calls": [{"name": "look", "arguments": {"place": "here"}}]}, "It is {result}."])
        agent = workspace.add_agent("ann", model=model, tools=[look])
        assert (await agent.prompt("go")).text == "It is Timeline: 1 agent, 1 turn."
        done = await timeline_chart(workspace)
    assert done.frame.outcome[0] == "turn_end"
    assert (done.frame.ended >= done.frame.began).all()


def rows(*moments: float) -> Iterator[dict[str, object]]:
    for at, moment in enumerate(moments):
        role = "user" if at % 2 == 0 else "assistant"
        yield row("message", id=at + 1, ended=moment, name=role)


def row(kind: str, **values: object) -> dict[str, object]:
    missing = dict.fromkeys(("id", "call_id", "began", "ended", "name", "args", "outcome"))
    return {**missing, "kind": kind, "agent_id": "a", "agent": "a", "turn": 0, **values}


def test_a_clock_that_jumps_back_shifts_what_follows() -> None:
    spans = spans_of(rows(1000.0, 1010.0, 400.0, 406.0), running={})
    assert [(s.kind, s.begin, s.end) for s in spans] == [
        ("turn", 1000, 1016),
        ("model", 1000, 1010),
        ("model", 1010, 1016),
    ]
    call = row("tool", id=4, call_id="c", began=406.0, ended=300.0, name="f", args="[]")
    back = spans_of([*rows(1000.0, 1010.0, 400.0, 406.0), call], running={})
    assert [(s.begin, s.end) for s in back if s.kind == "tool"] == [(1016, 1016)]


def test_a_long_idle_time_is_a_gap_and_times_stay_true() -> None:
    scale = TimeScale([(0, 30), (10, 40), (86_400, 86_440)], 100, 500)
    assert scale.x(0) == 100
    assert scale.x(86_440) == pytest.approx(500)
    assert scale.x(40) == pytest.approx(290)
    assert scale.x(50_000) == scale.x(40)
    assert scale.x(86_400) == pytest.approx(310)
    assert scale.gaps() == [pytest.approx(300)]
    assert scale.ticks()[0] == (100, "0:00")
    assert "1 d 0:00" in [label for _, label in scale.ticks()]
    assert TimeScale([(5, 5)], 100, 500).x(5) == 100
    assert len(TimeScale([(t, t + 1) for t in range(0, 1_000_000, 100)], 0, 500).ticks()) < 20


@pytest.mark.parametrize(
    ("took", "said"), [(0, "0:00"), (84.4, "1:24"), (7385, "2:03:05"), (59.7, "1:00"), (90_061, "1 d 1:01")]
)
def test_elapsed(took: float, said: str) -> None:
    assert elapsed(took) == said


def test_calls_side_by_side_have_lanes_and_many_share_the_last() -> None:
    few = draw_timeline([turn("a", 0, 10), *(span("a", "tool", 1, 9, "f", call=str(n)) for n in range(2))])
    many = draw_timeline([turn("a", 0, 10), *(span("a", "tool", 1, 9, "f", call=str(n)) for n in range(50))])
    one = draw_timeline([turn("a", 0, 10), span("a", "tool", 1, 9, "f", call="1")])
    heights = [float(ET.fromstring(chart.svg).attrib["height"]) for chart in (one, few, many)]
    assert heights == [heights[0], heights[0] + 14, heights[0] + 28]
    assert len(many.frame) == 51


@pytest.mark.slow
def test_bounded_however_much_there_is() -> None:
    dice = random.Random(7)
    spans = []
    for agent in range(40):
        spans.append(turn(f"worker {agent}", agent, agent + 500, outcome="error"))
        for call in range(250):
            begin = agent + 500 * dice.random()
            failed = "error" if dice.random() < 0.2 else ""
            spans.append(
                span(f"worker {agent}", "tool", begin, begin + dice.random() * 9, "f", outcome=failed, call=str(call))
            )
    chart = draw_timeline(spans)
    assert len(chart.frame) == 10_040
    assert len(chart.svg) < 200_000
    assert float(ET.fromstring(chart.svg).attrib["height"]) < 900
    assert "and 28 more agents" in words(chart)
    crowd = draw_timeline([turn("a", 0, 1), *(span("a", "tool", n / 1e4, 1, "f", call=str(n)) for n in range(10_000))])
    assert len(crowd.svg) < 5_000


@pytest.mark.parametrize("name", ["<script>&\"'", "a\x00b\x1b[31m\x85", "x" * 3000, "\u202eevil", "漢字" * 90, ""])
def test_any_name_gives_well_formed_text_that_fits(name: str) -> None:
    chart = draw_timeline([turn(name, 0, 9), span(name, "tool", 1, 8, name, call="c")])
    root = ET.fromstring(chart.svg.encode())
    assert root.attrib["role"] == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[1].tag == f"{SVG}desc"
    assert not {"\x00", "\x1b", "\u202e"} & set(chart.svg)
    assert max(map(len, words(chart))) < 90


def test_marks_say_how_a_turn_ended() -> None:
    ends = {"error": "failed", "aborted": "stopped", "": "no end known"}
    for outcome, label in ends.items():
        shown = words(draw_timeline([turn("a", 0, 5, outcome=outcome)]))
        assert set(ends.values()) & set(shown) == {label}
    assert not set(ends.values()) & set(words(draw_timeline([turn("a", 0, 5, outcome="running")])))


def arrows(chart: Chart) -> list[tuple[float, bool, bool]]:
    """The arrows of a chart without those of its legend: their place, whether they point down, and have failed."""
    found = []
    for path in ET.fromstring(chart.svg).iter(f"{SVG}path"):
        head = re.fullmatch(r"M([\d.]+) [\d.]+l-2.5 (-?)4h5z", path.get("d", ""))
        if head is not None and float(head[1]) > 20:
            found.append((float(head[1]), head[2] == "-", path.get("class") == "pk-fail"))
    return found


def test_tasks_are_arrows_to_the_other_agent_and_answers_arrows_back() -> None:
    spans = [turn("lead", 0, 10), turn("builder", 2, 8), turn("critic", 3, 5)]
    tasks = [
        DrawnTask("lead", "builder", "delegate", 1, 8),
        DrawnTask("builder", "critic", "ask", 3, 5, failed=True),
        DrawnTask("critic", "lead", "ask", 4, None),
    ]
    chart = draw_timeline(spans, tasks)
    scale = TimeScale([(0, 10)], 96, 496)
    at: dict[int, Any] = {second: pytest.approx(scale.x(second), abs=0.06) for second in (1, 3, 4, 5, 8)}
    assert arrows(chart) == [
        (at[1], True, False),
        (at[8], False, False),
        (at[3], True, False),
        (at[5], False, True),
        (at[4], False, False),
    ]
    assert "Agents gave each other 3 tasks: 1 answered, 1 failed." in chart.svg
    assert {"task", "its answer"} <= set(words(chart))
    assert not {"task", "its answer"} & set(words(draw_timeline(spans)))


def test_many_tasks_are_not_all_drawn_and_those_of_agents_that_are_left_out_are_counted() -> None:
    spans = [turn(f"agent {number}", 0, 100 - number) for number in range(MAX_AGENTS + 5)]
    tasks = [DrawnTask("agent 0", f"agent {number % 17}", "delegate", number, number + 1) for number in range(1, 201)]
    chart = draw_timeline(spans, tasks)
    assert len(arrows(chart)) == 2 * MAX_TASKS
    assert "and 140 more tasks without arrows" in words(chart)


@pytest.mark.slow
async def test_tasks_of_a_session_are_in_its_timeline(workspace: Workspace) -> None:
    async with workspace:
        for number, agent in enumerate("ab"):
            log = workspace.session.log(agent)
            say(log, workspace.session, agent, at=START + number)
            await log.append(UserMessage("go"), turn=0, time=START + number)
            await log.append(AssistantMessage(()), turn=0, time=START + 5)
            log.record(events.TurnEnd(agent, workspace.session.id, 0, 9, START + 6, AssistantMessage(()), Usage()))
        log, head = workspace.session.log("a"), ("a", workspace.session.id, 0, 5)
        log.record(events.Delegated(*head, START + 1, "t1", "delegate", "b", "b", "do it"))
        log.record(events.Responded(*head, START + 4, "t1", "delegate", "b", "b", "done"))
        await workspace.session.flush()
        chart = await timeline_chart(workspace)
    assert [(down, failed) for _, down, failed in arrows(chart)] == [(True, False), (False, False)]
    assert "Agents gave each other 1 task: 1 answered." in chart.svg
    assert set(chart.frame.kind) == {"turn", "model"}
