"""Evaluations' scores with intervals, between models and over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.base.text import counted
from planck_nb.base.threads import run_in_thread
from planck_nb.base.visible import series
from planck_nb.jupyter.charts import svg
from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.charts.history_rows import records
from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

NOTHING = "There are no evaluations yet; `workspace.evaluate` makes them."

MAX_ROWS = 40
"""Largest number of rows for each scorer; the newest are drawn."""

_LEFT, _RIGHT = 190.0, 390.0
_ROW, _INDENT = 20.0, 12.0

Row: TypeAlias = Mapping[str, Any]

_SQL = """
SELECT evaluation, evaluation_id, session_id, session_name, started, model, scorer, case_number, case_name, answers,
    errors, passed, mean, low, high, interval
FROM score_rates ORDER BY scorer, case_number NULLS FIRST, started DESC, evaluation_id, session_id, model
"""


async def scores_chart(workspace: Workspace, *, name: str | None = None, cases: bool = False) -> Chart:
    """Draw models' mean scores with 95 % intervals.

    Evaluations with the same name are together.

    Equal scores give equal pictures: times are in the frame, and the picture counts earlier evaluations.

    Args:
        workspace: The workspace with the history.
        name: The evaluations' name; None for the newest evaluation's.
        cases: Whether to draw each case of the newest evaluation, too.

    Returns:
        The chart. Its `frame` has the rows from `score_rates`.

    Raises:
        UsageError: There are no evaluations with this name.
    """
    frame = await workspace.query_async(_SQL)
    if name is None and len(frame):
        name = str(frame["evaluation"].iloc[int(frame["started"].argmax())])
    names = list(dict.fromkeys(frame["evaluation"]))
    if name is not None and name not in names:
        raise UsageError(f"There is no evaluation {name}. {did_you_mean(name, names) or NOTHING}")
    chosen_rows = frame[frame["evaluation"] == name].reset_index(drop=True)
    return await run_in_thread(partial(_draw, chosen_rows, cases=cases))


def _draw(frame: pd.DataFrame, *, cases: bool) -> Chart:
    rows = records(frame)
    if not rows:
        body = svg.text(0, 20, NOTHING)
        return Chart(svg.document(32, "Scores", NOTHING, body), frame, summary=NOTHING, description=NOTHING)
    ages, names = _ages(rows), _model_names(rows)
    visible_rows = [row for row in rows if row["case_number"] is None or (cases and not ages[_run(row)])]
    parts: list[str] = []
    sentences: list[str] = []
    y = 0.0
    for scorer, group in groupby(visible_rows, key=lambda row: row["scorer"]):
        panel = list(group)
        body, height = _panel(scorer, panel, ages, names, y)
        parts.append(body)
        sentences += [f"{scorer}, {_block(row, ages)}, {row['model']}: {_words(row)}." for row in panel[:MAX_ROWS]]
        y += height
    name, models = rows[0]["evaluation"], {row["model"] for row in rows}
    parts.append(svg.text(0, y + 14, "Lines are 95 % intervals; over all cases, each case counts once."))
    evaluations = counted(len(ages), "evaluation")
    summary = f"Scores: {name}, {evaluations}, {counted(len(models), 'model')}\n" + "\n".join(sentences)
    description = " ".join(sentences)
    return Chart(
        svg.document(y + 24, "Scores", description, "".join(parts)), frame, summary=summary, description=description
    )


def _run(row: Row) -> tuple[str, str]:
    return row["session_id"], row["evaluation_id"]


def _ages(rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Return how many evaluations came after each."""
    begins = {_run(row): row["started"] for row in rows}
    return {run: age for age, run in enumerate(sorted(begins, key=lambda run: begins[run], reverse=True))}


def _block(row: Row, ages: Mapping[tuple[str, str], int]) -> str:
    """Return a row's case, or its age for all cases."""
    age = ages[_run(row)]
    return f"{row['case_name'] or 'all cases'}{f', {age} earlier' if age else ''}"


