"""Results of tools as people see them: tables and HTML."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from planck_nb.agent.agent import Agent
from planck_nb.agent.calling.previews import (
    MAX_HTML_CHARACTERS,
    MAX_PREVIEWS,
    html_preview,
    table_preview,
    without_previewed,
    without_secrets,
)
from planck_nb.agent.calling.tool_output import as_output
from planck_nb.agent.preview_types import HtmlPreview, TablePreview
from planck_nb.base.safe_html import framed_html
from planck_nb.base.secrets import remember_secret
from planck_nb.testing import scripted_model

SECRET = "zq-9f8e7d6c5b4a39281706"


def table(value: Any) -> TablePreview:
    [preview] = as_output(value).previews
    assert isinstance(preview, TablePreview)
    assert {len(row) for row in preview.rows} <= {len(preview.names)}
    return preview


def test_a_frame_is_a_table_with_types_and_numbers() -> None:
    frame = pd.DataFrame({"month": ["Jan", "Feb\n<b>"], "orders": [16_244, 3], "rev": [1.5, np.nan]})
    frame["day"] = pd.Timestamp("2026-01-01")
    shown = table(frame)
    assert shown.names == ("", "month", "orders", "rev", "day")
    assert shown.types[2:4] == ("int64", "float64")
    assert shown.numeric == (True, False, True, True, False)
    assert shown.rows == (("0", "Jan", "16244", "1.5", "2026-01-01"), ("1", "Feb\\n<b>", "3", "NaN", "2026-01-01"))
    assert (shown.index, shown.size) == (1, "2 rows, 4 columns")


def test_a_large_frame_shows_its_ends() -> None:
    shown = table(pd.DataFrame(np.arange(300_000).reshape(10_000, 30)))
    assert (len(shown.rows), len(shown.names)) == (21, 22)
    assert shown.names[11] == shown.rows[10][0] == "⋯"
    assert (shown.rows[0][1], shown.rows[-1][-1]) == ("0", "299999")
    assert shown.size == "10,000 rows, 30 columns"


@pytest.mark.parametrize(
    ("value", "names", "first"),
    [
        (pd.Series([1, 2], name="s"), ("", "s"), ("0", "1")),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ("", "a", "a"), ("0", "1", "2")),
        (pd.DataFrame({("x", 1): [1]}), ("", "x / 1"), ("0", "1")),
        (
            pd.DataFrame({"v": [1]}, index=pd.MultiIndex.from_tuples([("p", 2)], names=["k", None])),
            ("k", "", "v"),
            ("p", "2", "1"),
        ),
        (pd.DataFrame({"n": ["\u202ex"]}), ("", "n"), ("0", "⟨U+202E⟩x")),
    ],
    ids=["series", "same name", "levels of columns", "levels of rows", "reordering characters"],
)
def test_frames_of_other_shapes(value: Any, names: tuple[str, ...], first: tuple[str, ...]) -> None:
    shown = table(value)
    assert shown.names == names
    assert shown.rows[0] == first


def test_an_empty_frame_has_a_header() -> None:
    shown = table(pd.DataFrame({"a": []}))
    assert shown.names == ("", "a")
    assert (shown.rows, shown.size) == ((), "0 rows, 1 column")


class Rude:
    def __str__(self) -> str:
        raise ValueError("no")


def test_cells_that_fail_leave_the_text() -> None:
    output = as_output(pd.DataFrame({"a": [Rude()]}))
    assert output.text
    assert output.previews == ()
    assert table_preview(3, "3") is None


class Drawn:
    def __init__(self, html: Any) -> None:
        self._html = html

    def _repr_html_(self) -> Any:
        if isinstance(self._html, Exception):
            raise self._html
        return self._html


def test_an_object_that_draws_itself() -> None:
    [shown] = as_output(Drawn("<b>x</b>")).previews
    assert shown == HtmlPreview("[Drawn object]", "<b>x</b>")


@pytest.mark.parametrize("html", [ValueError("no"), None, 3, " ", "x" * (MAX_HTML_CHARACTERS + 1)])
def test_an_object_that_cannot_draw_itself_is_text(html: Any) -> None:
    output = as_output(Drawn(html))
    assert (output.text, output.previews) == ("[Drawn object]", ())


def test_a_class_is_not_drawn() -> None:
    assert html_preview(Drawn, "") is None


def test_secrets_are_not_shown() -> None:
    remember_secret(SECRET, "the key of the test")
    shown = without_secrets(as_output(pd.DataFrame({"a": [f"{SECRET}"], "b": ["kept"]})).previews)
    assert SECRET not in str(shown)
    assert "kept" in str(shown)
    divided = f"<i>{SECRET[:6]}</i><i>{SECRET[6:]}</i>"
    assert without_secrets([HtmlPreview("", f"<p>{SECRET}</p>"), HtmlPreview("", divided)]) == ()
    assert len(without_secrets([HtmlPreview("", "<p>x</p>")] * 99)) == MAX_PREVIEWS


def test_the_rest_of_a_result_is_what_no_preview_shows() -> None:
    frame = pd.DataFrame({"a": [1]})
    text = as_output(frame).text
    preview = table(frame)
    assert without_previewed(f"printed\n{text}\n[note]", [preview]) == "printed\n[note]"
    assert without_previewed("printed\nt\nh", [HtmlPreview("t", ""), HtmlPreview("h", "")]) == "printed"
    assert without_previewed(text, [preview]) == ""


async def test_previews_come_before_the_result_and_the_model_reads_text() -> None:
    def report() -> pd.DataFrame:
        """A report."""
        return pd.DataFrame({"a": [1]})

    model = scripted_model([{"calls": [{"name": "report", "arguments": {}}]}, "Done."])
    async with Agent(name="a", model=model, tools=[report]) as agent:
        run = agent.prompt("go")
        await run
        events = run.events.since(0)
    kinds = [event.type for event in events]
    assert kinds.index("tool_start") < kinds.index("tool_preview") < kinds.index("tool_end")
    [shown] = [event for event in events if event.type == "tool_preview"]
    [end] = [event for event in events if event.type == "tool_end"]
    assert shown.tables[0].text == end.result


async def test_html_is_prepared_for_frames_before_the_event() -> None:
    def report() -> Drawn:
        """A report."""
        return Drawn("<p>for a frame, once</p>")

    model = scripted_model([{"calls": [{"name": "report", "arguments": {}}]}, "Done."])
    async with Agent(name="a", model=model, tools=[report]) as agent:
        run = agent.prompt("go")
        await run
    [shown] = [event for event in run.events.since(0) if event.type == "tool_preview"]
    before = framed_html.cache_info()
    assert framed_html(shown.documents[0].html) == "<p>for a frame, once</p>"
    assert framed_html.cache_info().hits == before.hits + 1
