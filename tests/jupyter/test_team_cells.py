"""Prompts to teams in real kernels: foreground, background, interrupted, resumed, and in an executed notebook."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.kernel import Kernel, running_kernel

MEMBERS = [
    {"type": "orchestrator", "name": "lead", "provider": "demo", "model_id": "demo"},
    *(
        {"type": name, "name": name, "provider": "demo", "model_id": "demo", "tools": ["measure", "work"]}
        for name in ("ann", "bob", "cid")
    ),
]

PRELUDE = """
%load_ext planck_nb
import asyncio, threading
from planck_nb import get_workspace

def team():
    return get_workspace().teams['crew']

def statuses():
    return {agent.name: agent.status for agent in team().agents}

async def until(kind, count=1):
    async with asyncio.timeout(30), get_workspace().subscribe(since=0) as events:
        async for event in events:
            count -= event.type == kind
            if not count:
                return event

entered, gate = threading.Semaphore(0), threading.Event()

def work(number: int) -> int:
    "Work on a number."
    print("working on", number)
    entered.release()
    assert gate.wait(30)
    return number + 1

def measure(number: int) -> int:
    "Measure a number."
    print("measuring", number)
    return number * 10
"""

NAMES = ("ann", "bob", "cid")
THREE = "\n".join(f'delegate_task to "{name}": "measure {number}".' for number, name in enumerate(NAMES, 1))
SLOW = 'delegate_task to "ann": "work 1".\ndelegate_task to "bob": "measure 2".'
REPORT = [f"**{name}** responded: `measure` returned `{number}0`." for number, name in enumerate(NAMES, 1)]
IDLE = dict.fromkeys(("lead", *NAMES), "idle")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / ".planck/teams/crew/TEAM.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"members": MEMBERS}))
    return tmp_path


@pytest.fixture
def kernel(folder: Path) -> Iterator[Kernel]:
    with new_kernel(folder) as kernel:
        said(kernel, PRELUDE)
        yield kernel


def new_kernel(folder: Path) -> Any:
    return running_kernel(folder, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo", PLANCK_NB_TRUST="1")


def said(kernel: Kernel, code: str) -> str:
    """What a cell shows; it must not fail."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.plain


def value(kernel: Kernel, code: str) -> Any:
    """The value of an expression of plain values."""
    return ast.literal_eval(said(kernel, code))


