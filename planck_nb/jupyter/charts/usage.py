"""A session's usage: tokens and cost by agent, model and turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planck_nb.jupyter.charts import svg
from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.charts.history_rows import records, rows_of, session_shown
from planck_nb.jupyter.display.formatting import count, dollars
from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 10
"""Largest number of agents, models or turns; the others share a line."""

NOTHING = "No model has replied in this session yet."

_UNKNOWN = "?"
_PURPOSES = {
    "reply": "replies",
    "summary": "summaries",
    "sampling": "replies for sidecars",
    "failed": "failed requests",
}
_COST_COLUMN = 76
_FIGURES = 140

# What a rewind has taken back belongs to no turn, but was paid for.
_SQL = """
WITH spent AS (
    SELECT agent_id, model, purpose, CASE WHEN NOT rewound THEN turn END AS turn,
        count(*) FILTER (purpose = 'reply') AS replies, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cache_read_tokens) AS cache_read_tokens,
        sum(cache_write_tokens) AS cache_write_tokens, sum(thinking_tokens) AS thinking_tokens,
        sum(cost_usd) AS cost_usd, bool_or(estimated) AS estimated
    FROM charges WHERE session_id = $session GROUP BY ALL
),
said AS (SELECT agent_id, turn, prompt FROM turns WHERE session_id = $session),
known AS (SELECT agent_id, name FROM agents WHERE session_id = $session)
SELECT coalesce(name, agent_id) AS agent, agent_id, model, purpose, turn, prompt, replies::bigint AS replies,
    columns('_tokens$')::bigint, cost_usd, estimated
FROM spent LEFT JOIN known USING (agent_id) LEFT JOIN said USING (agent_id, turn)
ORDER BY turn NULLS LAST, agent, model, agent_id, purpose
"""

Row = Mapping[str, Any]


async def usage_chart(workspace: Workspace, *, session: str | None = None, agents: Iterable[str] = ()) -> Chart:
    """Draw a session's tokens and cost by agent, model and turn.

    The same conversation gives the same chart.

    Args:
        workspace: The workspace with the history.
        session: An id or a name; None for the workspace's own session.
        agents: Agent names or ids to include; all by default.

    Returns:
        The chart. Its `frame` has a row for each agent, model, turn and purpose, as in the view `charges`; `turn` is
        missing for what a rewind took back, which still counts as spent. Cost is in US dollars, missing for an unknown
        price.

    Raises:
        SessionNotFoundError: The session is unknown.
        UsageError: An agent is unknown in the session.
    """
    frame = await rows_of(workspace, _SQL, session_shown(workspace, session), agents)
    return draw_usage(frame)


def draw_usage(frame: pd.DataFrame) -> Chart:
    """Draw rows as `usage_chart` queries them."""
    rows = records(frame)
    if not rows:
        body = svg.text(0, 20, NOTHING)
        return Chart(svg.document(32, "Usage", NOTHING, body), frame, summary=NOTHING, description=NOTHING)
    total = _sum("Total", "", rows)
    sections = _sections(rows)
    parts = _legend()
    y = 44.0
    for title, figures in sections:
        parts.append(svg.text(0, y, title, bold=True))
        y += 12
        widest = max((figure.tokens or 0 for figure in figures if figure.bar), default=0)
        for figure in figures:
            parts += _row(figure, y, widest)
            y += 36 if figure.bar else 24
        y += 28
    parts.append(svg.rule(f"M0 {y - 20:g}H{svg.WIDTH}"))
    parts += _row(total, y - 16, 0)
    first = sections[0][1][0]
    description = (
        f"Tokens and cost of a session. Total {_tokens(total)} tokens, {_cost(total, 'cost not known')}; "
        f"{first.label} has {_tokens(first)} tokens of it."
    )
    names = len({row["agent_id"] for row in rows})
    summary = f"Usage: {names} agent{'s' * (names > 1)}, {_tokens(total)} tokens, {_cost(total, 'cost not known')}"
    document = svg.document(y + 12, "Usage", description, "".join(parts))
    return Chart(document, frame, summary=summary, description=description)


@dataclass(slots=True)
class _Figure:
    """A line with a label and its amounts, None for unknown ones."""

    label: str
    note: str
    cached: int = 0
    fresh: int = 0
    output: int = 0
    tokens: int | None = None
    cost: float | None = None
    complete: bool = True
    """True if every reply's cost is known, rather than a lower bound."""
    bar: bool = field(default=True)


def _cost_of(row: Row) -> float | None:
    """Return the cost in US dollars, None if it is unknown.

    The demo models are free.
    """
    cost: float | None = row["cost_usd"]
    return 0.0 if cost is None and str(row.get("model", "")).startswith("demo:") else cost


def _sum(label: str, note: str, rows: Sequence[Row], *, bar: bool = False) -> _Figure:
    figure = _Figure(label, note, bar=bar)
    for row in rows:
        input_tokens, output_tokens = row["input_tokens"], row["output_tokens"]
        if input_tokens is not None or output_tokens is not None:
            cached_tokens = min(row["cache_read_tokens"] or 0, input_tokens or 0)
            figure.cached += cached_tokens
            figure.fresh += (input_tokens or 0) - cached_tokens
            figure.output += output_tokens or 0
            figure.tokens = figure.cached + figure.fresh + figure.output
        cost = _cost_of(row)
        if cost is None or row.get("estimated"):
            figure.complete = False
        if cost is not None:
            figure.cost = (figure.cost or 0.0) + cost
    return figure


