"""In JupyterLab: two tabs with the same notebook, and tabs that are closed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from browser.conftest import READY, Notebook
from playwright.sync_api import Page, expect
from support.asking_sidecar import describe

if TYPE_CHECKING:
    from browser.conftest import Lab

    Open = Callable[..., Notebook]


SETUP = "import asyncio\nfrom scripted_run import ScriptedRun, ask_twice"
ASK = """run = ScriptedRun()
view = run.view()
display(view)
ask_twice(run)
print(await run.commands.get())
run.text("It goes on.")
print(await run.commands.get())
run.end()
view.finish(run.summary())"""


@contextmanager
def second_tab(lab: Lab, notebook: Notebook) -> Iterator[Page]:
    """The same notebook in another tab, as it is saved now."""
    notebook.save()
    page = notebook.page.context.new_page()
    page.set_viewport_size({"width": 1000, "height": 1100})
    page.goto(lab.address(notebook.path))
    page.wait_for_function(READY)
    yield page
    page.close()


def test_two_tabs_show_the_run_and_the_first_decision_counts(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("two-tabs.ipynb", SETUP, ASK), height=1100)
    notebook.run_all()
    here = notebook.output(1)
    expect(here.locator(".pk-ask")).to_have_count(2)
    with second_tab(lab, notebook) as page:
        there = page.locator(".jp-Cell").nth(1).locator(".jp-Cell-outputWrapper")
        expect(there.locator(".pk-ask")).to_have_count(2)
        page.wait_for_timeout(500)  # buttons ignore clicks at first
        there.get_by_label("Approval: bash").get_by_role("button", name="Allow once").click()
        expect(here.get_by_label("Approval: bash")).to_have_count(0)
        expect(there.get_by_label("Approval: bash")).to_have_count(0)
        for output in (here, there):
            expect(output.locator(".pk-prose").last).to_have_text("It goes on.")
        notebook.page.wait_for_timeout(500)
        here.get_by_label("Approval: edit").get_by_role("button", name="Deny").click()
        expect(there.get_by_label("Approval: edit")).to_have_count(0)
        for output in (here, there):
            expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    decisions = [line.split(", ")[:3] for line in notebook.printed(1).splitlines()]
    assert decisions == [["('decide'", "'2'", "True"], ["('decide'", "'1'", "False"]]


SLOW = """%load_ext planck_nb
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
get_workspace().set_default_model(scripted_model([" ".join(f"w{at}" for at in range(40))], pace=0.1))"""


def test_a_tab_that_is_closed_in_the_middle_of_a_run_loses_nothing(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("closed.ipynb", SLOW, "%%planck\ncount", "%planck answer"))
    with second_tab(lab, notebook) as page:
        tab = Notebook(page, notebook.path)
        tab.run_first(2)
        expect(tab.output(1).locator(".pk-prose").first).to_contain_text("w2")
        tab.save()
    notebook.reload()
    expect(notebook.output(1).get_by_text("w39")).to_be_visible()
    expect(notebook.output(1).locator(".pk-bar")).to_contain_text("Done")
    notebook.run_only(2)
    expect(notebook.output(2).get_by_text("w39")).to_be_visible()
    notebook.save()


QUESTION = """import os
os.chdir({folder!r})
%load_ext planck_nb
%planck model demo
%planck trust --list
%planck trust
%planck sidecar start"""
PROMPT = '%%planck --new --allow execute:sidecar:*/*\nPlease call {tool} with "{argument}".'
ADDRESS = "https://ex⟨U+0430⟩mple.org/a"


def test_questions_with_an_address_and_with_two_tabs(lab: Lab, open_notebook: Open, tmp_path: Path) -> None:
    describe(tmp_path)
    file = tmp_path / ".planck" / "mcp.json"
    servers = json.loads(file.read_text())
    server = Path(__file__).parents[1] / "sidecars" / "mcp_client" / "servers" / "hostile_sidecar.py"
    servers["mcpServers"]["links"] = {"command": sys.executable, "args": [str(server)], "env": {"STATE": str(tmp_path)}}
    file.write_text(json.dumps(servers))
    cells = [PROMPT.format(tool=tool, argument=name) for tool, name in (("elicit", "url"), ("deploy", "shop"))]
    notebook = open_notebook(lab.write("addresses.ipynb", QUESTION.format(folder=str(tmp_path)), cells[0], *cells))
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    opened: list[str] = []
    notebook.page.context.on("page", lambda page: opened.append(page.url))
    notebook.page.on("request", lambda request: opened.append(request.url) if "mple.org" in request.url else None)
    for cell, (button, action) in enumerate((("Accept", "accept"), ("Decline", "decline")), 1):
        notebook.run_only(cell)
        ask = notebook.output(cell).get_by_label("Question of links")
        expect(ask.locator(".pk-address")).to_have_text(ADDRESS)
        assert ask.locator("a, input, textarea, select").count() == 0
        ask.locator(".pk-address").click()
        notebook.screenshot("question-address")
        notebook.page.wait_for_timeout(500)
        ask.get_by_role("button", name=button).click()
        expect(notebook.output(cell).locator(".pk-bar")).to_contain_text("Done")
        notebook.wait_idle(cells=cell + 1)
        assert f'"action": "{action}"' in json.dumps(notebook.outputs(cell)).replace("\\", "")
    assert opened == []

    notebook.run_only(3)
    here = notebook.output(3).get_by_label("Question of asker")
    expect(here).to_be_visible()
    with second_tab(lab, notebook) as page:
        there = page.locator(".jp-Cell").nth(3).get_by_label("Question of asker")
        expect(there).to_be_visible()
        page.wait_for_timeout(500)
        there.get_by_role("button", name="Decline").click()
        expect(there).to_have_count(0)
        expect(here).to_have_count(0)
    expect(notebook.output(3).locator(".pk-bar")).to_contain_text("Done")
    notebook.save()
