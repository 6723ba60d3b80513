"""A session's timeline: agents, tool calls and waits on one axis."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.charts import svg
from planck_nb.jupyter.charts.activity import DrawnTask, Span, spans_of, tasks_of
from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.charts.history_rows import records, rows_of, session_shown
from planck_nb.jupyter.charts.time_scale import EXACT, TimeScale, elapsed
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import named_agents

if TYPE_CHECKING:
    import pandas as pd

MAX_AGENTS = 12
"""Largest number of agents; the busiest are drawn."""

MAX_LANES = 3
"""Concurrent calls side by side per agent; others share the last lane."""

MAX_TASKS = 60
"""Largest number of tasks as arrows; the first are drawn."""

NOTHING = "No agent has taken up a prompt in this session yet."

_GIVEN = 0.55
_BACK = "3 2"
_LEFT = 96.0
_LANE = 14.0
_BAR = 10.0
_MIN_WIDTH = 1.0
_APART = 1.5
_LABELLED = 8.0

_SQL = """
WITH rows AS (
    SELECT 'message' AS kind, agent_id, turn, id, NULL AS call_id, NULL::timestamp AS began, ts AS ended, role AS name,
        NULL AS args, NULL AS outcome
    FROM messages WHERE session_id = $session
    UNION ALL
    SELECT 'tool', agent_id, turn, message_id, call_id, ts, ts + to_microseconds((duration_s * 1e6)::bigint), name,
        args::varchar, CASE WHEN is_error THEN 'error' END
    FROM tool_calls WHERE session_id = $session
    UNION ALL
    SELECT 'turn', agent_id, turn, NULL, NULL, NULL, ended, NULL, NULL, outcome
    FROM turns WHERE session_id = $session
    UNION ALL
    SELECT 'hold', a.agent_id, a.turn, c.message_id, a.call_id, a.asked, a.decided, a.name, a.args::varchar, NULL
    FROM approvals a ASOF LEFT JOIN tool_calls c
        ON c.session_id = a.session_id AND c.agent_id = a.agent_id AND c.call_id = a.call_id AND c.ts <= a.asked
    WHERE a.session_id = $session AND a.asked IS NOT NULL
    UNION ALL
    SELECT 'task', from_agent_id, NULL, id, to_agent_id, asked_at, answered_at, kind, NULL, status
    FROM delegations WHERE session_id = $session
)
SELECT coalesce(agents.name, rows.agent_id) AS agent, rows.* EXCLUDE (began, ended), epoch(began) AS began,
    epoch(ended) AS ended
