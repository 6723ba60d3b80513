"""In JupyterLab with our extension: a form in the panel shows the project's settings, and writes what was changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_large_and_hostile import VIOLATIONS
from browser.lab_extension.test_panel_trust import SETUP
from browser.lab_extension.test_proposals import button
from playwright.sync_api import Locator, Page, expect
from support.node import LABEXTENSION

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]


@pytest.mark.parametrize("width", [1400, 480])
def test_only_save_writes_and_a_refusal_keeps_what_was_typed(
    lab: Lab, open_notebook: Open, show: Show, tmp_path: Path, width: int
) -> None:
    notebook = open_notebook(lab.write(f"settings-{width}.ipynb", SETUP.format(folder=str(tmp_path))), width=width)
    page, file = notebook.page, tmp_path / ".planck/config.toml"
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    panel = show(page)
    button(panel, "Change").click()
    field = panel.locator("label", has_text="max_workers")
    expect(field).to_contain_text("From default")
    box = field.get_by_role("textbox")
    hostile = "<img src=x onerror='window.ran = true'>"
    box.fill(hostile)
    page.keyboard.press("Enter")
    assert not file.exists()
    button(panel, "Save").click()
    expect(panel.locator(".planck-settings [role=status]")).to_contain_text("max_workers is")
    expect(box).to_have_value(hostile)
    assert not file.exists()
    box.fill("7")
    button(panel, "Save").focus()
    page.keyboard.press("Space")
    expect(field).to_contain_text("From .planck/config.toml")
    assert file.read_text("utf-8") == 'max_workers = "7"\n'
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        page.wait_for_timeout(300)  # colours change by transitions
        field.scroll_into_view_if_needed()
        notebook.screenshot(f"panel-settings-{theme[11:].lower()}-{width}")
        assert page.evaluate(VIOLATIONS.replace(".planck-review, .planck-at-cell, .planck-help", ".pk-panel")) == []
    assert not page.evaluate("window.ran")
