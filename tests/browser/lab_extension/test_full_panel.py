"""In JupyterLab with our extension: a side panel full of entries, whose texts try to become elements."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_cell_commands import activate
from browser.lab_extension.test_large_and_hostile import ACTIVE, VIOLATIONS, WATCH
from browser.lab_extension.test_proposals import EXECUTE, SETUP, button, cells_of
from playwright.sync_api import Locator, Page, expect
from support.listener import Listener
from support.node import LABEXTENSION, build_script
from support.payloads import payloads

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

FILL = """import json
import time
from dataclasses import replace
from planck_nb.jupyter.extension import _loaded
from planck_nb.jupyter.lab.protocol import (
    AgentEntry, Overview, SettingEntry, Stored, StoredSession, TrustEntry, WaitingCall,
)
from planck_nb.jupyter.live.approval_display import ApprovalDisplay
[extension] = _loaded.values()
texts = json.load(open('payloads.json'))

def fill(texts):
    "Have the kernel give out 50 agents, 20 waiting calls and 2,000 sessions with these texts."
    text = lambda at: texts[at % len(texts)]
    now = time.time()
    agents = tuple(
        AgentEntry(f"{text(at)}{at}", text(at), ("idle", "streaming", "executing_tools")[at % 3], text(at), "", at / 9)
        for at in range(50)
    )
    def call(at):
        arguments = ((text(at), text(at), "text"),)
        shown = ApprovalDisplay(text(at), (("execute", text(at)),), text(at), text(at), text(at), arguments, (), None)
        return WaitingCall(str(at), text(at), "", text(at), text(at), now + 300 + at, shown)
    sessions = tuple(StoredSession(f"{at:016x}", text(at), at, at / 99, now - 60 * at) for at in range(2_000))
    lines = lambda at: (("+", text(at)),)
    untrusted = tuple(TrustEntry(str(at), text(at), f"{text(at)}{at}", text(at), lines(at)) for at in range(20))
    answer = Overview(
        "", 0.0, 0.0, default=text(0), agents=agents, teams=(text(1),), waiting=tuple(map(call, range(20))), stored=1,
        history=Stored(sessions, 1.0, True, 5, untrusted=untrusted),
    )
    def overview(wanted):
        left_out = {"history": None} if wanted.stored == 1 else {}
        return replace(answer, request=wanted.request, now=time.time(), **left_out)
    extension._link.pages.overview = overview
    settings = tuple(SettingEntry(text, text, text, text) for text in texts)
    extension._link.pages.settings = lambda: settings"""
IN_PANEL = "document.querySelectorAll('.pk-panel *"


def test_the_corpus_runs_nothing_and_only_sessions_in_sight_are_elements(
    lab: Lab, open_notebook: Open, window: Window, show: Show
) -> None:
    listener = Listener()
    texts = payloads(listener.url)
    (lab.root / "payloads.json").write_text(json.dumps(texts), encoding="utf-8")
    notebook = open_notebook(lab.write("full.ipynb", f"{SETUP}\n{FILL}", "a = 1"), width=1400)
    page = notebook.page
    page.evaluate(WATCH)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    page.evaluate(EXECUTE, "fill(texts)")
    panel = show(page)
    expect(panel).to_contain_text("Waits for you")
    expect(panel).to_contain_text("18 more wait")
    button(panel, "All 2000").click()
    sessions = panel.get_by_role("group", name="All sessions")
    for _ in range(4):
        sessions.evaluate("element => { element.scrollTop = element.scrollHeight; }")
        expect(sessions.locator("[aria-posinset='2000']")).to_be_attached()
        assert sessions.locator("li").count() < 40
        sessions.evaluate("element => { element.scrollTop = 0; }")
        expect(sessions.locator("[aria-posinset='1']")).to_be_visible()
    activate(page, 1)
    sessions.locator("[aria-posinset='2'] button").click()
    button(sessions, "Export").click()
    assert cells_of(page)[2]["source"] == "%planck export 0000000000000001 0000000000000001.html"
    assert page.evaluate(ACTIVE.replace("document.querySelectorAll('", IN_PANEL.replace(" *", " *, "))) == []
    button(panel, "Fewer").click()
    expect(panel.locator(".planck-trust")).to_have_count(20)
    button(panel, "Change").click()
    expect(panel.locator(".planck-setting b")).to_have_text(texts)
    assert page.evaluate("window.ran") == []
    assert listener.connections == 0
    listener.close()
    assert [line for line in window.said if "planck" in line] == []


def test_axe_finds_nothing_and_everything_is_reached_by_keyboard(lab: Lab, open_notebook: Open, show: Show) -> None:
    build_script()
    (lab.root / "payloads.json").write_text(json.dumps(["analyst", "lead", "report"]), encoding="utf-8")
    notebook = open_notebook(lab.write("axe.ipynb", f"{SETUP}\n{FILL}", "a = 1"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    page.evaluate(EXECUTE, "fill(texts)")
    activate(page, 1)
    panel = show(page)
    button(panel, "All 2000").click()
    find = panel.get_by_label("Find a session")
    find.fill("no such name")
    expect(panel).to_contain_text("No session has this in its name.")
    find.fill("lead")
    first = panel.get_by_role("group", name="All sessions").locator(".planck-name").first
    first.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(first).not_to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(first).to_be_focused()
    page.keyboard.press("Tab")
    expect(button(panel, "Transcript")).to_be_focused()
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        page.wait_for_timeout(300)  # colours change by transitions
        notebook.screenshot(f"panel-full-{theme[11:].lower()}")
        assert page.evaluate(VIOLATIONS.replace(".planck-review, .planck-at-cell, .planck-help", ".pk-panel")) == []
    notebook.theme("JupyterLab Light")