FROM rows LEFT JOIN (SELECT agent_id, name FROM agents WHERE session_id = $session) agents USING (agent_id)
ORDER BY kind, id
"""


async def timeline_chart(workspace: Workspace, *, session: str | None = None, agents: Iterable[str] = ()) -> Chart:
    """Draw a session's agents on a time axis.

    It shows when the model wrote, tools ran, and calls waited.

    A task is an arrow from its delegator to the other agent, and its answer an arrow back.

    Times differ from run to run: in a notebook under test, the cell needs the comment `# NBVAL_IGNORE_OUTPUT`.

    Args:
        workspace: The workspace with the history.
        session: An id or a name; None for the workspace's own session.
        agents: Agent names or ids to draw; all by default.

    Returns:
        The chart. Its `frame` has a row for each span, with `kind` "model", "tool", "agent" (waits for another agent),
        "hold" (waits for approval) or "turn" (covers the others), and `began` and `ended` in UTC. A turn with an
        unknown end is drawn to its last event.

    Raises:
        SessionNotFoundError: The session is unknown.
        UsageError: An agent is unknown in the session.
    """
    frame = await rows_of(workspace, _SQL, session_shown(workspace, session), agents)
    now = time.time()
    running = {agent.id: now for agent in named_agents(workspace).values() if agent.status != "idle"}
    return await run_in_thread(partial(_draw, frame, running))  # agents go on, however long the history is


def _draw(frame: pd.DataFrame, running: Mapping[str, float]) -> Chart:
    rows = records(frame)
    return draw_timeline(spans_of(rows, running=running), tasks_of(rows))


def draw_timeline(spans: Sequence[Span], tasks: Sequence[DrawnTask] = ()) -> Chart:
    """Draw spans, with a "turn" for each turn, and tasks as arrows."""
    frame = _frame(spans)
    if not spans:
        body = svg.text(0, 20, NOTHING)
        return Chart(svg.document(32, "Timeline", NOTHING, body), frame, summary=NOTHING, description=NOTHING)
    by_agent: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.begin, span.agent)):
        by_agent.setdefault(span.agent_id, []).append(span)
    busiest = _busiest(by_agent)
    scale = TimeScale([(s.begin, s.end) for s in spans if s.kind == "turn"], _LEFT, svg.WIDTH - 4)
    arrows = [task for task in tasks if task.delegator_id in busiest and task.target_id in busiest][:MAX_TASKS]
    parts, y = _legend(spans, arrows)
    y += 16
    lanes: dict[str, float] = {}
    for agent_id in busiest:
        body, height = _agent(by_agent[agent_id], scale, y)
        parts.append(body)
        lanes[agent_id] = y
        y += height
    parts += _arrows(arrows, scale, lanes)
    hidden_count = len(by_agent) - len(busiest)
    if hidden_count:
        parts.append(svg.text(0, y + 10, f"and {hidden_count} more agents"))
        y += 24
    if left_out := len(tasks) - len(arrows):
        parts.append(svg.text(0, y + 10, f"and {left_out:,} more tasks without arrows"))
        y += 24
    parts.append(_axis(scale, y))
    description = _describe(spans, len(by_agent), tasks)
    turns = sum(span.kind == "turn" for span in spans)
    agents = f"{len(by_agent)} agent{'s' * (len(by_agent) > 1)}"
    summary = f"Timeline: {agents}, {turns} turn{'s' * (turns > 1)}"
    return Chart(
        svg.document(y + 24, "Timeline", description, "".join(parts)), frame, summary=summary, description=description
    )


def _frame(spans: Sequence[Span]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - half a second, spent when the first chart is drawn

    columns = ["agent", "agent_id", "turn", "kind", "name", "detail", "outcome", "began", "ended", "duration_s"]
    frame = pd.DataFrame(
        [
            (s.agent, s.agent_id, s.turn, s.kind, s.name, s.detail, s.outcome, s.begin, s.end, s.end - s.begin)
            for s in spans
        ],
        columns=columns,
    )
    for column in ("began", "ended"):
        frame[column] = pd.to_datetime(frame[column].astype(float), unit="s")
    return frame


def _busiest(by_agent: Mapping[str, Sequence[Span]]) -> list[str]:
    """Return the agents to draw, ordered by their beginning."""

    def busy(agent_id: str) -> float:
        return sum(span.end - span.begin for span in by_agent[agent_id] if span.kind == "turn")

    selection = set(sorted(by_agent, key=busy, reverse=True)[:MAX_AGENTS])
    return [agent_id for agent_id in by_agent if agent_id in selection]


def _describe(spans: Sequence[Span], agents: int, tasks: Sequence[DrawnTask] = ()) -> str:
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    start_text = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d %H:%M UTC")
    calls = sum(span.kind in {"tool", "agent"} for span in spans)
    failures = sum(span.kind == "turn" and span.outcome == "error" for span in spans)
    unknown_ends = sum(span.kind == "turn" and not span.outcome for span in spans)
    duration = elapsed(end - begin, exact=end - begin < EXACT)
    counts = f"{agents} agent{'s' * (agents > 1)}, {calls} tool call{'s' * (calls != 1)}"
    sentences = [
        f"Timeline of {duration} from {start_text}: {counts}.",
        f"{failures} turn{'s' * (failures > 1)} failed." if failures else "",
        f"No end is known of {unknown_ends} turn{'s' * (unknown_ends > 1)}." if unknown_ends else "",
        _describe_tasks(tasks),
    ]
    return " ".join(filter(None, sentences))


def _describe_tasks(tasks: Sequence[DrawnTask]) -> str:
    if not tasks:
        return ""
    failures = sum(task.failed for task in tasks)
    answers = sum(task.answered is not None for task in tasks) - failures
    sentence = f"Agents gave each other {len(tasks)} task{'s' * (len(tasks) > 1)}: {answers} answered"
    return f"{sentence}, {failures} failed." if failures else f"{sentence}."


def _legend(spans: Sequence[Span], tasks: Sequence[DrawnTask] = ()) -> tuple[list[str], float]:
    """Return a legend for the marks in use, and its height."""
    kinds = {span.kind for span in spans}
    outcomes = {span.outcome for span in spans if span.kind == "turn"}
    has_failures = any(span.outcome == "error" for span in spans)
    entries = [
        ("model", svg.rect(0, -8, 12, 8, "pk-data"), "model" in kinds),
        ("tool", svg.rect(0, -8, 12, 8, "pk-data", opacity=svg.LIGHT), "tool" in kinds),
        ("waits for an agent", svg.rule("M0-4H12", 0.55, "2 3"), "agent" in kinds),
        ("waits for you", svg.rect(0, -6, 12, 4, "pk-hold"), "hold" in kinds),
        ("failed", svg.rect(4, -10, 3, 12, "pk-fail"), has_failures),
        ("stopped", svg.element("rect", x=4, y=-10, width=3, height=12, **svg.filling("")), "aborted" in outcomes),
        ("task", _arrow(6, -11, 1, opacity=_GIVEN), bool(tasks)),
        ("its answer", _arrow(6, 1, -11, opacity=_GIVEN, dashes=_BACK), any(task.answered for task in tasks)),
        ("no end known", svg.rule("M5.5-10V2", 0.8, "2 2"), "" in outcomes),
    ]
    parts, x, y = [], 0.0, 16.0
    for label, mark, occurs in entries:
        if not occurs:
            continue
        width = 34 + svg.width_of(label, bold=False)
        if x + width > svg.WIDTH:
            x, y = 0.0, y + 20
        parts.append(svg.element("g", mark, svg.text(18, 0, label), transform=f"translate({x:.0f} {y:.0f})"))
        x += width
    return parts, y


def _arrows(tasks: Sequence[DrawnTask], scale: TimeScale, lanes: Mapping[str, float]) -> list[str]:
    """Return an arrow for each task and for each answer."""
    parts = []
    for task in tasks:
        delegator, target = lanes[task.delegator_id], lanes[task.target_id]
        start, end = (delegator + _BAR, target) if target > delegator else (delegator, target + _BAR)
        parts.append(_arrow(scale.x(task.given), start, end, opacity=_GIVEN))
        if task.answered is not None:
            kind = "pk-fail" if task.failed else ""
            parts.append(_arrow(scale.x(task.answered), end, start, opacity=_GIVEN, dashes=_BACK, kind=kind))
    return parts


def _arrow(x: float, start: float, end: float, *, opacity: float, dashes: str | None = None, kind: str = "") -> str:
    """Return a vertical line with a head at its end."""
    back = 4 if end < start else -4
    head = f"M{_short(x)} {_short(end)}l-2.5 {back}h5z"
    line = svg.rule(f"M{_short(x)} {_short(start)}V{_short(end + back)}", opacity, dashes)
    return line + svg.element("path", d=head, **svg.filling(kind))


def _agent(spans: Sequence[Span], scale: TimeScale, top: float) -> tuple[str, float]:
    """Return an agent's lanes, and their height."""
    lanes = _lanes([span for span in spans if span.kind != "turn"])
    parts = [svg.text(0, top + _BAR, spans[0].agent, bold=True, max_width=_LEFT - 12)]
    for number, lane in enumerate(lanes):
        parts += _lane(lane, scale, top + number * _LANE)
    parts.append(_ends([span for span in spans if span.kind == "turn"], scale, top))
    base = top + max(len(lanes), 1) * _LANE
    labels = _labels(spans, scale, base + 10)
    return "".join(parts) + labels, base - top + (22 if labels else 10)


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Put overlapping spans side by side, in at most `MAX_LANES` lanes."""
    lanes: list[list[Span]] = []
    free: list[float] = []
    lane_by_call: dict[tuple[int, tuple[int | None, str]], int] = {}
    for span in spans:
        key = (span.turn, span.call)
        lane = lane_by_call.get(key) if span.call[1] else None  # a call stays in the lane where it waited for approval
        if lane is None:
            lane = next((at for at, end in enumerate(free) if end <= span.begin), len(free))
        lane = min(lane, MAX_LANES - 1)
        lane_by_call[key] = lane
        if lane == len(free):
            lanes.append([])
            free.append(span.end)
        lanes[lane].append(span)
        free[lane] = max(free[lane], span.end)
    return lanes


def _lane(spans: Sequence[Span], scale: TimeScale, top: float) -> list[str]:
    def stretches(*, kind: str, failed: bool = False) -> list[tuple[float, float]]:
        matches = [s for s in spans if s.kind == kind and (s.outcome == "error") == failed]
        return _merged([(scale.x(s.begin), scale.x(s.end)) for s in matches])

    def bars(intervals: Sequence[tuple[float, float]], y: float, height: float, kind: str, opacity: float = 1.0) -> str:
        path = "".join(f"M{_short(a)} {_short(y)}h{_short(b - a)}v{height:g}h-{_short(b - a)}z" for a, b in intervals)
        return svg.element("path", d=path, **svg.filling(kind, opacity)) if path else ""

    waits = "".join(f"M{_short(a)} {_short(top + _BAR / 2)}H{_short(b)}" for a, b in stretches(kind="agent"))
    return [
        bars(stretches(kind="model"), top, _BAR, "pk-data"),
        bars(stretches(kind="tool"), top, _BAR, "pk-data", svg.LIGHT),
        bars(stretches(kind="tool", failed=True), top, _BAR, "pk-fail", svg.MEDIUM),
        bars(stretches(kind="agent", failed=True), top + 3, 4, "pk-fail", svg.MEDIUM),
        svg.rule(waits, 0.55, "2 3") if waits else "",
        bars(stretches(kind="hold"), top + 3, 4, "pk-hold"),
    ]


def _merged(stretches: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the stretches in pixels, wide enough to be visible.

    Those with an invisible gap between them are joined.
    """
    result: list[tuple[float, float]] = []
    for begin, end in sorted(stretches):
        visible_end = max(end - min(1.0, (end - begin) / 4), begin + _MIN_WIDTH)
        before = result[-1][1] if result else -1.0
        if begin < before - 1 or (begin - before < _APART - _MIN_WIDTH and end - begin < _APART):
            result[-1] = (result[-1][0], max(result[-1][1], visible_end))
        else:
            result.append((begin, visible_end))
    return result


