"""In JupyterLab with our extension: the side panel shows what agents do, also while a cell blocks the kernel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from browser.lab_extension.test_proposals import EXECUTE, SETUP, button, cells_of
from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

WAITS = "from pathlib import Path\nimport time\nPath('{0}').touch()\nwhile not Path('{1}').exists(): time.sleep(0.05)"
ASKED = """() => {
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    window.asked = [];
    kernel.anyMessage.connect((_, { direction, msg }) => {
        const { data } = msg.content;
        if (data?.type === 'overview wanted') window.asked.push(performance.now());
        if (data?.type === 'overview') window.asked.push(-performance.now());
    });
}"""
"""Keeps when the page asks for an overview, and, below zero, when it gets one."""
INTERRUPT = """() => {
    const panels = [...window.jupyterapp.shell.widgets('main')];
    panels.find(panel => panel.title.label === 'news.ipynb').sessionContext.session.kernel.interrupt();
}"""


def test_a_waiting_call_is_allowed_from_the_panel(lab: Lab, open_notebook: Open, window: Window, show: Show) -> None:
    setup = f"{SETUP}\nagent('coder', [('bash', {{'command': 'echo one'}})], 'Done: one.')"
    notebook = open_notebook(lab.write("approve.ipynb", setup, "%%planck coder --tools bash\nSay one."), width=1400)
    page = notebook.page
    panel = show(page)
    expect(panel).to_contain_text("planck_nb is not loaded")
    button(panel, "Load planck_nb").click()
    expect(panel).to_contain_text("Start here")
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    expect(panel.locator(".planck-row", has_text="coder")).to_contain_text("Idle")
    notebook.run_only(1)
    call = panel.locator(".pk-ask")
    expect(call).to_contain_text("echo one")
    expect(panel).to_contain_text("Waits for approval of bash")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        notebook.screenshot(f"panel-waiting-{theme[11:].lower()}")
    button(call, "Allow once").click()
    expect(call).to_have_count(0)
    expect(notebook.output(1)).to_contain_text("Done: one.")
    expect(panel.locator(".planck-row", has_text="coder")).to_contain_text("Idle")
    assert [line for line in window.said if "planck" in line] == []


def test_a_blocked_kernel_answers_with_its_copy_and_is_asked_seldom(lab: Lab, open_notebook: Open, show: Show) -> None:
    cells = (f"{SETUP}\nagent('analyst', 'Hello.')", "%%planck analyst\nHi.", WAITS.format("blocks", "unblocked"))
    notebook = open_notebook(lab.write("blocked.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    page.evaluate(ASKED)
    notebook.run_only(2)
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.executionState === 'running'"
    )
    panel = show(page)
    expect(panel.locator(".planck-row", has_text="analyst")).to_contain_text("Idle")
    expect(panel).to_contain_text("The kernel is busy")
    expect(panel).to_contain_text("s old")
    notebook.screenshot("panel-busy")
    page.wait_for_function("() => window.asked.filter(time => time > 0).length >= 3")
    times = page.evaluate("window.asked")
    asked = [time for time in times if time > 0]
    assert all(later - time > 1900 for time, later in pairwise(asked))
    (lab.root / "unblocked").touch()
    expect(panel.get_by_text("The kernel is busy")).to_have_count(0)
    count = page.evaluate("window.asked.length")
    page.evaluate("window.jupyterapp.shell.collapseRight()")
    page.wait_for_timeout(2500)
    assert page.evaluate("window.asked.length") <= count + 1, "a hidden panel asks nothing"
    assert cells_of(page)[2]["execution_count"] is not None
    page.evaluate(EXECUTE, "1")


def test_calls_that_wait_in_another_notebook_are_decided_here(lab: Lab, open_notebook: Open, show: Show) -> None:
    setup = f"{SETUP}\nagent('coder', [('bash', {{'command': 'echo one'}})], 'Done: one.')"
    other = open_notebook(lab.write("other.ipynb", setup, "%%planck coder --tools bash\nSay one."), width=1400)
    other.run_first(2)
    expect(other.output(1)).to_contain_text("Waiting for you")
    notebook = open_notebook(lab.write("here.ipynb", SETUP), width=1400)
    page = notebook.page
    notebook.run_first(1)
    panel = show(page)
    expect(panel.locator("h3")).to_have_text("other.ipynb")
    row = panel.locator(".planck-row", has_text="coder")
    expect(row).to_contain_text("other.ipynb")
    button(panel.locator(".pk-ask"), "Deny").click()
    expect(panel.locator(".pk-ask")).to_have_count(0)
    expect(row).to_have_count(0)


def test_without_a_kernel_or_the_package_the_panel_says_what_to_do(lab: Lab, open_notebook: Open, show: Show) -> None:
    notebook = open_notebook(lab.write("none.ipynb", "%unload_ext planck_nb"), width=1400)
    page = notebook.page
    panel = show(page)
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(panel).to_contain_text("No kernel")
    notebook.screenshot("panel-none")
    button(panel, "Start a kernel").click()
    expect(panel).to_contain_text("planck_nb is not loaded")
    button(panel, "Load planck_nb").click()
    expect(panel).to_contain_text("Start here")
    notebook.screenshot("panel-first")
    notebook.run_only(0)
    expect(panel).to_contain_text("planck_nb is not loaded")
    notebook.wait_idle()  # else the file changes once more after it was saved, and closing asks
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.evaluate("window.jupyterapp.shell.currentWidget.close()")
    button(panel, "New notebook").click()
    expect(page.locator(".jp-NotebookPanel")).to_be_visible()
    expect(panel).to_contain_text("planck_nb is not loaded")


def test_the_status_bar_tells_who_works_and_a_notification_what_happens_elsewhere(
    lab: Lab, open_notebook: Open
) -> None:
    setup = f"{SETUP}\nagent('coder', [('bash', {{'command': 'echo one'}})], 'Done: one.')"
    other = open_notebook(lab.write("news.ipynb", setup, "%%planck coder --tools bash\nSay one."), width=1400)
    page = other.page
    other.run_first(1)
    other.wait_idle(cells=1)
    other.run_only(1)
    status = page.locator(".planck-status")
    expect(status).to_have_text("1 agent works · 1 waits for you")
    other.screenshot("panel-status")
    open_notebook(lab.write("front.ipynb", "1"), width=1400)
    status.get_by_role("button").click()
    panel = page.locator(".pk-panel")
    expect(panel).to_contain_text("news.ipynb")
    page.evaluate("window.jupyterapp.shell.collapseRight()")
    page.evaluate(INTERRUPT)
    expect(status).to_be_hidden()
    page.locator(".jp-Notification-Status").click()
    expect(page.locator(".jp-Notification-List")).to_contain_text("The agents in news.ipynb have finished.")
    page.locator(".jp-Notification-Status").click()
