"""In JupyterLab: answers stream side by side, one under another where it is narrow, and end in one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

SETUP = """import os
os.environ.update(PLANCK_NB_TRUST="1", PLANCK_NB_MODEL="demo")
%load_ext planck_nb
from planck_nb import Tool, get_workspace
from planck_nb.agent.effect import Effect
from planck_nb.testing import scripted_model
workspace = get_workspace()
def look(args):
    return "16,681 orders in February, 9,980 in March"
model = scripted_model([
    {"text": "I look at the orders.", "calls": [{"name": "look", "arguments": {"table": "orders"}}]},
    "The dates come in two formats. Rows of the new till use `DD/MM/YY`, and 3,760 of them are read as another month. "
    "March is **not** short; it is read wrongly.",
])
tool = Tool(name="look", description="Look.", execute_fn=look, touches=lambda _: [Effect("network", "shop.example")])
ann = workspace.add_agent("ann", model=model, tools=[tool])"""
ASK = "%%planck ann --repeat 3\nWhy is March short?"


def pictures(notebook: Notebook, name: str) -> None:
    """Save pictures in both themes and two widths."""
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        for width in (480, 1400):
            notebook.page.set_viewport_size({"width": width, "height": 800})
            notebook.screenshot(f"{name}-{theme.partition(' ')[2].lower()}-{width}")


def tops(columns: Locator) -> list[float]:
    boxes = [column.bounding_box() for column in columns.all()]
    return [box["y"] for box in boxes if box is not None]


def test_columns_stream_together_and_end_in_one_table(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("side.ipynb", SETUP, ASK), height=800)
    notebook.run_all()
    shown = notebook.output(1)
    columns = shown.locator(".widget-gridbox > *")
    expect(columns).to_have_count(3)
    for number, column in enumerate(columns.all(), 1):
        expect(column.locator("strong", has_text=f"script-{number}")).to_be_visible()
        expect(column).to_contain_text("I look at the orders")
    notebook.page.set_viewport_size({"width": 1400, "height": 800})
    expect(columns.first).to_be_visible()
    assert len(set(tops(columns))) == 1
    notebook.page.set_viewport_size({"width": 590, "height": 800})
    notebook.page.wait_for_function(
        "() => new Set([...document.querySelectorAll('.widget-gridbox > *')]"
        ".map((column) => column.getBoundingClientRect().top)).size === 3"
    )
    pictures(notebook, "side-running")
    notebook.page.wait_for_timeout(500)  # the buttons ignore clicks at first
    for number in range(3):
        columns.nth(number).get_by_role("button", name="Allow once").click()
    notebook.wait_idle(cells=2)
    expect(columns).to_have_count(0)
    expect(shown.locator("table tr")).to_have_count(4)
    expect(shown.locator("details:has(> summary)").first).to_be_visible()
    shown.locator("summary", has_text="script-2").click()
    expect(shown.get_by_text("it is read wrongly").locator("visible=true")).not_to_have_count(0)
    pictures(notebook, "side-table")
    notebook.save()
    notebook.reload(kernel=False)
    expect(notebook.output(1).locator("table tr")).to_have_count(4)
    assert "gridbox" not in json.dumps(notebook.outputs(1)).lower()
