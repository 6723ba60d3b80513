"""In JupyterLab: what the bar of a run that is over offers, and that each of its actions works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """%load_ext planck_nb
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
get_workspace().set_default_model(scripted_model(["The **answer** is 42.", "And 43."]))"""
PROMPTS = """prompts = [row.message.text for row in get_workspace().agents["planck"].state.messages
    if row.message.type == "user"]
print(prompts)"""
SOURCE = "window.jupyterapp.shell.currentWidget.content.widgets[{}].model.sharedModel.getSource()"
INERT_MS = 450


def bar_of(notebook: Notebook, cell: int) -> Locator:
    bar = notebook.output(cell).locator(".pk-barbox")
    expect(bar).to_be_visible()
    notebook.page.wait_for_timeout(INERT_MS)  # its buttons ignore clicks that were meant for what was there before
    return bar


def go_back_from(notebook: Notebook, cell: int) -> Locator:
    bar = bar_of(notebook, cell)
    bar.get_by_role("button", name="More").click()
    notebook.output(cell).get_by_role("menuitem", name="Edit and re-run from here").click()
    return bar


def prompts(notebook: Notebook, cell: int) -> str:
    notebook.run_only(cell)
    notebook.page.wait_for_function(
        f"() => window.jupyterapp.shell.currentWidget.content.widgets[{cell}].model.outputs.length > 0"
    )
    notebook.wait_idle()
    return notebook.printed(cell).strip()


def test_editing_from_here_goes_back_and_can_be_undone(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("from-here.ipynb", SETUP, "%%planck\nfirst", "%%planck\nsecond", PROMPTS))
    notebook.run_all()
    notebook.wait_idle()
    assert notebook.printed(3) == "['first', 'second']\n"
    bar = go_back_from(notebook, 2)
    note = bar.locator(".pk-barnote")
    expect(note).to_contain_text("The conversation is back to before this prompt; 2 messages are set aside.")
    notebook.screenshot("from-here")
    assert prompts(notebook, 3) == "['first']"
    note.get_by_role("button", name="Undo").click()
    expect(note).to_have_text("The conversation is as it was before.")
    assert prompts(notebook, 3) == "['first', 'second']"
    go_back_from(notebook, 2)
    expect(note).to_contain_text("2 messages are set aside.")
    notebook.page.keyboard.type(" and better")  # the cursor is at the end of the prompt
    assert notebook.page.evaluate(SOURCE.format(2)) == "%%planck\nsecond and better"
    notebook.page.keyboard.press("Control+Enter")
    notebook.wait_idle()
    expect(notebook.output(2).locator("p", has_text="And 43.")).to_have_count(1)
    notebook.wait_idle()
    assert prompts(notebook, 3) == "['first', 'second and better']"

    # The first prompt is behind that: going back to it leaves neither.
    bar = go_back_from(notebook, 1)
    expect(bar.locator(".pk-barnote")).to_contain_text("4 messages are set aside.")
    go_back_from(notebook, 1)
    expect(bar.locator(".pk-barnote")).to_contain_text("nothing to go back to")
    notebook.save()


def test_the_menu_works_by_keyboard_and_by_pointer(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("menu.ipynb", SETUP, "%%planck\nfirst"))
    page = notebook.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notebook.run_all()
    notebook.wait_idle()
    bar = bar_of(notebook, 1)
    more = bar.get_by_role("button", name="More")
    more.focus()
    page.keyboard.press("Enter")
    menu = notebook.output(1).get_by_role("menu")
    expect(menu).to_be_visible()
    expect(more).to_have_attribute("aria-expanded", "true")
    items = menu.get_by_role("menuitem")
    expect(items).to_have_text(
        [
            "Edit and re-run from here",
            "Edit the cell only",
            "Copy all as Markdown",
            "Show the next request",
            "Show tokens and costs",
            "Export the session",
            "Fork the session",
        ]
    )
    expect(items.first).to_be_focused()
    notebook.screenshot("menu")
    page.keyboard.press("ArrowUp")
    expect(items.last).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(more).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(items.nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(bar.locator(".pk-barnote")).to_have_text("Copied.")
    assert "The **answer** is 42." in page.evaluate("navigator.clipboard.readText()")
    assert page.evaluate("navigator.clipboard.readText()").startswith("**planck** · done")
    more.click()
    menu.get_by_text("Show the next request").click()
    page.wait_for_function("document.activeElement.closest('.jp-Cell')?.dataset.windowedListIndex === '2'")
    assert page.evaluate(SOURCE.format(2)) == "%planck request planck"
    page.keyboard.press("Control+Enter")
    expect(notebook.output(2)).to_contain_text("first")
    more.click()
    page.mouse.click(5, 5)
    expect(menu).to_be_hidden()
    notebook.wait_idle()
    page.set_viewport_size({"width": 480, "height": 700})
    expect(bar.get_by_role("button", name="Re-run")).to_be_hidden()
    more.click()
    expect(items.first).to_have_text("Re-run")
    assert menu.evaluate("menu => menu.getBoundingClientRect().right <= innerWidth")
    notebook.screenshot("menu-480")
    page.keyboard.press("Escape")
    notebook.save()


FAILED = """run = ScriptedRun()
view = run.view()
display(view)
run.start()
view.finish({**run.summary("failed"), "key_variable": "ANTHROPIC_API_KEY"})"""


def test_an_error_about_a_key_tells_how_to_set_it(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("key.ipynb", "from scripted_run import ScriptedRun", FAILED), width=480)
    notebook.run_all()
    notebook.wait_idle()
    bar_of(notebook, 1)
    bar = notebook.output(1).locator(".pk-folded")
    bar.get_by_role("button", name="How to set the key").click()
    expect(bar.locator(".pk-barnote")).to_contain_text("Set the environment variable ANTHROPIC_API_KEY where Jupyter")
    assert bar.evaluate("bar => bar.scrollWidth <= bar.clientWidth")
    notebook.screenshot("key-480")
    bar.get_by_role("button", name="Ask for it in a new cell").click()
    expect(notebook.page.locator(".jp-Cell")).to_have_count(3)
    code = "import getpass, os\nos.environ['ANTHROPIC_API_KEY'] = getpass.getpass('ANTHROPIC_API_KEY: ')"
    assert notebook.page.evaluate(SOURCE.format(2)) == code
    more = bar.get_by_role("button", name="More")
    more.click()
    notebook.output(1).get_by_role("menuitem", name="Edit and re-run from here").click()
    expect(bar.locator(".pk-barnote")).to_contain_text("`%planck rewind` lists".replace("`", ""))
    notebook.save()


ENDS = """%load_ext planck_nb
from planck_nb import get_workspace
from planck_nb.testing import Reply, scripted_model
replies = [Reply("one two", stop_reason="length"), "three", Reply(error="The server is down."), "four"]
get_workspace().set_default_model(scripted_model(replies))"""


def press(notebook: Notebook, cell: int, name: str) -> None:
    """Press a button of a cell's bar or note by the keyboard."""
    bar_of(notebook, cell)
    notebook.output(cell).get_by_role("button", name=name, exact=True).focus()
    notebook.page.keyboard.press("Enter")


