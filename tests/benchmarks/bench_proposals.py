"""What proposals cost a page: 1,000 cells, and 200 changes to them.

    python tests/benchmarks/bench_proposals.py

Prints the CPU time of the extension's longest task in each step, from samples of the JavaScript profiler. Samples in
JupyterLab's work while the changes are applied do not count, samples in its functions which we call do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
from browser.conftest import running_lab
from browser.lab_extension.test_proposals import ADD, EXECUTE, SETUP, SHARED, button
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook
    from playwright.sync_api import CDPSession

    Open = Callable[..., Notebook]

CELLS = 1_000
PROPOSALS = 200
MOST_MS = 50
OURS = "/@planck-nb/lab/"
APART_US = 1_000
"""Without a sample for so long, a task has ended."""


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("jupyterlab"), None, extension=True) as lab:
        yield lab


@contextmanager
def profiled(session: CDPSession, name: str) -> Iterator[None]:
    """Print the longest own task."""
    session.send("Profiler.start")
    yield
    profile = session.send("Profiler.stop")["profile"]
    tasks, costs = own_tasks(profile)
    longest = max(tasks, default=0) / 1000
    verdict = ", MISSED" if longest > MOST_MS else ""
    print(
        f"  {name:<34} {longest:7.1f} ms of {sum(tasks) / 1000:8.1f} ms in all (at most {MOST_MS}{verdict})", flush=True
    )
    if "BENCH_DETAILS" in os.environ:
        for place, cost in costs.most_common(12):
            print(f"      {cost / 1000:8.1f} ms  {place}", flush=True)


def own_tasks(profile: dict[str, Any]) -> tuple[list[int], Counter[str]]:
    """The microseconds of each own task, and the costliest functions."""
    parents = {child: node["id"] for node in profile["nodes"] for child in node.get("children", ())}
    frames = {node["id"]: node["callFrame"] for node in profile["nodes"]}
    stacks: dict[int, list[dict[str, Any]]] = {}
    for node, frame in frames.items():  # a parent comes before its children
        stacks[node] = [frame, *stacks.get(parents.get(node, 0), ())]
    own = {node: is_own(stack) for node, stack in stacks.items()}
    tasks: list[int] = []
    costs: Counter[str] = Counter()
    gap = APART_US
    for node, elapsed in zip(profile["samples"], [*profile["timeDeltas"][1:], 0], strict=True):
        if not own[node]:
            gap += elapsed
            continue
        if gap >= APART_US:
            tasks.append(0)
        tasks[-1] += elapsed
        gap = 0
        for name in {named(frame) for frame in stacks[node]}:
            costs[name] += elapsed
    return tasks, costs


def is_own(stack: list[dict[str, Any]]) -> bool:
    names = [frame["functionName"] if OURS not in frame["url"] else OURS for frame in stack]
    return OURS in names and "transact" not in names[: names.index(OURS)]


def named(frame: dict[str, Any]) -> str:
    return f"{frame['functionName']} {frame['url'][-24:]}:{frame['lineNumber']}:{frame['columnNumber']}"


@pytest.mark.browser
def test_proposals(lab: Lab, open_notebook: Open) -> None:
    cells = [f"{SETUP}\n{ADD}", *(f"x = {at}" for at in range(1, CELLS))]
    notebook = open_notebook(lab.write("large.ipynb", *cells))
    page = notebook.page
    session = page.context.new_cdp_session(page)
    session.send("Profiler.enable")
    session.send("Profiler.setSamplingInterval", {"interval": 200})
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    kinds = ("change", "change", "delete", "change")
    changes: list[dict[str, object]] = [
        {"id": f"p{at}", "kind": kinds[at % 4], "cell": f"c{at}", "before": f"x = {at}", "source": f"y = {at}"}
        for at in range(CELLS - PROPOSALS, CELLS)
    ]
    bar, entry = page.locator(".planck-review"), page.locator(".pk-ops li[aria-current]")
    print(f"\n{CELLS:,} cells, {PROPOSALS} changes   [load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors]")
    with profiled(session, "200 changes come, in ten sets"):
        for at in range(0, PROPOSALS, 20):
            page.evaluate(EXECUTE, f"add('s{at}', {changes[at : at + 20]!r})")
        expect(bar).to_contain_text(f"{PROPOSALS} changes")
    with profiled(session, "the list is opened"):
        page.evaluate("window.jupyterapp.commands.execute('planck:review')")
        expect(entry).to_contain_text("cell 801")
    with profiled(session, "to the one at cell 991"):
        for _ in range(10):
            page.evaluate("window.jupyterapp.commands.execute('planck:previous-change')")
        expect(entry).to_contain_text("cell 991")
        expect(entry).to_contain_text("y = 990")
    with profiled(session, "the person types in a cell"):
        for at in range(10):
            page.evaluate(f"() => {SHARED}.getCell(1).updateSource(0, 0, '{at}')")
            page.wait_for_timeout(60)
    with profiled(session, "the person inserts cells"):
        for at in range(5):
            page.evaluate(f"() => {{ {SHARED}.insertCell(5, {{cell_type: 'code', source: 'i = {at}'}}); }}")
            page.wait_for_timeout(60)
    with profiled(session, "the kernel asks for the cells"):
        page.evaluate(EXECUTE, "import asyncio; asyncio.ensure_future(extension._link.pages.cells())")
        page.wait_for_timeout(1000)
    with profiled(session, "one change is accepted"):
        button(entry, "Accept").click()
        expect(bar).to_contain_text(f"{PROPOSALS - 1} changes")
    with profiled(session, "all the others are accepted"):
        button(bar, f"Accept the {PROPOSALS - 1} ready").click()
        expect(page.locator(".pk-ops li")).to_have_count(0)
    with profiled(session, "the last set is taken back"):
        button(bar.locator(".pk-strip").first, "Take back").click()
        expect(bar).to_contain_text("Variables and files stay as they are.")


if __name__ == "__main__":
    settings = ["-o", "timeout=0", "-o", "faulthandler_timeout=0", "-p", "no:cacheprovider", "-p", "browser.conftest"]
    command = [sys.executable, "-m", "pytest", f"{__file__}::test_proposals", "-q", "-s", *settings]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
