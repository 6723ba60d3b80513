"""A map in a kernel: what its cell shows and saves, once more for the same answers, and how an interrupt ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.kernel import running_kernel

pytestmark = pytest.mark.kernel

SETUP = """import asyncio
%load_ext planck_nb
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
import pandas as pd
tickets = pd.DataFrame({"text": ["too hot", "too cold"]})
workspace = get_workspace()
workspace.add_agent("ann", model=scripted_model(["Oven."]))
async def endless():
    yield "one"
    await asyncio.Event().wait()"""
MAP = "%%planck map tickets --agent ann\nWhich product? {text}"

WAIT = """run = workspace.map(endless(), agent="ann")
async for item in run:
    print(item.answer)
    break
await run"""


@pytest.mark.timeout(180)
def test_the_cell_saves_a_summary_and_the_table(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_MODEL="demo") as kernel:
        kernel.run(SETUP)
        first, second = kernel.run(MAP), kernel.run(MAP)
        assert "2 of 2 items · demo:script · $0" in first.data("text/plain")
        assert first.data("text/html") == second.data("text/html")
        assert any("Which product? too hot" in text for text in first.data("text/html"))
        wrong = kernel.run("%%planck map tickets --agent ann\nWhich product? {txt}")
        assert "tickets has no column 'txt'. Did you mean text?" in wrong.error


@pytest.mark.timeout(180)
def test_an_interrupt_keeps_the_answers(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_MODEL="demo") as kernel:
        kernel.run(SETUP)
        cell = kernel.start(WAIT)

        def interrupt_after_an_answer(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                kernel.interrupt()

        kernel.finish(cell, on_message=interrupt_after_an_answer)
        shown = kernel.run("print(len(await run.frame()), run.progress.state)")
        assert shown.text.strip() == "1 stopped"
