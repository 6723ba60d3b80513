"""In JupyterLab with our extension: buttons, menus and shortcuts for cells, and prompts made from texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_proposals import ADD, EXECUTE, SETUP, SHARED, button, cells_of, sources
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

OFFERED = """() => {
    const items = window.jupyterapp.contextMenu.menu.items;
    const { submenu } = items.find(item => item.submenu?.title.label === 'Planck');
    return submenu.items.filter(item => item.isVisible).map(item => item.label.replace(' This Cell', ''));
}"""
"""What the open menu offers for a cell."""
CONTENT = "window.jupyterapp.shell.currentWidget.content"


def activate(page: Page, cell: int) -> None:
    page.evaluate(f"{CONTENT}.activeCellIndex = {cell}")


def execute(page: Page, command: str) -> None:
    page.evaluate("command => window.jupyterapp.commands.execute(command)", f"planck:{command}")


def test_the_cell_toolbar_and_the_menu_offer_what_is_possible_now(
    lab: Lab, open_notebook: Open, window: Window
) -> None:
    setup = f"{SETUP}\nagent('helper', 'Nothing can be divided by 0.\\n```python\\n1 / 2\\n```')"
    notebook = open_notebook(lab.write("toolbar.ipynb", setup, "1 / 0", "a = 1"), width=1400)
    page = notebook.page
    toolbar = page.locator(".jp-cell-toolbar")
    fix, explain = (
        toolbar.get_by_role("button", name="Fix This Cell"),
        toolbar.get_by_role("button", name="Explain This"),
    )
    activate(page, 1)
    expect(toolbar).to_be_visible()
    expect(fix).to_be_hidden()
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    notebook.wait_idle(cells=2)
    expect(fix).to_be_enabled()
    expect(explain).to_be_enabled()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        notebook.screenshot(f"lab-toolbar-{theme[11:].lower()}")
    page.locator(".jp-Cell").nth(1).locator(".jp-InputPrompt").click(button="right")
    assert page.evaluate(OFFERED) == ["Fix", "Explain", "Improve", "Document", "Write a Test for"]
    page.keyboard.press("Escape")
    fix.click()
    expect(page.locator(".planck-at-cell")).to_contain_text("Nothing can be divided by 0.")
    expect(fix).to_be_disabled()
    activate(page, 2)
    expect(explain).to_be_disabled()
    assert [line for line in window.said if "planck" in line] == []


def test_shortcuts_lead_through_the_proposals(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("keys.ipynb", f"{SETUP}\n{ADD}", "a = 1", "b = 1"))
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    changes = [
        {"id": str(at), "kind": "change", "cell": f"c{at}", "before": text, "source": text * 2}
        for at, text in ((1, "a = 1"), (2, "b = 1"))
    ]
    page.evaluate(EXECUTE, f"add('s', {changes!r})")
    first, second = (page.locator(f".planck-at-cell[data-change='{at}']") for at in (1, 2))
    expect(second).to_be_visible()
    page.evaluate(f"{CONTENT}.activate()")
    page.keyboard.press("F8")
    expect(button(first, "Accept")).to_be_focused()
    page.keyboard.press("F8")
    expect(button(second, "Accept")).to_be_focused()
    page.keyboard.press("Shift+F8")
    expect(button(first, "Accept")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+F8")
    expect(first).to_have_count(0)
    assert sources(page)["c1"] == "a = 1a = 1"
    assert sources(page)["c2"] == "b = 1"


def test_a_selection_and_a_question_become_prompts(lab: Lab, open_notebook: Open) -> None:
    code = 'text = """\n```\n%%planck\n@text\n"""'
    notebook = open_notebook(
        lab.write("ask.ipynb", f"{SETUP}\nagent('planck', 'It is.\\n```python\\nx = 1\\n```')", code), width=1400
    )
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    page.evaluate(
        f"""() => {{
            {SHARED}.insertCell(2, {{cell_type: 'markdown', source: 'Is *this* a question?', id: 'm'}});
            {SHARED}.insertCell(3, {{cell_type: 'markdown', source: 'And @~/.ssh/id_rsa?', id: 'n'}});
        }}"""
    )
    activate(page, 1)
    page.evaluate(
        f"{CONTENT}.activeCell.editor.setSelection({{start: {{line: 0, column: 7}}, end: {{line: 4, column: 0}}}})"
    )
    execute(page, "ask-selection")
    cell = page.locator(".jp-Cell").nth(2)
    expect(cell.locator(".cm-content")).to_be_focused()
    page.keyboard.type("What is it?")
    expect(cell).to_contain_text("What is it?")
    asked = cells_of(page)[2]
    assert asked["source"] == '%%planck\n````python\n"""\n```\n%%planck\n@text\n````\n\nWhat is it?'
    assert asked["execution_count"] is None
    notebook.screenshot("lab-ask")

    activate(page, 3)
    execute(page, "ask-cell")
    expect(page.locator(".jp-Cell").nth(4)).to_contain_text("It is.")
    assert cells_of(page)[4]["source"] == "%%planck\nIs *this* a question?"
    page.locator(".jp-Cell").nth(4).locator("[data-does='insert']").last.click()
    expect(page.locator(".jp-Cell").nth(5).locator(".cm-content")).to_be_focused()
    assert cells_of(page)[5]["source"].strip() == "x = 1"
    assert page.evaluate(f"{CONTENT}.widgets[5].model.trusted"), "a new cell in a trusted notebook"

    activate(page, 6)
    execute(page, "ask-cell")
    expect(page.locator(".planck-review")).to_contain_text("run the cell if it should be")
    asked = cells_of(page)[7]
    assert (asked["source"], asked["execution_count"]) == ("%%planck\nAnd @~/.ssh/id_rsa?", None)

    count = len(cells_of(page))
    page.evaluate(f"{CONTENT}.model.readOnly = true")
    activate(page, 3)
    execute(page, "ask-cell")
    expect(page.locator(".planck-review")).to_contain_text("The notebook is read-only.")
    assert len(cells_of(page)) == count
