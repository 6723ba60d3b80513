"""In JupyterLab with our extension: Tab completes `%planck` while a cell blocks the kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_large_and_hostile import ACTIVE, WATCH
from browser.lab_extension.test_proposals import ADD, SETUP, SHARED
from playwright.sync_api import Locator, Page, expect
from support.listener import Listener
from support.payloads import payloads

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

BUSY = "import time\nfrom pathlib import Path\nwhile not Path('end').exists(): time.sleep(0.05)"
HOSTILE = """import json
from planck_nb.jupyter.lab.protocol import Names
texts = json.load(open('payloads.json'))
extension._link.pages.names = lambda: Names({}, {"@" + text: text for text in texts})"""


def tab(page: Page, text: str) -> Locator:
    """Write a text into the last cell, and press Tab."""
    cell = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").last
    page.evaluate(f"{SHARED}.getCell(2).setSource('')")
    cell.locator(".cm-content").click()
    page.keyboard.insert_text(text)
    page.keyboard.press("Tab")
    return page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item")


def test_tab_knows_verbs_agents_and_variables_while_a_cell_runs(lab: Lab, open_notebook: Open) -> None:
    setup = f"{SETUP}\nagent('analyst')\norders = [1]"
    notebook = open_notebook(lab.write("busy.ipynb", setup, BUSY, ""))
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    expect(page.locator(".jp-Cell").nth(1)).to_contain_text("[*]")
    offered = tab(page, "%planck st")
    expect(offered.filter(has_text="steer")).to_contain_text("give the running")
    expect(offered.filter(has_text="stop")).to_be_visible()
    notebook.screenshot("lab-completion")
    expect(tab(page, "%planck stop an").filter(has_text="analyst")).to_contain_text("idle")
    expect(tab(page, "%%planck\nlook at @ord").filter(has_text="@orders")).to_contain_text("list")
    page.keyboard.press("Enter")
    expect(page.locator(".jp-Cell").nth(2).locator(".cm-line").last).to_have_text("look at @orders")
    (lab.root / "end").touch()


def test_names_run_nothing_in_the_list(lab: Lab, open_notebook: Open) -> None:
    listener = Listener()
    texts = payloads(listener.url)
    (lab.root / "payloads.json").write_text(json.dumps(texts), encoding="utf-8")
    notebook = open_notebook(lab.write("names.ipynb", f"{SETUP}\n{ADD}\n{HOSTILE}", BUSY.replace("end", "over"), ""))
    page = notebook.page
    page.evaluate(WATCH)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    expect(page.locator(".jp-Cell").nth(1)).to_contain_text("[*]")
    offered = tab(page, "%%planck\n@")
    expect(offered.nth(len(texts) // 2)).to_be_attached()  # JupyterLab draws long lists in parts
    assert page.evaluate(ACTIVE.replace(".planck-review *", ".jp-Completer *")) == []
    assert page.evaluate("window.ran") == []
    assert listener.connections == 0
    listener.close()
    (lab.root / "over").touch()
