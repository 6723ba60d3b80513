"""In JupyterLab with our extension: a person verifies accepted changes in a scratch kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_large_and_hostile import VIOLATIONS
from browser.lab_extension.test_proposals import ADD, PROPOSED, READ, SETUP, button
from playwright.sync_api import Locator, Page, expect
from support.node import LABEXTENSION, build_script

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

CHANGED = 'add("s1", [dict(id="x1", kind="change", cell="c2", before="a = 1", source="a = 2")])'
STARTED_MS = 60_000
"""A kernel's time to start on a loaded machine."""


def accept(notebook: Notebook) -> Locator:
    """Accept the open set, and return the part of the page that shows checks."""
    page = notebook.page
    expect(page.locator(".planck-at-cell")).to_have_count(1)
    button(page.locator(".planck-at-cell"), "Accept").click()
    expect(page.locator(".planck-strips")).to_contain_text("Accepted 1 change by analyst")
    return page.locator(".planck-check")


def verify(page: Page) -> None:
    button(page.locator(".planck-strips"), "Verify").click()
    run = button(page.locator(".planck-check"), "Run the check")
    run.focus()
    page.keyboard.press("Enter")


def look(notebook: Notebook, name: str) -> None:
    """Take pictures in light, dark and narrow, and let axe-core look."""
    page = notebook.page
    build_script()
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        page.wait_for_timeout(300)  # colours change by transitions
        assert page.evaluate(VIOLATIONS) == []
        notebook.screenshot(f"lab-{name}-{theme.lower()}-1400")
    notebook.theme("JupyterLab Light")
    page.set_viewport_size({"width": 480, "height": 900})
    page.wait_for_function("() => window.innerWidth === 480")
    notebook.screenshot(f"lab-{name}-480")
    page.set_viewport_size({"width": 1400, "height": 900})


def test_the_first_difference_is_shown_at_its_cell_and_a_pass_is_said(
    lab: Lab, open_notebook: Open, window: Window
) -> None:
    prompt = f"agent('ann', 'It is **two**.')\n{ADD}\n{CHANGED}"
    cells = (
        SETUP,
        "print('a line')\n" * 3,
        "a = 1",
        "print('a is', a)\nprint('end')",
        prompt,
        "%%planck ann\nHow many?",
    )
    notebook = open_notebook(lab.write("verify.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(6)
    notebook.wait_idle()
    check = accept(notebook)
    stale = page.locator(".planck-stale")
    expect(stale).to_have_count(1)
    expect(stale).to_contain_text("Stale until it runs: a changed above")
    assert page.locator(".jp-Cell").nth(3).locator(".planck-stale").count() == 1

    button(page.locator(".planck-strips"), "Verify").click()
    expect(check).to_contain_text("Verify runs all 6 cells from the top in a new kernel")
    expect(check).to_contain_text(f"in a copy of {lab.root}")
    look(notebook, "verify-consent")
    button(check, "Run the check").click()
    expect(check).to_contain_text("Verify: Cell 4 has another output.", timeout=STARTED_MS)
    expect(check.locator(".pk-del > span")).to_have_text("a is 1")
    expect(check.locator(".pk-add > span")).to_have_text("a is 2")
    look(notebook, "verify-different")
    button(check, "Show cell").click()
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex === 3")

    notebook.run_only(2)
    notebook.run_only(3)
    expect(stale).to_have_count(0)
    button(check, "Verify again").click()
    expect(button(check, "Run the check")).to_be_focused()
    page.keyboard.press("Enter")
    expect(check).to_contain_text("Verify: All 6 cells as before.", timeout=STARTED_MS)
    notebook.screenshot("lab-verify-same-1400")
    button(check, "Close").click()
    expect(check).to_be_hidden()
    assert [line for line in window.said if "planck" in line] == []


def test_the_prompt_that_proposed_the_change_is_answered_from_the_session(lab: Lab, open_notebook: Open) -> None:
    prompt = f"agent('analyst', {READ!r}, {PROPOSED[1:]!r}, 'done')"
    ask = "%%planck analyst --tools notebook\nMake it two."
    cells = (SETUP, "a = 1", "b = 1\nb", prompt, ask, "print('x' * 1_100_000)")
    notebook = open_notebook(lab.write("proposed.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(4)
    notebook.wait_idle(cells=4)
    notebook.run_only(4)
    check = accept(notebook)
    notebook.run_only(5)
    notebook.wait_idle()
    notebook.run_only(2)
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.executionCount > 5")
    verify(page)
    expect(check).to_contain_text(
        "Verify: All 5 cells as before; 1 had not been run, or had too long outputs.", timeout=STARTED_MS
    )


def test_a_check_shows_its_progress_is_stopped_and_ends_with_its_set(lab: Lab, open_notebook: Open) -> None:
    wait = "import os, time\nwhile os.path.basename(os.getcwd()) == 'project': time.sleep(0.01)"
    notebook = open_notebook(lab.write("stop.ipynb", SETUP, f"{ADD}\n{CHANGED}", "a = 1", wait), width=1400)
    page = notebook.page
    notebook.run_first(4)
    notebook.wait_idle()
    check = accept(notebook)
    verify(page)
    expect(check).to_contain_text("Verify: cell 4 of 4, ", timeout=STARTED_MS)
    notebook.screenshot("lab-verify-running-1400")
    button(check, "Stop").click()
    expect(check).to_contain_text("Verify: Stopped.")

    verify(page)
    expect(check).to_contain_text("Verify: cell 4 of 4", timeout=STARTED_MS)
    button(page.locator(".planck-strips"), "Take back").click()
    expect(check).to_be_hidden()
    expect(page.locator(".planck-strips button")).to_have_count(0)
