"""No verb holds the event loop for long, however long the history is: other agents and ■ wait for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.history import write_long
from support.loop_blocks import loop_blocks
from support.memory_of_verbs import write_session

from planck_nb import Config, Workspace
from planck_nb.base.errors import PlanckError
from planck_nb.jupyter.controller import Controller, StartedRun
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS
from planck_nb.testing import scripted_model

SOAK = bool(os.environ.get("PLANCK_NB_SOAK"))
MESSAGES = 400_000 if SOAK else 6_000
BYTES = 500_000_000 if SOAK else 4_000_000
LIMIT = 0.1
"""CPU seconds in one piece."""
TRIES = 3
"""A verb is too slow if it is each time: what is loaded at first use counts once."""

LINES = """
agents
use Ada
model demo
models demo
engine
tools
skills
request Ada
history
history --days 30
sql
sql SELECT count(*) FROM messages
sql SELECT * FROM tool_calls LIMIT 5
search numbers --limit 5
cost
cost long --table
timeline
timeline --agent Ada
scores
scores --cases
changes
undo 3
steer Ada go on
queue
stop Ada
sessions
export long long.jsonl --overwrite
export long long.md --overwrite
export long long.html --overwrite
export long long.ipynb --overwrite
import long.jsonl
rewind
rewind last
fork
resume long
delete other --yes
config
permissions
cassette
trust --list
doctor
version
help
help export
team
sidecar
serve off
approve
deny
answer 2
compact Ada
sessions compact
remove Ada
""".strip().splitlines()
WITHOUT_HISTORY = {"fix", "explain", "improve", "test", "continue", "map"}
"""Verbs that send prompts about a cell or a table, or the last one again."""


@pytest.fixture
async def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Notebook]:
    """A notebook that has resumed a long session, beside another one without its DuckDB file."""
    monkeypatch.chdir(tmp_path)
    config = Config.load(environment={"PLANCK_NB_MODEL": "demo"}, directory=tmp_path)
    async with Workspace(config) as workspace:
        await asyncio.to_thread(write_long, workspace.sessions_dir, MESSAGES)
        await asyncio.to_thread(write_session, workspace.sessions_dir, "00000000000000ab", "other", BYTES)
        with loop_blocks() as blocks:
            await workspace.resume("long", model=scripted_model(["fine"] * 20))
        assert blocks.seconds < LIMIT * TRIES, blocks.where  # once only, and modules are loaded meanwhile
        yield Notebook(Controller(workspace), {})


def test_all_verbs_are_tried() -> None:
    tried = {VERBS[line.split()[0]].name for line in LINES}
    assert {verb.name for verb in VERBS.values()} - WITHOUT_HISTORY == tried


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(7200 if SOAK else 300)
async def test_no_verb_holds_the_loop(notebook: Notebook) -> None:
    slow: dict[str, str] = {}
    for line in LINES:
        tries, refusals = [], set[str]()
        for _ in range(TRIES):
            with loop_blocks() as blocks:
                # In a task of its own: the step that this one is in has begun before.
                refusals.add(await asyncio.create_task(run(notebook, line)))
            tries.append((blocks.seconds, blocks.where))
            if blocks.seconds < LIMIT:
                break
        else:
            seconds, where = min(tries)
            slow[line] = f"{seconds * 1e3:.0f} ms in {where}"
        print(f"{line}: {min(tries)[0] * 1e3:.0f} ms {'; '.join(refusals)}")
    assert not slow


def test_a_busy_callback_is_found() -> None:
    async def work() -> None:
        began = time.thread_time()
        while time.thread_time() - began < LIMIT:
            pass

    with loop_blocks() as blocks:
        asyncio.run(work())
    assert blocks.seconds >= LIMIT
    assert "work" in blocks.where


async def run(notebook: Notebook, line: str) -> str:
    """Run a verb, and return why it refused: some have nothing to do here."""
    name, _, argument = line.partition(" ")
    try:
        answer = await VERBS[name].run(notebook, argument, None)
    except PlanckError as error:
        return str(error)
    if isinstance(answer, StartedRun):
        await answer.run.wait()
    return ""
