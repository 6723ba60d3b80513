"""Answers that survive what happens to a page: reloads at any moment, in notebooks that are saved and that are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


WORDS = 40
LAST = f"w{WORDS - 1}"
SETUP = f"""%load_ext planck_nb
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
text = " ".join(f"w{{at}}" for at in range({WORDS}))
get_workspace().set_default_model(scripted_model([text, *["Next."] * 9], pace=0.03))"""
SLOW_SETUP = SETUP.replace("pace=0.03", "pace=0.1")
"""With a run that takes four seconds, so that it goes on while the page is loaded again."""
MISSING = re.compile(r"The answer of cell \[\d+\] was not shown; `%planck answer( \d+)?` shows it again\.")
KERNEL_IS_IDLE = """() => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel;
    return kernel?.status === 'idle' && kernel.connectionStatus === 'connected';
}"""
MOMENTS = [0.1, 1.2]
"""Seconds after the view appears; the run takes a little longer than one second."""


def reload(notebook: Notebook) -> None:
    """Load the page again, without saving."""
    page: Page = notebook.page
    page.once("dialog", lambda dialog: dialog.accept())
    notebook.reload()


def begin(lab: Lab, open_notebook: Open, name: str, setup: str = SETUP) -> Notebook:
    notebook = open_notebook(lab.write(name, setup, "%%planck\ncount", "%%planck\nmore", "%planck answer 2"))
    notebook.run_first(2)
    expect(notebook.output(1).locator(".pk").first).to_be_visible()
    return notebook


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_saved_cell_has_the_whole_answer_after_a_reload(lab: Lab, open_notebook: Open, moment: float) -> None:
    notebook = begin(lab, open_notebook, f"saved-{moment}.ipynb")
    notebook.save()
    notebook.page.wait_for_timeout(1000 * moment)
    reload(notebook)
    output = notebook.output(1)
    expect(output.get_by_text(LAST)).to_be_visible()
    notebook.page.wait_for_function(KERNEL_IS_IDLE)
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    expect(output.get_by_text(LAST).and_(notebook.page.locator(":not(.pk-sr)"))).to_have_count(1)
    notebook.run_only(2)
    expect(notebook.output(2).get_by_text("Next.").first).to_be_visible()
    assert not MISSING.search(notebook.printed(2))


@pytest.mark.parametrize("moment", MOMENTS)
def test_of_a_cell_that_was_never_saved_the_next_prompt_says_how_to_get_the_answer(
    lab: Lab, open_notebook: Open, moment: float
) -> None:
    notebook = begin(lab, open_notebook, f"unsaved-{moment}.ipynb", SLOW_SETUP)
    notebook.page.wait_for_timeout(1000 * moment)
    reload(notebook)
    notebook.page.wait_for_function(KERNEL_IS_IDLE)
    notebook.run_only(2)
    expect(notebook.output(2).get_by_text("Next.").first).to_be_visible()
    notebook.page.wait_for_function(KERNEL_IS_IDLE)
    assert MISSING.search(notebook.printed(2)), notebook.outputs(2)
    notebook.run_only(3)
    expect(notebook.output(3).get_by_text(LAST)).to_be_visible()


def test_without_a_reload_the_view_folds_and_nothing_is_said(lab: Lab, open_notebook: Open) -> None:
    notebook = begin(lab, open_notebook, "plain.ipynb")
    output = notebook.output(1)
    expect(output.locator(".pk-folded .pk-bar")).to_contain_text("Done")
    expect(output.locator(".planck-run-1").get_by_text(LAST)).to_have_count(1)
    expect(output.locator(".pk-folded .pk-prose")).to_have_count(0)
    notebook.run_only(2)
    expect(notebook.output(2).locator(".pk-folded")).to_be_visible()
    assert notebook.printed(2) == ""


def test_a_page_gets_the_code_of_its_views_once(lab: Lab, open_notebook: Open) -> None:
    cells = ["%%planck\nmore" for _ in range(4)]
    notebook = open_notebook(lab.write("once.ipynb", SETUP, *cells))
    notebook.run_all()
    notebook.wait_idle()
    for cell in range(1, 5):
        expect(notebook.output(cell).locator(".pk-folded")).to_be_visible()
    assert notebook.page.evaluate("() => Object.keys(globalThis.planckNb).length") == 1
    assert notebook.page.evaluate("() => document.head.querySelectorAll('style').length") > 0


@pytest.mark.own_page
def test_a_busy_kernel_shows_its_first_run(lab: Lab, open_notebook: Open) -> None:
    """A cell that blocks the kernel's messages, so that no request of the page is answered."""
    busy = "def ask():\n    %planck -- count\nask()\nwhile not seen.exists():\n    time.sleep(0.05)"
    seen = lab.root / "busy.seen"
    notebook = open_notebook(
        lab.write("busy.ipynb", f"{SETUP}\nimport pathlib, time\nseen = pathlib.Path('busy.seen')", busy)
    )
    notebook.run_all()
    try:  # the run may be over, and the view collapsed, before a busy page draws it
        expect(notebook.output(1).locator(".pk-bar")).to_be_visible()
        expect(notebook.output(1).get_by_text(LAST).first).to_be_visible()
    finally:
        seen.touch()