def _sections(rows: Sequence[Row]) -> list[tuple[str, list[_Figure]]]:
    """Return the sections with their titles, without mere repetitions."""
    by_agent = _grouped(rows, lambda row: (row["agent_id"], row["agent"], row["model"]))
    sections = [("By agent", _largest([_sum(key[1], key[2], group, bar=True) for key, group in by_agent.items()]))]
    by_model = _grouped(rows, lambda row: (row["model"],))
    if 1 < len(by_model) < len(by_agent):
        sections.append(("By model", _largest([_sum(key[0], "", group, bar=True) for key, group in by_model.items()])))
    by_purpose = _grouped(rows, lambda row: (_PURPOSES.get(row["purpose"], _UNKNOWN),))
    if len(by_purpose) > 1:
        figures = [_sum(key[0], "", group, bar=True) for key, group in by_purpose.items()]
        sections.append(("By purpose", _largest(figures)))
    by_turn = _grouped(rows, lambda row: (row["turn"], row["agent"], row["agent_id"], row["prompt"]))
    if len(by_turn) > len(by_agent):
        several = len({row["agent_id"] for row in rows}) > 1
        sections.append(("By turn", _newest([_turn(key, group, several=several) for key, group in by_turn.items()])))
    return sections


def _turn(key: tuple[Any, ...], rows: Sequence[Row], *, several: bool) -> _Figure:
    turn, agent, _, prompt = key
    label = "taken back" if turn is None else f"turn {turn}"
    return _sum(f"{agent}, {label}" if several else label, prompt or "", rows, bar=True)


def _grouped(rows: Sequence[Row], key: Callable[[Row], tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _largest(figures: list[_Figure]) -> list[_Figure]:
    by_size = sorted(figures, key=lambda figure: (-(figure.tokens or 0), figure.label, figure.note))
    if len(by_size) <= MAX_ROWS:
        return by_size
    return [*by_size[: MAX_ROWS - 1], _rest(by_size[MAX_ROWS - 1 :], "more")]


def _newest(figures: list[_Figure]) -> list[_Figure]:
    if len(figures) <= MAX_ROWS:
        return figures
    return [_rest(figures[: 1 - MAX_ROWS], "earlier"), *figures[1 - MAX_ROWS :]]


def _rest(figures: Sequence[_Figure], word: str) -> _Figure:
    token_counts = [figure.tokens for figure in figures if figure.tokens is not None]
    costs = [figure.cost for figure in figures if figure.cost is not None]
    return _Figure(
        f"and {len(figures)} {word}",
        "",
        tokens=sum(token_counts) if token_counts else None,
        cost=sum(costs) if costs else None,
        complete=all(figure.complete for figure in figures),
        bar=False,
    )


def _legend() -> list[str]:
    parts = []
    x = 0.0
    for label, opacity in (("cached input", svg.LIGHT), ("input", svg.MEDIUM), ("output", svg.STRONG)):
        parts += [svg.rect(x, 6, 12, 8, "pk-data", opacity=opacity), svg.text(x + 18, 14, label)]
        x += 34 + svg.width_of(label)
    right = float(svg.WIDTH)
    return [
        *parts,
        svg.text(right - _COST_COLUMN, 14, "tokens", anchor="end"),
        svg.text(right, 14, "cost", anchor="end"),
    ]


def _row(figure: _Figure, top: float, widest: int) -> list[str]:
    """Return the line with text and numbers, and the bar below it."""
    right, base = float(svg.WIDTH), top + 14
    max_width = right - _FIGURES
    label = svg.cut(figure.label, max_width * 0.6)
    note_x = svg.width_of(label) + 10
    parts = [
        svg.text(0, base, label, bold=bool(figure.bar) or figure.label == "Total"),
        svg.text(right - _COST_COLUMN, base, _tokens(figure), anchor="end"),
        svg.text(right, base, _cost(figure, _UNKNOWN), bold=True, anchor="end"),
    ]
    if figure.note:
        parts.append(svg.text(note_x, base, figure.note, max_width=max_width - note_x))
    x = 0.0
    for tokens, opacity in ((figure.cached, svg.LIGHT), (figure.fresh, svg.MEDIUM), (figure.output, svg.STRONG)):
        width = tokens / widest * right if widest else 0.0
        if width > 0:
            parts.append(svg.rect(x, top + 20, max(width - 1, 0.5), 8, "pk-data", opacity=opacity))
        x += width
    return parts


def _tokens(figure: _Figure) -> str:
    return _UNKNOWN if figure.tokens is None else count(figure.tokens)


def _cost(figure: _Figure, unknown: str) -> str:
    if figure.cost is None:
        return unknown
    return dollars(figure.cost) if figure.complete else f"≥ {dollars(figure.cost)}"
