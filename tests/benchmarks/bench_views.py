"""What live views cost a browser and a kernel, and what their saved outputs cost a notebook.

    python tests/benchmarks/bench_views.py [--seconds 60] [--only test_many_views]

A real JupyterLab in Chromium shows runs that are written word by word. Prints each figure beside its target. Frames
are the intervals between two callbacks of `requestAnimationFrame`, so whatever else the machine does is in them: the
load, the frames of the same page before anything is written, and the CPU time of its main thread are printed, too. The
runs that are compared with the specification last `--seconds 300`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import nbformat
import pytest
from nbclient import NotebookClient

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook
    from playwright.sync_api import CDPSession

    Open = Callable[..., Notebook]

DELTAS = 50_000
FINISHED = 50
WARM_UP = 25
SETTLES_MS = 3_000
"""After so long all views have folded and given up what they needed."""

CELLS = 500
IDLE_SECONDS = 5
NAMES = (
    "test_many_deltas[one-paragraph]",
    "test_many_deltas[paragraphs]",
    "test_eight_agents",
    "test_many_views",
    "test_team",
    "test_heap",
    "test_notebook_of_many_cells",
)
SECONDS = "BENCH_SECONDS"
"""The environment variable by which the option reaches the functions below."""

SETUP = """import asyncio
from scripted_run import ScriptedRun, stream

async def paced(run, rate, seconds):
    loop = asyncio.get_running_loop()
    run.start()
    began = loop.time()
    for at in range(int(rate * seconds)):
        run.text(f"w{at:05d} " if (at + 1) % 40 else f"w{at:05d}\\n\\n")
        await asyncio.sleep(max(0, began + at / rate - loop.time()))
    run.end()

def show(count):
    runs = [ScriptedRun() for _ in range(count)]
    views = [run.view() for run in runs]
    display(*views)
    return list(zip(runs, views))
shown = []"""
MEASURE = """() => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const views = [...document.querySelectorAll('.pk-view')];
    const found = { gaps: [], updates: views.map(() => 0), messages: 0 };
    window.measured = found;
    window.measuring = true;
    let last = performance.now();
    const step = now => {
        found.gaps.push(now - last);
        last = now;
        if (window.measuring) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
    views.forEach((view, at) => new MutationObserver(() => { found.updates[at] += 1; })
        .observe(view, { subtree: true, childList: true, characterData: true }));
    kernel.anyMessage.connect((_, { direction, msg }) => {
        if (direction === 'recv' && msg.channel === 'iopub') found.messages += 1;
    });
}"""


def held(name: str, figure: float, target: float, unit: str, *, least: bool = False) -> None:
    """Print a figure beside the most, or with `least` the least, that it may be."""
    missed = figure < target if least else figure > target
    bound = "at least" if least else "at most"
    verdict = ", MISSED" if missed else ""
    print(f"  {name:<38} {figure:10,.1f} {unit:<12} ({bound} {target:g}{verdict})", flush=True)


def row(name: str, figure: float, unit: str) -> None:
    """Print a figure that has no target."""
    print(f"  {name:<38} {figure:10,.1f} {unit}", flush=True)


def title(text: str) -> None:
    print(f"\n{text}   [load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors]", flush=True)


def busy_seconds(session: CDPSession) -> float:
    """How much CPU time the main thread of a page has used."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    [used] = [metric["value"] for metric in metrics if metric["name"] == "TaskDuration"]
    return float(used)


def measured(notebook: Notebook, writing: int, seconds: float) -> dict[str, Any]:
    """Run the cell that writes, and return what was measured until all of it was shown."""
    page = notebook.page
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(MEASURE)
    page.wait_for_timeout(IDLE_SECONDS * 1000)
    idle = page.evaluate("() => { window.measured.messages = 0; return window.measured.gaps.splice(0); }")
    busy = busy_seconds(session)
    began = time.monotonic()
    notebook.run_only(writing)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.pk-status strong')].every(status => status.textContent === 'Done')",
        timeout=(seconds * 2 + 120) * 1000,
        polling=500,
    )
    elapsed = time.monotonic() - began
    found: dict[str, Any] = page.evaluate("() => { window.measuring = false; return window.measured; }")
    busy = busy_seconds(session) - busy
    session.detach()
    return {**found, "seconds": elapsed, "idle": idle, "busy": busy}


