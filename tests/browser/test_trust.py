"""In JupyterLab: what a folder brings is shown whole, and the person decides in the same cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = "import os\nos.chdir({folder!r})\n%load_ext planck_nb"
STATUS = "print([file.status for file in get_workspace().trust_items()])"


def test_a_person_declines_and_then_trusts_what_the_cell_shows(lab: Lab, open_notebook: Open, tmp_path: Path) -> None:
    server = {"command": "npx", "args": ["-y", "desk@1.4.2"], "env": {"TOKEN": "${DESK_TOKEN:-none}"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}))
    tool = {"name": "say", "description": "Speak.", "command": "echo '<b>hi</b>'", "parameters": {"type": "object"}}
    (tmp_path / ".planck/tools/say").mkdir(parents=True)
    (tmp_path / ".planck/tools/say/TOOL.json").write_text(json.dumps(tool))
    setup = SETUP.format(folder=str(tmp_path)) + "\nfrom planck_nb import get_workspace"
    notebook = open_notebook(
        lab.write("trust.ipynb", setup, "%planck trust", f"%planck trust\n{STATUS}", STATUS), height=1100
    )
    notebook.run_first(1)
    notebook.wait_idle(cells=1)

    notebook.run_only(1)
    first = notebook.output(1)
    expect(first).to_contain_text("command: npx -y desk@1.4.2")
    expect(first).to_contain_text("TOKEN=${DESK_TOKEN:-none}")
    expect(first).to_contain_text("echo '<b>hi</b>'")  # as text, not as HTML
    expect(first.get_by_role("timer")).to_contain_text("expires in")
    notebook.screenshot("trust")
    notebook.page.wait_for_timeout(500)  # buttons ignore clicks at first
    first.get_by_role("button", name="Not now").click()
    expect(first).to_contain_text("Nothing was trusted")
    expect(first.get_by_role("button")).to_have_count(0)
    notebook.wait_idle(cells=2)

    notebook.run_only(2)
    second = notebook.output(2)
    expect(second.get_by_role("button", name="Trust 2 things")).to_be_visible()
    notebook.page.wait_for_timeout(500)
    second.get_by_role("button", name="Trust 2 things").click()
    expect(second).to_contain_text("['trusted', 'trusted']")
    notebook.wait_idle(cells=3)
    notebook.screenshot("trusted")
    saved = json.dumps(notebook.outputs(2))
    assert "desk@1.4.2" in saved
    assert "vnd.jupyter.widget-view" not in saved
    notebook.save()
