"""In JupyterLab with our extension: help with a cell ends with a sentence, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_cell_help import ANSWERS
from browser.lab_extension.test_proposals import SETUP, SHARED, button
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

SLOW = """from planck_nb.testing import scripted_model
workspace = planck_nb.get_workspace()
if "helper" in workspace.agents:  # with a session that is resumed
    await workspace.remove_agent("helper")
workspace.add_agent("helper", model=scripted_model(["word " * 9999], pace=1.0))"""


def test_an_interrupt_and_another_text_end_the_help_and_a_restart_leaves_nothing(lab: Lab, open_notebook: Open) -> None:
    setup = f"{SETUP}\nagent('helper', *{ANSWERS * 2!r})"
    wait = "import time\nfrom pathlib import Path\nwhile not Path('go').exists(): time.sleep(0.05)"
    notebook = open_notebook(lab.write("states.ipynb", setup, "x = 1 / 0", wait), width=480)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    notebook.wait_idle(cells=2)
    help_bar, proposal = page.locator(".jp-Cell").nth(1).locator(".planck-help"), page.locator(".planck-at-cell")
    button(help_bar, "Fix").click()
    expect(button(proposal, "Accept and run")).to_be_visible()
    notebook.run_only(2)
    expect(page.locator(".jp-Cell").nth(2)).to_contain_text("[*]")
    button(proposal, "Accept and run").click()
    expect(proposal).to_have_count(0)
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    expect(help_bar).to_contain_text("was not run, so the help ended")
    expect(page.locator(".planck-help")).to_have_count(1)
    notebook.screenshot("lab-not-run-480")

    button(help_bar, "Close").click()
    page.evaluate(f"{SHARED}.getCell(1).setSource('x = 1 / 0')")
    notebook.run_only(1)
    button(help_bar, "Fix").click()
    expect(button(proposal, "Accept and run")).to_be_visible()
    notebook.run_only(2)
    expect(page.locator(".jp-Cell").nth(2)).to_contain_text("[*]")
    notebook.run_only(1)  # the text before the change waits in the queue, too
    button(proposal, "Accept and run").click()
    expect(proposal).to_have_count(0)
    (lab.root / "go").touch()
    expect(help_bar).to_contain_text("ran with another text than the accepted one")
    button(help_bar, "Close").click()
    page.evaluate(f"{SHARED}.getCell(1).setSource('x = 1 / 0')")
    notebook.run_only(1)
    button(help_bar, "Fix").click()
    expect(proposal).to_be_visible()
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(proposal).to_have_count(0)
    expect(page.locator(".jp-NotebookPanel.planck-connected")).to_have_count(0)


def test_a_page_loaded_again_shows_the_help_that_goes_on(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("again.ipynb", f"{SETUP}\n{SLOW}", "x = 1 / 0"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    notebook.wait_idle(cells=2)
    notebook.save()
    help_bar = page.locator(".planck-help")
    button(help_bar, "Fix").click()
    expect(help_bar).to_contain_text("helper works on this cell")
    notebook.reload()
    expect(help_bar).to_contain_text("helper works on this cell")
    button(help_bar, "Stop").click()
    expect(button(help_bar, "Fix")).to_be_visible()
