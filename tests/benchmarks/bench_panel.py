"""What the side panel costs a page: 2,000 sessions, 50 agents and 20 waiting calls.

    python tests/benchmarks/bench_panel.py

Opens, changes and types in notebooks in JupyterLab with our extension and without it in turns, and prints the CPU time
of the page's main thread and the ratio, each the minimum of ten. Then it prints the longest task of the panel in each
step, from samples of the JavaScript profiler as in `bench_proposals.py`, again the minimum of ten.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
from benchmarks.bench_proposals import MOST_MS, own_tasks
from browser.conftest import Window, running_lab
from browser.lab_extension.test_full_panel import FILL
from browser.lab_extension.test_proposals import EXECUTE, SETUP, button
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab
    from playwright.sync_api import Browser, CDPSession, Page

CELLS = 200
TIMES = 10
HELD_TO = 1.1
SWITCHES = 6
LETTERS = "the quick brown fox jumps over the lazy dog " * 2
SETTLED_MS = 400
"""How long the page may go on with a step after its end."""
OPEN = """async path => {
    await window.jupyterapp.commands.execute('docmanager:open', {path});
    const panel = [...window.jupyterapp.shell.widgets('main')].find(({context}) => context?.path === path);
    await panel.context.ready;
    await panel.revealed;
    await panel.sessionContext.ready;
}"""
CLOSE = """path => [...window.jupyterapp.shell.widgets('main')].find(({context}) => context?.path === path).dispose()"""
SHOW = "path => window.jupyterapp.commands.execute('docmanager:open', {path}).then(() => {})"
CURSOR = """() => {
    const {content} = window.jupyterapp.shell.currentWidget;
    content.activeCellIndex = 1;
    content.mode = 'edit';
    content.activeCell.model.sharedModel.setSource('# '); // JupyterLab's parser tries hard to understand bad code
    content.activeCell.editor.setCursorPosition({line: 0, column: 2});
    content.activeCell.editor.focus();
}"""
Step = Callable[["Side"], None]


class Side:
    """A page of JupyterLab with two notebooks, beside the panel or beside another one."""

    def __init__(self, lab: Lab, chromium: Browser, *, ours: bool) -> None:
        (lab.root / "payloads.json").write_text(json.dumps([f"name {at}" for at in range(60)]), encoding="utf-8")
        self.window = Window(lab, chromium)
        lab.write("large.ipynb", *(f"x{at} = {at}\nprint(x{at})" for at in range(CELLS)))
        notebook = self.window.open(lab.write("main.ipynb", f"{SETUP}\n{FILL}", "a = 1"), width=1600)
        self.page: Page = notebook.page
        notebook.run_first(1)
        notebook.wait_idle(cells=1)
        self.page.evaluate(EXECUTE, "fill(texts)")
        self.page.evaluate("window.jupyterapp.shell.activateById('jp-property-inspector')")
        if ours:
            self.page.evaluate("window.jupyterapp.commands.execute('planck:show-panel')")
            panel = self.page.locator(".pk-panel")
            expect(panel).to_contain_text("18 more wait")
            button(panel, "All 2000").click()
        self.page.evaluate(OPEN, "large.ipynb")
        self.session: CDPSession = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.session.send("Profiler.enable")
        self.session.send("Profiler.setSamplingInterval", {"interval": 200})

    def time(self, step: Step) -> float:
        """The milliseconds of CPU which a step takes."""
        self.page.wait_for_timeout(SETTLED_MS)
        before = self._time()
        step(self)
        self.page.wait_for_timeout(SETTLED_MS)
        return (self._time() - before) * 1000

    def _time(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    def longest(self, step: Step) -> float:
        """The milliseconds of our longest task in a step."""
        self.session.send("Profiler.start")
        step(self)
        self.page.wait_for_timeout(SETTLED_MS)
        tasks, _ = own_tasks(self.session.send("Profiler.stop")["profile"])
        return max(tasks, default=0) / 1000


def open_large(side: Side) -> None:
    side.page.evaluate(CLOSE, "large.ipynb")
    side.page.evaluate(OPEN, "large.ipynb")


def switch(side: Side) -> None:
    for _ in range(SWITCHES):
        for name in ("main.ipynb", "large.ipynb"):
            side.page.evaluate(SHOW, name)
            side.page.wait_for_timeout(50)


def write(side: Side) -> None:
    side.page.evaluate(CURSOR)
    side.page.keyboard.type(LETTERS)


def show(side: Side) -> None:
    side.page.evaluate("window.jupyterapp.shell.collapseRight()")
    side.page.evaluate("window.jupyterapp.commands.execute('planck:show-panel')")


def list_sessions(side: Side) -> None:
    panel = side.page.locator(".pk-panel")
    for name in ("Fewer", "All 2000"):
        button(panel, name).click()


def scroll(side: Side) -> None:
    sessions = side.page.get_by_role("group", name="All sessions")
    for to in ("element.scrollHeight", "0"):
        sessions.evaluate(f"element => {{ element.scrollTop = {to}; }}")
        side.page.wait_for_timeout(100)


def find(side: Side) -> None:
    box = side.page.get_by_label("Find a session")
    for text in ("name 1", "no such name", ""):
        box.fill(text)


def follow(side: Side) -> None:
    side.page.wait_for_timeout(2500)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[tuple[Side, Side]]:
    """A page without our extension, and one with it."""
    with ExitStack() as opened:
        made: list[Side] = []
        for ours in (False, True):
            home = tmp_path_factory.mktemp("jupyterlab")
            lab = opened.enter_context(running_lab(home, None, extension=ours))
            side = Side(lab, chromium, ours=ours)
            opened.callback(side.window.close)
            made.append(side)
        yield made[0], made[1]


@pytest.mark.browser
def test_panel(sides: tuple[Side, Side]) -> None:
    floor, ours = sides
    print(
        f"\n2,000 sessions, 50 agents, 20 waiting calls   [load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors]"
    )
    steps: dict[str, Step] = {f"{CELLS} cells are opened": open_large, "tabs are switched": switch, "typing": write}
    for name, step in steps.items():
        taken: dict[Side, list[float]] = {floor: [], ours: []}
        for at in range(TIMES + 1):
            for side in (floor, ours) if at % 2 else (ours, floor):
                taken[side].append(side.time(step))
        least, own = (min(taken[side][1:]) for side in (floor, ours))
        verdict = "" if own / least <= HELD_TO else ", MISSED"
        print(
            f"  {name:<34} {least:7.1f} ms {own:7.1f} ms {own / least:5.2f}x (held to {HELD_TO}x{verdict})", flush=True
        )
    steps = {
        **steps,
        "the panel is shown": show,
        "all sessions are listed": list_sessions,
        "the list is scrolled": scroll,
        "a session is looked for": find,
        "the kernel answers": follow,
    }
    for name, step in steps.items():
        ours.page.evaluate(SHOW, "main.ipynb")
        longest = min(ours.longest(step) for _ in range(TIMES))
        verdict = ", MISSED" if longest > MOST_MS else ""
        print(f"  {name:<34} longest task of ours {longest:7.1f} ms (at most {MOST_MS}{verdict})", flush=True)


if __name__ == "__main__":
    settings = ["-o", "timeout=0", "-o", "faulthandler_timeout=0", "-p", "no:cacheprovider", "-p", "browser.conftest"]
    command = [sys.executable, "-m", "pytest", f"{__file__}::test_panel", "-q", "-s", *settings]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
