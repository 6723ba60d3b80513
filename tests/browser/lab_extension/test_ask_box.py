"""In JupyterLab with our extension: a prompt from the side panel, whose answer streams there and becomes a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_cell_commands import CONTENT, activate
from browser.lab_extension.test_panel import WAITS
from browser.lab_extension.test_proposals import EXECUTE, SETUP, button, cells_of
from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

TOLD = "print(planck_nb.get_workspace().agents['analyst'].state.messages[0].message.text)"


def test_the_active_cell_goes_along_and_the_answer_becomes_a_cell(
    lab: Lab, open_notebook: Open, window: Window, show: Show
) -> None:
    setup = f"{SETUP}\nagent('analyst', 'It is **one**.\\n```python\\ny = 2\\n```')\nagent('other', 'No.')"
    notebook = open_notebook(lab.write("ask.ipynb", setup, "x = 1\nx", TOLD), width=1400)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    panel = show(page)
    page.evaluate("window.jupyterapp.shell.collapseRight()")
    activate(page, 1)
    page.evaluate(f"{CONTENT}.activate()")
    page.keyboard.press("Control+Shift+Space")
    expect(panel.get_by_label("Prompt", exact=True)).to_be_focused()
    expect(button(panel, "cell 2")).to_have_attribute("aria-pressed", "true")
    page.keyboard.type("What is x?")
    panel.get_by_label("Agent").select_option("analyst")
    button(panel, "+ output").click()
    panel.get_by_label("Prompt", exact=True).focus()
    notebook.screenshot("panel-ask")
    page.keyboard.press("Enter")
    answer = panel.locator(".planck-answer")
    expect(answer).to_contain_text("It is one.")
    expect(button(panel, "Keep in the notebook")).to_be_visible()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        notebook.screenshot(f"panel-answer-{theme[11:].lower()}")
    answer.locator("[data-does='insert']").last.click()
    assert cells_of(page)[2]["source"].strip() == "y = 2"
    activate(page, 1)
    button(panel, "Keep in the notebook").click()
    expect(answer).to_have_count(0)
    cell = cells_of(page)[2]
    assert cell["source"].startswith("%%planck analyst\nThe notebook's cell 2:")
    assert cell["source"].endswith("What is x?")
    expect(notebook.output(2)).to_contain_text("It is one.")
    notebook.run_only(4)
    expect(notebook.output(4)).to_contain_text("x = 1\nx\n```\n\nThe output of cell 2:")
    assert [line for line in window.said if "planck" in line] == []


def test_a_prompt_waits_for_a_blocked_kernel_and_can_be_withdrawn(lab: Lab, open_notebook: Open, show: Show) -> None:
    cells = (f"{SETUP}\nagent('analyst', 'First.', 'Second.')", WAITS.format("begun", "on"), "print('after')")
    notebook = open_notebook(lab.write("queue.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    panel = show(page)
    expect(panel.locator(".planck-row", has_text="analyst")).to_be_visible()
    panel.get_by_label("Agent").select_option("analyst")
    notebook.run_only(1)
    expect(page.locator(".jp-Cell").nth(1)).to_contain_text("[*]")
    expect(button(panel, "Queue")).to_be_visible()
    prompt = panel.get_by_label("Prompt", exact=True)
    for text in ("one", "two"):
        prompt.fill(text)
        button(panel, "Queue").click()
    waiting = panel.locator(".planck-run")
    expect(waiting).to_have_count(2)
    expect(waiting.first).to_contain_text("Waits until the kernel is free.")
    notebook.screenshot("panel-queue")
    button(waiting.first, "Withdraw").click()
    expect(waiting).to_have_count(1)
    expect(prompt).to_have_value("one")
    page.evaluate("window.jupyterapp.shell.collapseRight()")
    (lab.root / "on").touch()
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.executionCount !== null"
    )
    show(page)
    expect(panel.locator(".planck-answer")).to_contain_text("First.")
    expect(panel.locator(".planck-run")).to_contain_text("two")


def test_an_answer_is_proposed_for_the_cell_that_went_along(
    lab: Lab, open_notebook: Open, window: Window, show: Show
) -> None:
    setup = f"{SETUP}\nagent('analyst', 'Better:\\n```python\\nx = 2\\nx\\n```')"
    notebook = open_notebook(lab.write("propose.ipynb", setup, "x = 1\nx"), width=1400)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    activate(page, 1)
    panel = show(page)
    panel.get_by_label("Agent").select_option("analyst")
    for along in (False, True):
        if along:
            button(panel, "+ cell 2").click()
        panel.get_by_label("Prompt", exact=True).fill("Improve it." if along else "Which cell?")
        page.keyboard.press("Enter")
        expect(button(panel, "Keep in the notebook")).to_be_visible()
        expect(button(panel, "Propose for cell 2")).to_have_count(int(along))
        if not along:
            button(panel, "Close").click()
            page.evaluate(EXECUTE, "agent('analyst2', 'Better:\\n```python\\nx = 2\\nx\\n```')")
            expect(panel.locator(".planck-row", has_text="analyst2")).to_be_visible()
            panel.get_by_label("Agent").select_option("analyst2")
    notebook.screenshot("panel-propose")
    button(panel, "Propose for cell 2").click()
    expect(panel).to_contain_text("Proposed for cell 2.")
    box = page.locator(".planck-at-cell")
    expect(box).to_contain_text("analyst2 proposes a change to this cell")
    button(box, "Accept").click()
    expect(box).to_have_count(0)
    assert cells_of(page)[1]["source"] == "x = 2\nx"
    assert [line for line in window.said if "planck" in line] == []