def percentile_99(gaps: list[float]) -> float:
    return sorted(gaps)[int(len(gaps) * 0.99)]


def print_frames(found: dict[str, Any]) -> None:
    gaps = found["gaps"]
    held("frame, 99th percentile", percentile_99(gaps), 100, "ms")
    row(f"longest frame, of {len(gaps)}", max(gaps), "ms")
    row("frame before, 99th percentile", percentile_99(found["idle"]), "ms")
    row("CPU of the page's main thread", found["busy"] / found["seconds"] * 100, "%")
    held("messages of the kernel", found["messages"] / found["seconds"], 30, "a second")


def check_shown(notebook: Notebook, views: int, words: int) -> None:
    texts = notebook.page.evaluate("[...document.querySelectorAll('.pk-view')].map(view => view.textContent)")
    assert len(texts) == views
    for text in texts:
        assert [int(word) for word in re.findall(r"w(\d{5})", text)] == list(range(words))
    print(f"  everything is shown: {words:,} words in each of {views} views", flush=True)


def several(lab: Lab, open_notebook: Open, name: str, *, views: int, rate: float, seconds: float) -> None:
    """So many views at once, ten in each cell, with so many words a second in each."""
    cells = [f"shown += show({min(10, views - first)})" for first in range(0, views, 10)]
    write = f"await asyncio.gather(*(paced(run, {rate}, {seconds}) for run, _ in shown))"
    notebook = open_notebook(lab.write(name, SETUP, *cells, write))
    notebook.run_first(len(cells) + 1)
    notebook.page.wait_for_function(f"() => document.querySelectorAll('.pk-stop').length === {views}", timeout=60_000)
    found = measured(notebook, len(cells) + 1, seconds)
    check_shown(notebook, views, int(rate * seconds))
    print_frames(found)
    held("updates of the slowest view", min(found["updates"]) / found["seconds"], 10, "a second", least=True)


@pytest.mark.parametrize("lines", [0, 40], ids=["one-paragraph", "paragraphs"])
def test_many_deltas(lab: Lab, open_notebook: Open, lines: int) -> None:
    title(f"{DELTAS:,} deltas in one view, in {'paragraphs of 40 words' if lines else 'one paragraph'}")
    write = (
        f"run = shown[0][0]\nawait stream(run, {DELTAS}, newline_every={lines}, burst=100, pause=0.01)\n"
        "run.end()\nawait asyncio.sleep(0)"
    )
    notebook = open_notebook(lab.write(f"deltas-{lines}.ipynb", SETUP, "shown += show(1)", write))
    notebook.run_first(2)
    notebook.page.wait_for_selector(".pk-stop")
    found = measured(notebook, 2, 30)
    check_shown(notebook, 1, DELTAS)
    print_frames(found)


def test_eight_agents(lab: Lab, open_notebook: Open) -> None:
    seconds = float(os.environ[SECONDS])
    title(f"8 agents, 40 words a second each, for {seconds:g} s")
    several(lab, open_notebook, "eight.ipynb", views=8, rate=40, seconds=seconds)


def test_many_views(lab: Lab, open_notebook: Open) -> None:
    seconds = min(20, float(os.environ[SECONDS]))
    title(f"50 views at once, 20 words a second each, for {seconds:g} s")
    several(lab, open_notebook, "fifty.ipynb", views=50, rate=20, seconds=seconds)


def test_team(lab: Lab, open_notebook: Open) -> None:
    seconds = min(20, float(os.environ[SECONDS]))
    title(f"50 lanes of a team of 200 agents, 50 words a second each, for {seconds:g} s")
    setup = """from planck_nb.jupyter.live.view import LiveView
from scripted_run import ScriptedRun, team_of, write_in_lanes
run = ScriptedRun()
display(LiveView(run.log, agent="w0", actions=run, members=lambda: team_of(200)))"""
    write = f"await write_in_lanes(run, 50, {seconds}, ended=range(49, -1, -1))"
    notebook = open_notebook(lab.write("team.ipynb", SETUP, setup, write))
    notebook.run_first(2)
    notebook.page.wait_for_selector(".pk-stop")
    found = measured(notebook, 2, seconds)
    print_frames(found)
    held("updates of the view", found["updates"][0] / found["seconds"], 10, "a second", least=True)


