"""In JupyterLab: limits that were set and the alias of the model, live and saved in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """%load_ext planck_nb
import asyncio
from dataclasses import replace
from planck_nb import get_workspace
from planck_nb.ai.models import Pricing
from planck_nb.testing import Call, Reply, scripted_model
async def wait() -> str:
    "Wait."
    await asyncio.Event().wait()
script = [Reply("I wait.", calls=[Call("wait", {})])] * 2
model = replace(scripted_model(script), alias="quick", pricing=Pricing(100.0, 100.0))
workspace = get_workspace()
workspace.config = replace(workspace.config, models=(model,))
%planck model quick
settings = %planck config cost=0.2"""
PROMPT = "%%planck --tools wait\nGo."


def test_a_limit_and_an_alias_are_the_same_live_and_saved(lab: Lab, open_notebook: Open) -> None:
    change = "settings = %planck config tokens=90000, cost=none"
    notebook = open_notebook(lab.write("limits.ipynb", SETUP, PROMPT, change, PROMPT))
    notebook.run_first(2)
    live = notebook.output(1).locator(".pk-figs")
    expect(live.locator("b")).to_contain_text(" of $0.200")
    cost = live.locator("b").inner_text()
    expect(live.locator(".pk-model")).to_have_text("quick")
    expect(live.locator(".pk-model")).to_be_visible()
    notebook.output(1).locator(".pk-dock").scroll_into_view_if_needed()
    notebook.screenshot("limits")
    notebook.output(1).locator(".pk-stop").click()
    saved = notebook.output(1).locator(".jp-RenderedHTML p").first
    expect(saved).to_contain_text(f" · {cost} · quick")

    notebook.wait_idle(cells=2)
    notebook.run_only(2)
    notebook.run_only(3)
    live = notebook.output(3).locator(".pk-figs")
    tokens = live.locator("span").first
    expect(tokens).to_contain_text(" of 90.0k tokens")
    expect(live).not_to_contain_text("of $")
    count = tokens.inner_text()
    notebook.output(3).locator(".pk-stop").click()
    expect(notebook.output(3).locator(".jp-RenderedHTML p").first).to_contain_text(f" · {count} · ")
    notebook.wait_idle()
