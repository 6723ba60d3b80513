"""In JupyterLab with our extension: each page shows what its kernels do, and says what they cannot do together."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_large_and_hostile import ACTIVE, WATCH
from browser.lab_extension.test_meanwhile import OWN, open_tab
from browser.lab_extension.test_proposals import SETUP, button
from playwright.sync_api import Locator, Page, Route, expect
from support.payloads import payloads

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

ASK = "%%planck {0} --tools bash\nSay one."
NAME_BYTES = 200
OURS = "**/@planck-nb/lab/static/*.js*"


def opened(lab: Lab, open_notebook: Open, name: str, agent: str) -> Notebook:
    """Open a notebook whose second cell asks an agent with a call that waits."""
    setup = f"{SETUP}\nagent({agent!r}, [('bash', {{'command': 'echo one'}})], 'Done: one.')"
    notebook = open_notebook(lab.write(name, setup, ASK.format(agent)), width=1400)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    return notebook


def ask(notebook: Notebook) -> None:
    notebook.run_only(1)
    expect(notebook.page.locator(f"{OWN} .jp-Cell").nth(1)).to_contain_text("Waiting for you")


def test_two_tabs_and_two_notebooks_each_show_their_own(lab: Lab, open_notebook: Open, show: Show) -> None:
    notebook = opened(lab, open_notebook, "one.ipynb", "ann")
    tab = open_tab(notebook)
    tab.evaluate("window.jupyterapp.commands.execute('planck:show-panel')")
    one = tab.locator(".pk-panel")
    expect(one.locator(".planck-row .planck-name")).to_have_text("ann")
    ask(notebook)
    notebook = opened(lab, open_notebook, "two.ipynb", "bob")
    ask(notebook)
    page = notebook.page
    both = show(page)
    expect(both.locator("li .planck-name")).to_have_text(["ann", "bob"])
    expect(both.locator("h3")).to_have_text("one.ipynb")
    expect(page.locator(".planck-status")).to_have_text("2 agents work · 2 wait for you")
    expect(one.locator(".pk-ask")).to_have_count(1)
    expect(one.locator("h3")).to_have_count(0)
    expect(tab.locator(".planck-status")).to_have_text("1 agent works · 1 waits for you")
    button(one.locator(".pk-ask"), "Allow once").click()
    expect(tab.locator(".planck-status")).to_be_hidden()
    expect(page.locator(".planck-status")).to_have_text("1 agent works · 1 waits for you")
    expect(both.locator("h3")).to_have_count(0)
    expect(both.locator(".pk-ask")).to_have_count(1)
    tab.close()
    button(both.locator(".pk-ask"), "Deny").click()
    expect(page.locator(".planck-status")).to_be_hidden()


@pytest.mark.own_page
@pytest.mark.parametrize(("protocol", "words"), [(0, "older"), (99, "newer")])
def test_an_extension_of_another_version_says_what_it_cannot(
    lab: Lab, open_notebook: Open, show: Show, protocol: int, words: str
) -> None:
    notebook = open_notebook(lab.write(f"{words}.ipynb", f"{SETUP}\nagent('ann', 'Hello.')", "%%planck ann\nHi."))
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.save()

    def serve(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r"\bprotocol:\d+", f"protocol:{protocol}", answer.text()))

    page.route(OURS, serve)
    notebook.reload()
    page.set_viewport_size({"width": 1400, "height": 900})
    panel = show(page)
    expect(panel).to_contain_text("Two versions")
    expect(panel).to_contain_text(f"The JupyterLab extension is {words} than planck_nb in this kernel; run")
    expect(panel).to_contain_text("agents neither propose cells nor show in the side panel")
    expect(panel.locator("textarea")).to_have_count(0)
    assert page.evaluate("window.jupyterapp.commands.isEnabled('planck:explain-cell')") is False
    notebook.run_only(1)
    expect(notebook.output(1)).to_contain_text("Hello.")
    notebook.screenshot(f"panel-{words}")


def hostile_name() -> str:
    """A file's name of as many texts as it may have."""
    name = ""
    for text in payloads():
        if text.isprintable() and not set("/:") & set(text) and len(f"{name}{text}".encode()) < NAME_BYTES:
            name += text
    return f"{name}.ipynb"


def test_a_name_of_a_notebook_stays_a_text(lab: Lab, open_notebook: Open, window: Window, show: Show) -> None:
    name = hostile_name()
    page = open_notebook(lab.write("plain.ipynb", "1"), width=1400).page
    page.evaluate(WATCH)
    ask(opened(lab, open_notebook, name, "ann"))
    open_notebook(lab.write("front.ipynb", "1"), width=1400)
    panel = show(page)
    expect(panel.locator("h3")).to_have_text(name)
    expect(panel.locator(".planck-row", has_text="ann")).to_contain_text(name)
    page.evaluate("window.jupyterapp.shell.collapseRight()")
    page.evaluate(
        """name => [...window.jupyterapp.shell.widgets('main')].find(({ title }) => title.label === name)
            .sessionContext.session.kernel.interrupt()""",
        name,
    )
    expect(page.locator(".planck-status")).to_be_hidden()
    page.locator(".jp-Notification-Status").click()
    expect(page.locator(".jp-Notification-List")).to_contain_text(name[:50])
    assert (
        page.evaluate(
            ACTIVE.replace("'.planck-review *, ", "'.pk-panel *, .planck-status *, .jp-Notification-List *, ")
        )
        == []
    )
    page.locator(".jp-Notification-Status").click()
    assert page.evaluate("window.ran") == []
    assert [line for line in window.said if "planck" in line] == []
