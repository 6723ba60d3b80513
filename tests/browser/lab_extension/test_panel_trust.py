"""In JupyterLab with our extension: the panel shows what waits for trust, and trusts exactly this."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_large_and_hostile import VIOLATIONS
from browser.lab_extension.test_panel import WAITS
from browser.lab_extension.test_proposals import button
from playwright.sync_api import Locator, Page, expect
from support.node import LABEXTENSION

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

SETUP = "import os\nos.chdir({folder!r})\n%load_ext planck_nb\nfrom planck_nb import get_workspace"
STATUS = "print([file.status for file in get_workspace().trust_items()])"


def write_tool(folder: Path, command: str) -> None:
    """Describe a command in the folder of a project."""
    file = folder / ".planck/tools/say/TOOL.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    tool = {"name": "say", "description": "Speak.", "command": command, "parameters": {"type": "object"}}
    file.write_text(json.dumps(tool), "utf-8")


def test_files_are_shown_as_text_and_trusted_when_the_kernel_is_free(
    lab: Lab, open_notebook: Open, show: Show, tmp_path: Path
) -> None:
    write_tool(tmp_path, "echo '<img src=x onerror=\"window.ran = true\">'")
    blocked = WAITS.format(tmp_path / "blocks", tmp_path / "unblocked")
    notebook = open_notebook(
        lab.write("trust-panel.ipynb", SETUP.format(folder=str(tmp_path)), blocked, STATUS), width=1400
    )
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    panel = show(page)
    expect(panel.locator(".planck-trust")).to_contain_text("onerror=")
    expect(panel.locator(".planck-trust")).to_contain_text(".planck/tools/say/TOOL.json")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        notebook.screenshot(f"panel-trust-{theme[11:].lower()}")
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    assert page.evaluate(VIOLATIONS.replace(".planck-review, .planck-at-cell, .planck-help", ".pk-panel")) == []
    notebook.run_only(1)
    expect(panel).to_contain_text("The kernel is busy")
    trust = button(panel, "Trust this")
    trust.focus()
    page.keyboard.press("Space")
    expect(panel).to_contain_text("Waits until the kernel is free.")
    button(panel, "Withdraw").click()
    button(panel, "Trust this").click()
    (tmp_path / "unblocked").touch()
    expect(panel.locator(".planck-trust")).to_have_count(0)
    notebook.run_only(2)
    expect(notebook.output(2)).to_contain_text("['trusted']")
    assert not page.evaluate("window.ran")


@pytest.mark.parametrize("width", [1400, 480])
def test_a_changed_file_asks_again_with_its_changes(
    lab: Lab, open_notebook: Open, show: Show, tmp_path: Path, width: int
) -> None:
    write_tool(tmp_path, "echo one")
    notebook = open_notebook(
        lab.write(f"changed-{width}.ipynb", SETUP.format(folder=str(tmp_path)) + "\n_ = get_workspace().trust()"),
        width=width,
    )
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    write_tool(tmp_path, "echo two")
    panel = show(notebook.page)
    expect(panel.locator("[data-sign='+']")).to_have_text("+ command: echo two")
    expect(panel.locator("[data-sign='-']")).to_have_text("- command: echo one")
    notebook.screenshot(f"panel-trust-changed-{width}")
