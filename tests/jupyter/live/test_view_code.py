from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from planck_nb.base.event_log import EventLog
from planck_nb.jupyter.live.view import LiveView
from planck_nb.jupyter.live.view_code import LOADER, FirstCode, code_of

STATIC = LOADER.parent
FILE = next(word for word in LOADER.read_text(encoding="utf-8").split('"') if word.startswith("live-"))


def test_the_loader_requests_the_file_that_was_built() -> None:
    assert code_of(FILE) == (STATIC / "live.js").read_bytes()


@pytest.mark.parametrize(
    "file", ["", "live", "live-", "live-000000000000", f"../static/{FILE}", "/etc/passwd-x", "x" * 9999]
)
def test_nothing_else_is_sent(file: str) -> None:
    assert code_of(file) is None


def test_the_code_is_brought_along_once() -> None:
    first = FirstCode()
    assert [len(first.take()) > 10_000, first.take()] == [True, b""]


async def test_a_view_sends_its_code_when_asked_even_after_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter.live.test_live import SUMMARY, Recorder

    view = LiveView(EventLog(), agent="a", model="m", actions=Recorder())
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append((content, buffers)))
    view.finish(SUMMARY)
    sent.clear()
    view._receive(view, {"type": "load", "file": FILE}, [])
    view._receive(view, {"type": "load", "file": "live-0"}, [])
    await asyncio.sleep(0)
    assert sent == [({"type": "code", "file": FILE}, [(STATIC / "live.js").read_bytes()])]
    view.close()


async def test_the_state_of_a_view_is_small() -> None:
    from jupyter.live.test_live import Recorder

    LiveView(EventLog(), agent="a", model="m", actions=Recorder()).close()
    view = LiveView(EventLog(), agent="a", model="m", actions=Recorder())
    state = view.get_state()
    assert len(str(state["_esm"])) + len(str(state.get("_css", ""))) <= 1024
    assert not state["code"]
    assert isinstance(LOADER, Path)
    view.close()
