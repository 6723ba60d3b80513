"""In JupyterLab with our extension: proposals are decided from the side panel as the review shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_large_and_hostile import VIOLATIONS
from browser.lab_extension.test_proposals import ADD, EXECUTE, SETUP, SHARED, button, cells_of, sources
from playwright.sync_api import Locator, Page, expect
from support.node import LABEXTENSION, build_script

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

PROPOSE = """add('s1', [
    dict(id='1', kind='change', cell='c2', before='b = 1', source='b = 2'),
    dict(id='2', kind='change', cell='c3', before='other', source='c = 2'),
])"""
"""A change that is ready, and an outdated one."""
IN_PANEL = VIOLATIONS.replace(".planck-review, .planck-at-cell, .planck-help", ".pk-panel")


def test_a_persons_text_is_accepted_and_an_outdated_change_stays(
    lab: Lab, open_notebook: Open, window: Window, show: Show
) -> None:
    notebook = open_notebook(lab.write("list.ipynb", f"{SETUP}\n{ADD}", "b = 1", "c = 1"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    ids = [cell["id"] for cell in cells_of(page)]
    page.evaluate(EXECUTE, PROPOSE.replace("c2", ids[1]).replace("c3", ids[2]))
    panel = show(page)
    row = panel.get_by_label("Proposal by analyst")
    expect(row).to_contain_text("2 changes · 1 ready · cell 2, cell 3")
    box = page.locator("[data-change='1'].planck-at-cell")
    button(box, "Edit").click()
    box.get_by_role("textbox").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("0")
    button(row, "Accept the 1 ready").click()
    expect(row).to_contain_text("1 change · 0 ready · cell 3")
    assert sources(page)[ids[1]] == "b = 20"
    assert sources(page)[ids[2]] == "c = 1"
    button(row, "Show").click()
    expect(page.locator(".planck-review .pk-ops")).to_contain_text("outdated")
    button(row, "Refuse").click()
    expect(row).to_have_count(0)
    assert [line for line in window.said if "planck" in line] == []


def test_a_set_that_changed_meanwhile_is_shown_and_stays_open(lab: Lab, open_notebook: Open, show: Show) -> None:
    notebook = open_notebook(lab.write("meanwhile-list.ipynb", f"{SETUP}\n{ADD}", "b = 1"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    cell = cells_of(page)[1]["id"]
    page.evaluate(EXECUTE, f"add('s1', [dict(id='1', kind='change', cell='{cell}', before='b = 1', source='b = 2')])")
    panel = show(page)
    row = panel.get_by_label("Proposal by analyst")
    open_notebook(lab.write("front.ipynb", "1"), width=1400)
    expect(row).to_contain_text("meanwhile-list.ipynb")
    expect(button(row, "Accept")).to_have_count(0)
    button(row, "Show").click()
    accept = button(row, "Accept").element_handle()
    # In one step, as a keystroke between the drawing and the click.
    page.evaluate(f"accept => {{ {SHARED}.cells[1].setSource('b = 3'); accept.click(); }}", accept)
    expect(panel.get_by_role("alert")).to_contain_text("The proposal has changed meanwhile")
    expect(page.locator(".planck-review .pk-ops")).to_contain_text("outdated")
    assert sources(page)[cell] == "b = 3"
    expect(row).to_contain_text("0 ready")
    button(row, "Refuse").click()


@pytest.mark.parametrize("width", [1400, 480])
def test_axe_finds_nothing_and_proposals_are_decided_by_keyboard(
    lab: Lab, open_notebook: Open, show: Show, width: int
) -> None:
    build_script()
    notebook = open_notebook(lab.write(f"axe-list-{width}.ipynb", f"{SETUP}\n{ADD}", "b = 1", "c = 1"), width=width)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    ids = [cell["id"] for cell in cells_of(page)]
    page.evaluate(EXECUTE, PROPOSE.replace("c2", ids[1]).replace("c3", ids[2]))
    panel = show(page)
    row = panel.get_by_label("Proposal by analyst")
    expect(row).to_contain_text("1 ready")
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        page.wait_for_timeout(300)  # colours change by transitions
        notebook.screenshot(f"panel-proposals-{theme[11:].lower()}-{width}")
        assert page.evaluate(IN_PANEL) == []
    button(row, "Accept the 1 ready").focus()
    page.keyboard.press("Enter")
    expect(row).to_contain_text("0 ready")
    assert sources(page)[ids[1]] == "b = 2"
    expect(button(row, "Refuse")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    expect(panel.get_by_label("Prompt", exact=True)).to_be_focused()


def test_accepting_several_says_how_many_are_run(lab: Lab, open_notebook: Open, show: Show) -> None:
    notebook = open_notebook(lab.write("runs.ipynb", f"{SETUP}\n{ADD}", "b = 1", "c = 1"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    ids = [cell["id"] for cell in cells_of(page)]
    plain = "add('s2', [dict(id='3', kind='insert', cell='new', after='c3', source='print(3)')])"
    run = PROPOSE.replace("source='b = 2'", "source='print(2)'").replace("])", "], run=True)")
    page.evaluate(EXECUTE, f"{run}\n{plain}".replace("c2", ids[1]).replace("c3", ids[2]))
    panel = show(page)
    expect(button(panel, "Accept the 1 ready and run 1")).to_be_visible()
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    bar = page.locator(".planck-review")
    expect(bar).not_to_contain_text("Cells are not run")
    button(bar, "Accept the 2 ready and run 1").click()
    expect(notebook.output(1)).to_contain_text("2")
    assert cells_of(page)[3]["source"] == "print(3)"
    assert cells_of(page)[3]["execution_count"] is None
    button(panel, "Refuse").click()
