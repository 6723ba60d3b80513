"""In JupyterLab: a prompt shows that it waits for a sidecar, and a person can go on without it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect
from support.sidecar_links import SERVERS

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

SETUP = """import os
os.chdir({folder!r})
os.environ.update(PLANCK_NB_TRUST="1", PLANCK_NB_MODEL="demo")
%load_ext planck_nb"""
SLOW = 'until [ -e "$0" ]; do sleep 0.05; done; exec "$@"'
UNTIL_CONNECTED = """import asyncio
from planck_nb import get_workspace
while not get_workspace().sidecars.tools():
    await asyncio.sleep(0.02)"""
ECHO = '%%planck --allow execute:sidecar:desk/*\nPlease call echo with "over there".'


def test_a_person_goes_on_without_a_sidecar_and_has_it_later(lab: Lab, open_notebook: Open, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hostile = [sys.executable, "-I", "-S", str(SERVERS / "hostile_sidecar.py")]
    server = {"command": "sh", "args": ["-c", SLOW, str(go), *hostile], "env": {"STATE": str(tmp_path)}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}))
    path = lab.write("wait.ipynb", SETUP.format(folder=str(tmp_path)), "%%planck\nhello", UNTIL_CONNECTED, ECHO)
    notebook = open_notebook(path, height=800)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)

    notebook.run_only(1)
    first = notebook.output(1)
    expect(first.get_by_role("status").first).to_have_text("Waiting for desk")
    expect(first.get_by_role("timer")).to_contain_text(" s")
    notebook.screenshot("sidecar-wait")
    notebook.page.wait_for_timeout(500)  # the button ignores clicks at first
    first.get_by_role("button", name="Go on without it").click()
    expect(first).to_contain_text("This prompt goes without the tools of desk, which is still starting.")
    expect(first.get_by_role("button", name="Go on without it")).to_have_count(0)
    notebook.wait_idle(cells=2)
    assert notebook.printed(1).splitlines() == ["This prompt goes without the tools of desk, which is still starting."]
    assert "Waiting for" not in json.dumps(notebook.outputs(1))
    notebook.screenshot("sidecar-left")

    go.touch()
    notebook.run_only(2)
    notebook.run_only(3)
    notebook.wait_idle(cells=4)
    expect(notebook.output(3)).to_contain_text("over there")
    assert "goes without" not in notebook.printed(3)
    assert "The sidecar desk is connected, with " in notebook.printed(3)