def test_each_end_has_its_next_step_and_the_keyboard_reaches_it(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("ends.ipynb", ENDS, "%%planck\ncount"))
    page = notebook.page
    notebook.run_all()
    notebook.wait_idle()
    bar = notebook.output(1).locator(".pk-bar")
    expect(bar).to_contain_text("Cut off")
    press(notebook, 1, "Continue")
    expect(notebook.output(2).locator(".pk-bar")).to_contain_text("Done")
    assert page.evaluate(SOURCE.format(2)) == "%planck continue planck"
    expect(notebook.output(2).get_by_text("three", exact=True)).to_be_visible()
    notebook.wait_idle()
    press(notebook, 1, "Try again")
    expect(bar).to_contain_text("Failed")
    notebook.wait_idle()
    press(notebook, 1, "Choose model")
    page.wait_for_function("document.activeElement.closest('.jp-Cell')?.dataset.windowedListIndex === '2'")
    assert page.evaluate(SOURCE.format(2)) == "%planck models"
    page.keyboard.press("Escape")
    press(notebook, 1, "Try again")
    expect(bar).to_contain_text("Done")
    notebook.wait_idle(cells=2)
    press(notebook, 1, "Reply")
    page.wait_for_function("document.activeElement.closest('.jp-Cell')?.dataset.windowedListIndex === '2'")
    assert page.evaluate(SOURCE.format(2)) == "%%planck\n"
    notebook.save()
