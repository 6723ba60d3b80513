"""In JupyterLab with our extension: a person asks for help with a cell, and gets proposals until it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_proposals import SETUP, button, cells_of
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

ANSWERS = (
    "Nothing can be divided by 0.\n```python\nx = 1 / y\nx\n```",
    "There is no `y`.\n```python\ny = 2\nx = 1 / y\nx\n```",
)


def test_a_failed_cell_is_corrected_until_it_runs_and_taken_back(lab: Lab, open_notebook: Open, window: Window) -> None:
    setup = f"{SETUP}\nagent('helper', *{ANSWERS!r})"
    notebook = open_notebook(lab.write("fix.ipynb", setup, "x = 1 / 0\nx", "print('other')"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    help_bar = page.locator(".planck-help")
    expect(help_bar).to_contain_text("Sends this cell and its error to")
    failed = cells_of(page)[1]
    button(help_bar, "Fix").click()
    proposal = page.locator(".planck-at-cell")
    expect(proposal).to_contain_text("Nothing can be divided by 0.")
    assert cells_of(page)[1] == failed
    button(proposal, "Accept and run").click()
    expect(proposal).to_contain_text("Still fails; proposal 2 of 3: helper proposes a change to this cell")
    button(proposal, "Accept and run").focus()
    page.keyboard.press("Enter")
    expect(help_bar).to_contain_text("Runs now, after 2 changes")
    expect(notebook.output(1)).to_contain_text("0.5")
    notebook.screenshot("lab-fixed-1400")
    button(help_bar, "Take back").click()
    expect(help_bar).to_contain_text("Sends this cell and its error to")
    assert cells_of(page)[1] == failed
    assert [line for line in window.said if "planck" in line] == []


def test_other_help_is_a_proposal_too_and_can_be_stopped(lab: Lab, open_notebook: Open) -> None:
    setup = f"{SETUP}\nagent('helper', 'A test.\\n```python\\nassert a == 1\\n```', 'No code.')"
    notebook = open_notebook(lab.write("help.ipynb", setup, "a = 1"), width=1400)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle()
    page.evaluate("window.jupyterapp.commands.execute('planck:test-cell')")
    proposal = page.locator(".planck-at-cell")
    expect(proposal).to_contain_text("assert a == 1")
    button(proposal, "Accept").click()
    expect(proposal).to_have_count(0)
    assert [cell["source"] for cell in cells_of(page)][1:] == ["a = 1", "assert a == 1"]
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    page.evaluate("window.jupyterapp.commands.execute('planck:improve-cell')")
    help_bar = page.locator(".planck-help")
    expect(help_bar).to_contain_text("No code.")
    button(help_bar, "Close").click()
    expect(help_bar).to_have_count(0)
    page.evaluate("window.jupyterapp.commands.execute('planck:explain-cell')")
    expect(page.locator(".jp-Cell").nth(2)).to_contain_text("%planck explain --cell 2")