def _ends(turns: Sequence[Span], scale: TimeScale, top: float) -> str:
    """Return marks at the ends of unusual turns.

    These failed, were stopped, or have an unknown end.
    """
    marks = []
    for outcome, kind in (("error", "pk-fail"), ("aborted", ""), ("", None)):
        places = sorted({round(scale.x(turn.end)) for turn in turns if turn.outcome == outcome})
        if kind is None:
            path = "".join(f"M{x + 2}.5 {_short(top - 2)}v14" for x in places)
            marks.append(svg.rule(path, 0.8, "2 2") if path else "")
        else:
            path = "".join(f"M{x} {_short(top - 2)}h3v14h-3z" for x in places)
            marks.append(svg.element("path", d=path, **svg.filling(kind)) if path else "")
    return "".join(marks)


def _labels(spans: Sequence[Span], scale: TimeScale, base: float) -> str:
    """Return call names, under the bars which are wide enough."""
    parts, free = [], _LEFT
    calls = [span for span in spans if span.kind in {"tool", "agent", "hold"}]
    wide = [span for span in calls if scale.x(span.end) - scale.x(span.begin) >= _LABELLED]
    labelled_calls: set[tuple[int, tuple[int | None, str]]] = set()
    for span in wide:
        x = scale.x(span.begin)
        label = svg.plain(f"{span.name} {span.detail}").strip()
        if x < free or (span.turn, span.call) in labelled_calls:
            continue
        following = min((scale.x(other.begin) for other in wide if other.begin > span.begin), default=svg.WIDTH)
        max_width = max(following - x - 8, svg.width_of(span.name, bold=False))
        if x + max_width > svg.WIDTH:
            max_width = svg.WIDTH - x
        label = svg.cut(label, max_width, bold=False)
        parts.append(svg.text(x, base, label))
        free = x + svg.width_of(label, bold=False) + 8
        labelled_calls.add((span.turn, span.call))
    return "".join(parts)


def _axis(scale: TimeScale, y: float) -> str:
    parts = [svg.rule(f"M{_LEFT:g} {y + 0.5:g}H{svg.WIDTH - 4}")]
    ticks = scale.ticks()
    parts.append(svg.rule("".join(f"M{_short(x)} {y:g}v5" for x, _ in ticks), 0.45))
    for x, label in ticks:
        late = x + svg.width_of(label) / 2 > svg.WIDTH
        parts.append(svg.text(svg.WIDTH if late else x, y + 18, label, anchor="end" if late else "middle"))
    if scale.gap_width >= 6:  # noqa: PLR2004 - pixels that two strokes need
        strokes = "".join(f"M{x - 3:.1f} {y + 5:g}l3-10M{x + 1:.1f} {y + 5:g}l3-10" for x in scale.gaps())
        parts.append(svg.rule(strokes, 0.8))
    return "".join(parts)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
