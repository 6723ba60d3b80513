"""In JupyterLab: a map shows how far it is, is stopped, asks for approval, and goes on after a preview."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

SETUP = """import asyncio, os
os.environ.update(PLANCK_NB_TRUST="1", PLANCK_NB_MODEL="demo")
%load_ext planck_nb
from planck_nb import Tool, get_workspace
from planck_nb.agent.effect import Effect
from planck_nb.testing import scripted_model
workspace = get_workspace()
gate = asyncio.Event()"""
STOPPED = """async def tickets():
    for number in range(40):
        yield f"Ticket {number}"
    await gate.wait()
broken = scripted_model([{"error": "The server is on fire."}])
labels = await workspace.map(tickets(), model=broken)"""
PREVIEW = """prompts = [f"Which product? {number}" for number in range(30)]
products = await workspace.map(prompts, model=scripted_model(["Oven."]), first=5)"""
PAY = """def pay(args):
    return "paid"
model = scripted_model([{"calls": [{"name": "pay", "arguments": {"amount": 7}}]}, "Paid."])
tool = Tool(name="pay", description="Pay.", execute_fn=pay, touches=lambda _: [Effect("network", "bank.example")])
ann = workspace.add_agent("ann", model=model, tools=[tool])
bills = await workspace.map(["Pay the bill.", "Pay this one, too."], agent=ann)"""
SHOWN = """from IPython.display import display
display(await bills.frame())"""


def pictures(notebook: Notebook, name: str) -> None:
    """Save pictures in both themes and two widths."""
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        for width in (480, 1400):
            notebook.page.set_viewport_size({"width": width, "height": 800})
            notebook.screenshot(f"{name}-{theme.partition(' ')[2].lower()}-{width}")


def test_a_map_is_seen_and_stopped_in_its_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("map.ipynb", SETUP, STOPPED), height=800)
    notebook.run_all()
    shown = notebook.output(1)
    expect(shown.locator(".planck-map-now strong")).to_have_text("40 items")
    expect(shown).to_contain_text("Cost so far")
    shown.get_by_text("40 items failed").click()
    expect(shown).to_contain_text("40 items: The server is on fire.")
    pictures(notebook, "map-running")
    stop = shown.get_by_role("button", name="Stop")
    notebook.page.wait_for_timeout(500)  # the button ignores clicks at first
    stop.click()
    notebook.wait_idle(cells=2)
    expect(stop).to_have_count(0)
    expect(shown.get_by_role("status").first).to_contain_text("Stopped. All answers are kept")
    pictures(notebook, "map-stopped")
    saved = json.dumps(notebook.outputs(1))
    assert "40 items" in saved
    assert "stopped" in saved
    notebook.save()
    notebook.reload(kernel=False)
    expect(notebook.output(1)).to_contain_text("40 items")
    expect(notebook.output(1).locator(".planck-map-now")).to_have_count(0)
    pictures(notebook, "map-saved")


def test_a_preview_goes_on_by_a_click_after_its_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("preview.ipynb", SETUP, PREVIEW), height=800)
    notebook.run_all()
    notebook.wait_idle(cells=2)
    shown = notebook.output(1)
    expect(shown.locator(".planck-map-now strong")).to_have_text("5 of 30 items")
    expect(shown.get_by_role("status").first).to_contain_text("The other 25 items will cost nothing")
    pictures(notebook, "map-preview")
    notebook.page.wait_for_timeout(500)  # as above
    shown.get_by_role("button", name="Ask the rest").click()
    expect(shown.locator(".planck-map-now strong")).to_have_text("30 of 30 items")
    expect(shown.get_by_role("button")).to_have_count(0)
    assert "30 of 30 items" in json.dumps(notebook.outputs(1))


def test_calls_of_items_wait_for_approval_in_the_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("pay.ipynb", SETUP, PAY, SHOWN), height=800)
    notebook.run_all()
    shown = notebook.output(1)
    expect(shown.get_by_role("alertdialog")).to_have_count(2)
    expect(shown).to_contain_text("2 waiting for approval")
    expect(shown).to_contain_text("pay of item 1 waits for approval")
    pictures(notebook, "map-approval")
    notebook.page.wait_for_timeout(500)  # as above
    shown.get_by_role("button", name="Deny").first.click()
    expect(shown.get_by_role("alertdialog")).to_have_count(1)
    shown.get_by_role("button", name="Allow", exact=True).click()
    notebook.wait_idle()
    expect(notebook.output(2)).to_contain_text("Paid.")
    expect(shown.locator(".planck-map-now strong")).to_have_text("2 of 2 items")
