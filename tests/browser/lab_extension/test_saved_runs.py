"""In JupyterLab with our extension: a saved run looks as it did live, without a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

SETUP = """%load_ext planck_nb
import planck_nb
from planck_nb.testing import scripted_model
answer = "**Here** is a cell:\\n\\n```python\\nx = [1, 2]\\n```"
planck_nb.get_workspace().add_agent("writer", model=scripted_model([answer]))"""


def test_a_saved_run_has_colours_and_actions_without_a_kernel(lab: Lab, open_notebook: Open, window: Window) -> None:
    notebook = open_notebook(lab.write("saved.ipynb", SETUP, "%%planck writer\nWrite."), width=1400)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    notebook.wait_idle()
    expect(notebook.output(1).locator(".pk-folded")).to_be_visible()
    notebook.save()
    before = notebook.path.read_bytes()
    notebook.reload(kernel=False)
    output = notebook.output(1)
    run = output.locator(".pk-saved")
    expect(run).to_be_visible()
    expect(run.locator("code span").first).to_be_visible()
    expect(run).to_contain_text("writer")
    notebook.screenshot("lab-saved-1400")
    expect(run.get_by_role("button", name="Insert as cell")).to_have_count(1)
    assert b"pk-saved" not in before