def _panel(
    scorer: str, rows: Sequence[Row], ages: Mapping[tuple[str, str], int], names: Mapping[str, str], y: float
) -> tuple[str, float]:
    """Draw a scorer's rows, and return their height."""
    low, high = _scale(rows)
    parts = [
        svg.text(0, y + 14, scorer, bold=True, max_width=_LEFT - 10),
        svg.text(_LEFT, y + 14, _number(low, rows)),
        svg.text(_RIGHT, y + 14, _number(high, rows), anchor="end"),
    ]
    begin, top = y, y + 24
    y = top
    blocks = [(name, list(block)) for name, block in groupby(rows[:MAX_ROWS], key=lambda row: _block(row, ages))]
    for name, block in blocks:
        if len(blocks) > 1:
            parts.append(svg.text(0, y + 14, name, max_width=_LEFT - 10))
            y += _ROW
        for row in block:
            parts.append(_row(row, names[row["model"]], low, high, y))
            y += _ROW
    parts.append(svg.rule(f"M{_LEFT:g} {top:g}V{y:g}M{_RIGHT:g} {top:g}V{y:g}"))
    if len(rows) > MAX_ROWS:
        parts.append(svg.text(0, y + 14, f"and {len(rows) - MAX_ROWS:,} more"))
        y += _ROW
    return "".join(parts), y - begin + 12


def _model_names(rows: Iterable[Row]) -> dict[str, str]:
    """Return models' names, without their providers where they differ anyway."""
    models = sorted({row["model"] for row in rows})
    short = {model: model.partition(":")[2] or model for model in models}
    return short if len(set(short.values())) == len(models) else {model: model for model in models}


def _row(row: Row, label: str, low: float, high: float, y: float) -> str:
    """Draw a label, an interval with its mean, and both in words."""
    middle = y + _ROW / 2

    def x(score: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (score - low) / (high - low)

    parts = [svg.text(_INDENT, middle + 4, label, max_width=_LEFT - _INDENT - 10)]
    if row["low"] is not None:
        begin, end = x(row["low"]), x(row["high"])
        parts.append(svg.rect(begin, middle - 2, max(1.0, end - begin), 4, "pk-data", opacity=svg.MEDIUM))
    if row["mean"] is not None:
        parts.append(svg.element("circle", cx=x(row["mean"]), cy=middle, r=4, **svg.filling("pk-data")))
    parts.append(svg.text(_RIGHT + 8, middle + 4, _count(row), max_width=svg.WIDTH - _RIGHT - 8))
    return "".join(parts)


def _scale(rows: Iterable[Row]) -> tuple[float, float]:
    """Return the axis's ends, 0 and 1 for rates."""
    ends = [row[name] for row in rows for name in ("low", "mean", "high") if row[name] is not None]
    if all(0 <= end <= 1 for end in ends):
        return 0.0, 1.0
    low, high = min(0.0, *ends), max(0.0, *ends)
    return low, high if high > low else low + 1


def _number(value: float, rows: Sequence[Row]) -> str:
    return f"{value:.0%}".replace("%", " %") if rows[0]["interval"] == "wilson" else f"{value:.3g}"


def _count(row: Row) -> str:
    errors = counted(row["errors"], "error") if row["errors"] else ""
    if row["mean"] is None:
        return errors
    score = f"{row['mean']:.3g}" if row["passed"] is None else f"{row['passed']:.0f} of {row['answers']}"
    return ", ".join(filter(None, [score, errors]))


def _words(row: Row) -> str:
    """Return a row's numbers in words."""
    if row["low"] is None:
        interval = "too few for an interval"
    elif row["interval"] == "wilson":
        interval = f"interval {100 * row['low']:.0f} to {100 * row['high']:.0f} %"
    else:
        interval = f"interval {row['low']:.3g} to {row['high']:.3g}"
    return series([_count(row), interval])
