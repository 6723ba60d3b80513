"""A very long paragraph is not formatted in the live view: parsing it would block the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


LONG = """from scripted_run import ScriptedRun
run = ScriptedRun()
display(run.view())
run.start()
run.text("](<" * 60_000)
run.text("end")
run.tool("1", "bash", {"command": "ls"})
await run.stopped.wait()"""


def test_a_very_long_paragraph_stays_plain(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("long.ipynb", LONG))
    notebook.run_all()
    plain = notebook.output(0).locator(".pk-plain")
    expect(notebook.output(0).locator(".pk-tool")).to_be_visible()
    expect(plain).to_contain_text("end")
    assert len(plain.inner_text().replace("\n", "")) >= 180_000
    notebook.output(0).locator(".pk-stop").click()
    notebook.wait_idle()
