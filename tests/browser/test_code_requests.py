"""In JupyterLab: the code of the views and its parts come although the notebook that was asked first never answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

pytestmark = [pytest.mark.timeout(180), pytest.mark.own_page]  # a page loads the code only once

SETUP = """from planck_nb.jupyter.live import view as live
from scripted_run import ScriptedRun
live._FIRST_CODE.take()  # so that the first view has to request the code, too
asked = []
def code_of(file, find=live.code_of):
    asked.append(file.partition("-")[0])
    return find(file)
live.code_of = code_of
def show(text):
    run = ScriptedRun()
    display(run.view())
    run.start()
    run.text(text)"""
BUSY = "show('In the first notebook.')\nimport threading\nthreading.Event().wait()"
SHOW = "show('In the second notebook.')"
CLOSE = """async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.sessionContext.shutdown();
    panel.dispose();
}"""
REQUESTS = """() => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    window.requests = 0;
    kernel.anyMessage.connect((_, { direction, msg }) => {
        if (direction === 'send' && msg.content?.data?.content?.type === 'load') window.requests += 1;
    });
}"""
"""Counts the requests of code that go to the kernel of the notebook in front."""


@pytest.mark.parametrize("state", ["is busy", "is closed"])
def test_another_notebook_is_asked_if_the_first(lab: Lab, open_notebook: Open, state: str) -> None:
    first = open_notebook(lab.write(f"first-{state[3:]}.ipynb", SETUP, BUSY))
    page = first.page
    page.evaluate(REQUESTS)
    first.run_all()
    page.wait_for_function("() => window.requests > 0")
    assert first.output(1).locator(".pk").count() == 0, "its kernel has no time to answer"
    if state == "is closed":
        page.evaluate(CLOSE)
    second = open_notebook(lab.write(f"second-{state[3:]}.ipynb", SETUP, SHOW, "print(asked)"))
    second.run_first(2)
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .pk-view")
    expect(shown).to_contain_text("In the second notebook.")
    second.run_only(2)
    second.wait_idle()
    assert second.printed(2) == "['live']\n"
    if state == "is busy":
        page.evaluate(
            "path => window.jupyterapp.commands.execute('docmanager:open', { path }).then(() => {})", "first-busy.ipynb"
        )
        expect(shown).to_have_count(1)  # the code is for all views of the page; what it shows needs the kernel


def test_formulas_do_not_wait_for_a_notebook_that_was_closed(lab: Lab, open_notebook: Open) -> None:
    first = open_notebook(lab.write("closed.ipynb", SETUP, *["show('Without formulas.')"] * 6))
    page = first.page
    first.run_all()
    expect(page.locator(".pk-view", has_text="Without formulas.")).to_have_count(6)
    first.wait_idle()
    page.evaluate(CLOSE)
    second = open_notebook(
        lab.write("formulas.ipynb", SETUP, "show('It is $x^2$, as expected.\\n\\nMore.')", "print(asked)")
    )
    second.run_first(2)
    # Asking each view of the closed notebook in turn would take two minutes.
    expect(page.locator(".pk-math math")).to_be_visible(timeout=30_000)
    second.run_only(2)
    second.wait_idle()
    assert second.printed(2) == "['mathematics']\n"
