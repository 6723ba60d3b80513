"""In JupyterLab: two tabs with the same notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from browser.conftest import READY, Notebook
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from browser.conftest import Lab

    Open = Callable[..., Notebook]


SETUP = "import asyncio\nfrom scripted_run import ScriptedRun, ask_twice"
ASK = """run = ScriptedRun()
view = run.view()
display(view)
ask_twice(run)
print(await run.commands.get())
run.text("It goes on.")
print(await run.commands.get())
run.end()
view.finish(run.summary())"""


@contextmanager
def second_tab(lab: Lab, notebook: Notebook) -> Iterator[Page]:
    """The same notebook in another tab, as it is saved now."""
    notebook.save()
    page = notebook.page.context.new_page()
    page.set_viewport_size({"width": 1000, "height": 1100})
    page.goto(lab.address(notebook.path))
    page.wait_for_function(READY)
    yield page
    page.close()


def test_two_tabs_show_the_run_and_the_first_decision_counts(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("two-tabs.ipynb", SETUP, ASK), height=1100)
    notebook.run_all()
    here = notebook.output(1)
    expect(here.locator(".pk-ask")).to_have_count(2)
    with second_tab(lab, notebook) as page:
        there = page.locator(".jp-Cell").nth(1).locator(".jp-Cell-outputWrapper")
        expect(there.locator(".pk-ask")).to_have_count(2)
        there.get_by_label("Approval: bash").get_by_role("button", name="Allow once").click()
        expect(here.get_by_label("Approval: bash")).to_have_count(0)
        expect(there.get_by_label("Approval: bash")).to_have_count(0)
        for output in (here, there):
            expect(output.locator(".pk-prose").last).to_have_text("It goes on.")
        here.get_by_label("Approval: edit").get_by_role("button", name="Deny").click()
        expect(there.get_by_label("Approval: edit")).to_have_count(0)
        for output in (here, there):
            expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    decisions = [line.split(", ")[:3] for line in notebook.printed(1).splitlines()]
    assert decisions == [["('decide'", "'2'", "True"], ["('decide'", "'1'", "False"]]
