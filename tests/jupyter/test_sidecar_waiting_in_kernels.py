"""A notebook that a program executes has the same outputs, however long its sidecar takes to start."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.sidecar_links import SERVERS
from support.stubborn import until

pytestmark = [pytest.mark.kernel, pytest.mark.process, pytest.mark.timeout(240)]

SLOW = 'echo > "$0-begun"; until [ -e "$0" ]; do sleep 0.02; done; exec "$@"'
HOSTILE = [sys.executable, "-I", "-S", str(SERVERS / "hostile_sidecar.py")]
CELLS = [
    "%load_ext planck_nb",
    '%%planck --allow execute:sidecar:desk/*\nPlease call echo with "over there".',
    '%%planck\nPlease call echo with "again".',
]


def executed(folder: Path, go: Path, *, early: bool) -> list[Any]:
    """The outputs of a notebook whose sidecar starts early, or only when the prompt waits for it."""
    go.unlink(missing_ok=True)
    begun = go.with_name("go-begun")
    begun.unlink(missing_ok=True)
    cells = [nbformat.v4.new_code_cell(cell, id=f"cell-{number}") for number, cell in enumerate(CELLS)]
    notebook: Any = nbformat.v4.new_notebook(cells=cells)
    if early:
        go.touch()

    def let_it_start() -> None:
        until(begun.exists, "the sidecar was started", seconds=100)
        go.touch()

    letting = threading.Thread(target=let_it_start)
    letting.start()
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()
    letting.join()
    return [[without_times(output) for output in cell.outputs] for cell in notebook.cells]


def without_times(output: Any) -> Any:
    return {key: value for key, value in output.items() if key not in ("metadata", "execution_count")}


def test_three_runs_have_equal_outputs_with_the_tools_of_a_slow_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    server = {"command": "sh", "args": ["-c", SLOW, str(go), *HOSTILE], "env": {"STATE": str(tmp_path)}}
    dead = {"command": "no-such-program-anywhere"}
    (tmp_path / ".planck").mkdir()
    (tmp_path / ".planck/mcp.json").write_text(json.dumps({"mcpServers": {"desk": server, "dead": dead}}))
    for name, value in {"HOME": str(tmp_path), "PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0"}.items():
        monkeypatch.setenv(name, value)
    runs = []
    for number, early in enumerate((True, False, False)):
        (folder := tmp_path / f"run{number}").mkdir()
        runs.append(executed(folder, go, early=early))
    assert runs[0] == runs[1] == runs[2]
    first, second = ("".join(output.get("text", "") for output in outputs) for outputs in runs[0][1:])
    assert "The sidecar desk is connected, with " in first
    assert "The sidecar dead cannot be started" in first
    assert second == "This prompt goes without the tools of dead, which is not running; see `%planck sidecar`.\n"
    answers = [str(outputs) for outputs in runs[0][1:]]
    assert "over there" in answers[0]
    assert "`echo` returned" in answers[0]
    assert "again" in answers[1]
    assert "`echo` returned" in answers[1]
