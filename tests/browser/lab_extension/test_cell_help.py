"""In JupyterLab with our extension: a person asks for help with a cell, and gets proposals until it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_proposals import SETUP, button, cells_of
from playwright.sync_api import Page, expect
from support.llama import llama_server

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
    notebook.wait_idle(cells=2)
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    answer = "Nothing can be divided by 0.\n```python\nx = 1 / 2\nx\n```"
    with llama_server(tmp_path_factory.mktemp("llama"), [{"text": answer}]) as url:
        yield url


@pytest.mark.parametrize("with_mouse", [True, False], ids=["mouse", "keyboard"])
def test_a_real_server_corrects_a_cell_which_fails_again(
    server: str, lab: Lab, open_notebook: Open, *, with_mouse: bool
) -> None:
    setup = f"""%load_ext planck_nb
import planck_nb
from planck_nb import ai
model = ai.get_model("llama_cpp", "script", base_url="{server}/v1")
planck_nb.get_workspace().add_agent("helper", model=model)"""
    notebook = open_notebook(lab.write(f"llama-{with_mouse}.ipynb", setup, "x = 1 / 0\nx"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    notebook.wait_idle(cells=2)
    help_bar, proposal = page.locator(".planck-help"), page.locator(".planck-at-cell")
    expect(button(help_bar, "Fix")).to_be_visible()
    failed = cells_of(page)[1]

    def press(text: str) -> None:
        if with_mouse:
            button(page.locator(".planck-help, .planck-at-cell"), text).click()
        else:
            press_by_keyboard(page, text)

    press("Fix")
    press("Edit")
    expect(proposal.locator(".pk-edit .cm-content")).to_be_visible()
    if with_mouse:
        proposal.locator(".pk-edit .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" + y")
    page.keyboard.press("Control+Enter")
    expect(proposal).to_contain_text("Still fails; proposal 2 of 3")
    assert cells_of(page)[1]["source"] == "x = 1 / 2\nx + y"
    press("Accept and run")
    expect(help_bar).to_contain_text("Runs now, after 2 changes")
    expect(notebook.output(1)).to_contain_text("0.5")
    press("Take back")
    expect(button(help_bar, "Fix")).to_be_visible()
    assert cells_of(page)[1] == failed


def press_by_keyboard(page: Page, text: str) -> None:
    """Move the focus with the tab key to a button, and press it."""
    expect(button(page.locator(".planck-help, .planck-at-cell"), text)).to_be_visible()
    for _ in range(60):
        if page.evaluate("document.activeElement.textContent") == text:
            page.keyboard.press("Enter")
            return
        page.keyboard.press("Tab")
    raise AssertionError(page.evaluate("document.activeElement.outerHTML"))
