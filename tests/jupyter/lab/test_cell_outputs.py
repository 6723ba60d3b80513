"""Outputs are collected as a notebook has them, and compared without what differs in each run."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from planck_nb.jupyter.lab.cell_outputs import MAX_OUTPUT, MAX_TEXT, OutputCollector, comparable, error_of, excerpts


def shown(mime: str, value: object, **more: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {mime: value}, "metadata": {}, **more}


def printed(text: object, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def collected(*messages: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    collector = OutputCollector()
    for kind, content in messages:
        collector.add(kind, content)
    return collector.outputs


def test_messages_become_outputs() -> None:
    first: dict[str, Any] = {"data": {"text/plain": "1"}, "metadata": {}, "transient": {"display_id": "d"}}
    outputs = collected(
        ("stream", {"name": "stdout", "text": "old"}),
        ("clear_output", {"wait": True}),
        ("stream", {"name": "stdout", "text": "a"}),
        ("stream", {"name": "stdout", "text": "b\n"}),
        ("display_data", first),
        ("comm_msg", {}),
        ("update_display_data", {**first, "data": {"text/plain": "2"}}),
        ("error", {"ename": "ValueError", "evalue": "\x1b[31mno\x1b[0m", "traceback": []}),
    )
    assert comparable(outputs) == "ab\n2\nValueError: no"
    assert error_of(outputs) == ("ValueError", "no")
    assert collected(("stream", {"name": "stdout", "text": "old"}), ("clear_output", {"wait": False})) == []


def test_endless_output_is_bounded() -> None:
    outputs = collected(*[("stream", {"name": "stdout", "text": "x" * 1_000_000})] * 40)
    assert len(comparable(outputs)) <= MAX_OUTPUT + 1_000_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (printed("a\nb\n"), printed(["a\n", "b"])),
        (printed("10%\r100%\n"), printed("100%\n")),
        (printed("\x1b[1mbold\x1b[0m"), printed("bold")),
        (shown("text/plain", "<object at 0x7f0011223344>"), shown("text/plain", "<object at 0x7fffffffffff>")),
        (shown("text/html", '<p id="T_0a1b2_row0">'), shown("text/html", '<p id="T_ffff0_row0">')),
        (shown("text/plain", "x", execution_count=1), shown("text/plain", "x", execution_count=2)),
        (
            shown("application/vnd.jupyter.widget-view+json", {"model_id": "a"}),
            shown("application/vnd.jupyter.widget-view+json", {"model_id": "b"}),
        ),
        (
            printed("/tmp/ipykernel_12/34.py:1: W", "stderr"),
            printed("/tmp/ipykernel_99/34.py:1: W", "stderr"),
        ),
        (shown("application/json", {"a": 1, "b": 2}), shown("application/json", {"b": 2, "a": 1})),
        (
            shown("text/plain", "0f8fad5b-d9cb-469f-a165-70867728950e"),
            shown("text/plain", "7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ),
    ],
)
def test_what_differs_in_each_run_is_left_out(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert comparable([one]) == comparable([other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (printed("a"), printed("b")),
        (printed("a"), printed("a", "stderr")),
        (printed("a"), shown("text/html", "a")),
        (shown("image/png", base64.b64encode(b"one").decode()), shown("image/png", base64.b64encode(b"two").decode())),
        (shown("application/json", {"a": 1}), shown("application/json", {"a": 2})),
    ],
)
def test_other_outputs_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert comparable([one]) != comparable([other])


def test_a_copied_folder_counts_as_the_original() -> None:
    assert comparable([printed("/tmp/copy/a.txt")], {"/tmp/copy": "/home/me"}) == "/home/me/a.txt"


@pytest.mark.parametrize("broken", [{}, {"output_type": "stream"}, {"output_type": "display_data", "data": 3}])
def test_broken_outputs_are_empty(broken: dict[str, Any]) -> None:
    assert comparable([broken]) == ""


@pytest.mark.parametrize("at", [0, 5, 90_000, 100_000])
def test_long_texts_are_shown_where_they_differ(at: int) -> None:
    before = "line\n" * 20_000
    after = f"{before[:at]}NEW{before[at:]}"
    shown_before, shown_after = excerpts(before, after)
    assert "NEW" in shown_after
    assert "NEW" not in shown_before
    assert max(len(shown_before), len(shown_after)) <= MAX_TEXT + 4