def heap_of(notebook: Notebook) -> float:
    """Bytes that JavaScript uses after garbage was collected."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used


def growth(notebook: Notebook, cells: range) -> float:
    """Run some cells, and return by how many bytes the heap has grown for each."""
    before = heap_of(notebook)
    for cell in cells:
        notebook.run_only(cell)
    notebook.wait_idle(180, cells=cells.stop)
    notebook.page.wait_for_timeout(SETTLES_MS)
    return (heap_of(notebook) - before) / len(cells)


@pytest.fixture(scope="session")
def kernel_template() -> None:
    """Kernels start as those of users do."""


def test_heap(lab: Lab, open_notebook: Open) -> None:
    title(f"JavaScript's heap after {FINISHED} cells that have finished")
    first = "%load_ext planck_nb\n%planck model demo"
    again = "display(*[bundle], raw=True)"
    # JupyterLab's own code, and that of the views, is compiled while the first cells run.
    cells = [first, *["%%planck\nhello"] * WARM_UP, "bundle = _.mime_bundle()[0]", *[again] * WARM_UP]
    notebook = open_notebook(lab.write("heap.ipynb", *cells, *["%%planck\nhello"] * FINISHED, *[again] * FINISHED))
    notebook.run_first(len(cells))
    notebook.wait_idle(120, cells=len(cells))
    notebook.page.wait_for_timeout(SETTLES_MS)
    views = growth(notebook, range(len(cells), len(cells) + FINISHED))
    outputs = growth(notebook, range(len(cells) + FINISHED, len(cells) + 2 * FINISHED))
    row("a cell with its view and its output", views / 1000, "KB")
    row("a cell that shows the same output only", outputs / 1000, "KB")
    held("so for the view", (views - outputs) / 1000, 30, "KB")


def size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def test_notebook_of_many_cells(lab: Lab, open_notebook: Open) -> None:
    title(f"A notebook of {CELLS} cells, executed by nbclient")
    weather = "def get_weather(city: str) -> str:\n    'Weather of a city.'\n    return f'{city}: sun'"
    prompts = ["%%planck\nhello", '%%planck\nUse @get_weather for "Paris".']
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    setup = nbformat.v4.new_code_cell(f"%load_ext planck_nb\n%planck model demo\n{weather}")
    made.cells = [setup, *(nbformat.v4.new_code_cell(prompts[at % 2]) for at in range(CELLS))]
    os.environ["PLANCK_NB_DEMO_PACE"] = "0"
    began = time.monotonic()
    NotebookClient(made, timeout=60, resources={"metadata": {"path": str(lab.root)}}).execute()
    row("executed in", time.monotonic() - began, "s")
    held("entries of metadata.widgets", len(made.metadata.get("widgets", ())), 0, "")
    kinds: dict[str, list[int]] = collections.defaultdict(list)
    beside = []
    for cell in made.cells[1:]:
        bundles = [output["data"] for output in cell.outputs if output.get("data", {}).get("text/html")]
        assert len(bundles) == 1
        for mime, content in bundles[0].items():
            kinds[mime].append(size(content))
        beside.append(size(cell) - size(cell.source) - size(bundles[0]))
    held("a cell without its bundle, at most", max(beside), 1_000, "bytes")
    for mime, sizes in kinds.items():
        hello, called = statistics.mean(sizes[::2]), statistics.mean(sizes[1::2])
        print(f"  {mime:<38} {hello:10,.0f} bytes of an answer, {called:,.0f} with one call", flush=True)
    path = lab.root / "many.ipynb"
    nbformat.write(made, path)
    notebook = open_notebook(path)
    saving = """async () => {
        const { context } = window.jupyterapp.shell.currentWidget;
        context.model.sharedModel.setMetadata('saved', Math.random());
        const began = performance.now();
        await context.save();
        return performance.now() - began;
    }"""
    times = [notebook.page.evaluate(saving) / 1000 for _ in range(5)]
    held("JupyterLab saves it in, at most", max(times), 2, "s")
    row("size of the file", path.stat().st_size / 1000, "KB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ[SECONDS] = str(options.seconds)
    settings = ["-o", "timeout=0", "-o", "faulthandler_timeout=0", "-p", "no:cacheprovider", "-p", "browser.conftest"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # where the plugin is found
    for name in NAMES:
        if options.only in name:  # in a process each, because the fixtures share a browser within their own folder only
            command = [sys.executable, "-m", "pytest", f"{__file__}::{name}", "-q", "-s", *settings]
            subprocess.run(command, env=environment, check=True)