@pytest.mark.process
@pytest.mark.timeout(180)
def test_an_executed_notebook_has_the_final_report_of_three_delegations(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PLANCK_NB_TRUST", "PLANCK_NB_DEMO_PACE"):
        monkeypatch.setenv(name, "1" if name.endswith("TRUST") else "0")
    cells = [PRELUDE, f"%%planck --team crew\n{THREE}", "statuses()"]
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(document, resources={"metadata": {"path": str(folder)}}).execute()
    _, prompt, after = document.cells
    shown = "\n".join(output["data"]["text/plain"] for output in prompt.outputs if "data" in output)
    report, _, work = shown.strip().partition("\n[How it was made: 4 agents, 3 tasks")
    assert report == "\n\n".join(REPORT)
    assert work
    printed = "".join(output["text"] for output in prompt.outputs if output.output_type == "stream")
    assert printed.startswith("The team crew is running: lead (orchestrator), ann, bob, cid.\n")
    html = "".join(output["data"].get("text/html", "") for output in prompt.outputs if "data" in output)
    for number in (1, 2, 3):
        assert f"measuring {number}" in html, "what members print is in their calls"
    assert set(ast.literal_eval(after.outputs[0]["data"]["text/plain"]).values()) == {"idle"}


@pytest.mark.timeout(180)
def test_an_interrupt_stops_the_whole_team_and_leaves_its_members_idle(kernel: Kernel) -> None:
    message = kernel.start(f"answer = %planck --team crew {SLOW.replace(chr(10), ' ')}")
    cell = kernel.finish(message, on_message=Interrupter(kernel), timeout=60)
    assert "KeyboardInterrupt" in cell.error
    assert value(kernel, "gate.set()\nstatuses()") == IDLE
    assert value(kernel, "len(team().agent('bob').state.messages)") == 0, "what was next is not done"
    tasks = "%planck sql -o tasks SELECT status FROM delegations WHERE session_id = getvariable('session')"
    assert value(kernel, f"{tasks}\ntasks['status'].tolist()") == ["failed"]
    assert "**ann** responded: `measure` returned `70`." in said(
        kernel, '%%planck --team crew\ndelegate_task to "ann": "measure 7".'
    ), "the team can be prompted again"


class Interrupter:
    """Interrupts the kernel once a worker is at work."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._done = False

    def __call__(self, message: dict[str, Any]) -> None:
        if message["msg_type"] == "comm_msg" and "working on" in str(message["content"]) and not self._done:
            self._done = True
            self._kernel.interrupt()


@pytest.mark.timeout(180)
def test_a_team_in_the_background_works_while_other_cells_run_and_can_be_stopped(kernel: Kernel) -> None:
    said(kernel, f"%%planck --team crew --background\n{SLOW}")
    said(kernel, "assert await asyncio.to_thread(entered.acquire, timeout=30)")
    agents = value(kernel, "t = %planck agents\nt.set_index('agent')[['status', 'waits_for']].to_dict('index')")
    assert agents["lead"] == {"status": "idle", "waits_for": "ann"}
    assert agents["ann"] == {"status": "executing_tools", "waits_for": "work"}
    stopped = said(kernel, "%planck stop crew")
    assert "crew/ann" in stopped
    assert value(kernel, "gate.set()\nstatuses()") == IDLE
    assert value(kernel, "len(team().agent('bob').state.messages)") == 0, "nothing goes on after a stop"


@pytest.mark.timeout(180)
def test_a_team_in_the_background_ends_with_its_report_in_its_cell(kernel: Kernel) -> None:
    said(kernel, f"run = %planck --team crew --background {THREE.replace(chr(10), ' ')}")
    assert value(kernel, "result = await run.wait()\nresult.text").split("\n\n") == REPORT


@pytest.mark.timeout(180)
def test_a_message_to_a_team_that_waits_is_read_by_the_orchestrator(kernel: Kernel) -> None:
    said(kernel, f"run = %planck --team crew --background {SLOW.replace(chr(10), ' ')}")
    said(kernel, "assert await asyncio.to_thread(entered.acquire, timeout=30)")
    assert "lead reads it" in said(kernel, "%planck steer Be quick.")
    said(kernel, "gate.set()\nresult = await run.wait()")
    texts = value(kernel, "[getattr(message, 'text', '') for message in result.messages if message.type == 'user']")
    assert "Be quick." in texts, "it belongs to the run of the team"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_another_kernel_continues_the_team(folder: Path) -> None:
    with new_kernel(folder) as first:
        said(first, PRELUDE)
        said(first, f"%%planck --team crew --quiet\n{THREE}")
        first.kill()
    with new_kernel(folder) as second:
        said(second, PRELUDE)
        resumed = said(second, "%planck resume")
        assert re.search(r"with the team crew: lead \(\d+ messages\), ann \(4 messages\), bob", resumed)
        cell = second.run(f"%%planck crew\n{THREE}")
        assert cell.status == "ok", cell.error
        assert REPORT[-1] in cell.plain
        assert "The team crew is running" not in cell.plain, "it was not started again"


@pytest.mark.timeout(180)
def test_the_table_of_agents_is_live_while_some_run_and_saves_nothing_that_changes(kernel: Kernel) -> None:
    widget = "application/vnd.jupyter.widget-view+json"
    said(kernel, f"%%planck --team crew --background --quiet\n{SLOW}")
    said(kernel, "assert await asyncio.to_thread(entered.acquire, timeout=30)")
    live = kernel.run("%planck agents")
    assert live.status == "ok", live.error
    assert len(live.data(widget)) == 1
    nothing, text = live.data("text/plain")
    assert nothing == "", "what is saved of the live table"
    assert "bob" in text
    assert "status" not in text
    program = kernel.finish(kernel.start("%planck agents", attended=False))
    assert not program.data(widget), "nobody would see it"
    assert program.data("text/plain") == ["", text]
    assert program.data("text/html") == live.data("text/html")
    kept = kernel.run("kept = %planck agents")
    assert not kept.outputs
    later = kernel.run("kept")
    assert not later.data(widget), "the value is what it was, not what is"
    assert "executing_tools" in later.plain
    said(kernel, "%planck stop")
    said(kernel, "gate.set()")
    idle = kernel.run("%planck agents")
    assert not idle.data(widget)
    assert "status" in idle.plain


LARGE = """
from dataclasses import replace
from planck_nb import AgentSpec
from planck_nb.teams import TeamTemplate
from planck_nb.testing import Call, Reply, scripted_model

COUNT = 100
tasks = [Call('delegate_task', {'agent_id': f'w{number}', 'task': 'hi'}) for number in range(COUNT)]
script = [Reply(calls=tasks), *['read'] * (COUNT + 1)]
lead = replace(scripted_model(script), alias='lead')
worker = replace(scripted_model(['word ' * 60] * 3, pace=0.02), alias='w')
workspace = get_workspace()
workspace.config = replace(workspace.config, models=(lead, worker))
specs = [AgentSpec('orchestrator', 'demo', 'lead', name='lead')]
specs += [AgentSpec('worker', 'demo', 'w', name=f'w{number}') for number in range(COUNT)]
large = await workspace.start_team(TeamTemplate.from_specs(specs, name='large'))
run = large.prompt('go')
"""
BUSY = "print(run.status, sum(agent.status == 'streaming' for agent in large.agents))"


@pytest.mark.timeout(180)
def test_the_kernel_runs_cells_while_a_hundred_workers_stream(kernel: Kernel) -> None:
    said(kernel, LARGE)
    seconds: list[float] = []
    status = "running"
    while status == "running":
        cell = kernel.run(BUSY)
        status, busy = cell.text.split()
        if int(busy) > 50:
            seconds.append(cell.seconds)
    seconds.sort()
    print(f"{len(seconds)} cells meanwhile: median {seconds[len(seconds) // 2]:.3f} s, longest {seconds[-1]:.3f} s")
    assert len(seconds) >= 5
    assert value(kernel, "len((await run).turns) > COUNT")
