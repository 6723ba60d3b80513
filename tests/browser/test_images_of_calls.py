"""In JupyterLab: images that calls return are shown in their cards while the run goes on, and saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

pytestmark = pytest.mark.timeout(120)

SETUP = """%load_ext planck_nb
import asyncio
import matplotlib.pyplot as plt
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
draw = '''figure, axes = plt.subplots(figsize=(5, 2.5))
axes.bar(["January", "March"], [16244, 9980])
axes.set_title("Orders")
plt.show()'''
script = [{"text": "I draw the orders.", "calls": [{"name": "run_python", "arguments": {"code": draw}}]},
    {"text": "Now I wait.", "calls": [{"name": "wait"}]}]
get_workspace().set_default_model(scripted_model(script))
async def wait() -> str:
    "Wait."
    await asyncio.Event().wait()"""
PROMPT = "%%planck --tools kernel,wait --allow run_python\nDraw."
IS_DRAWN = "image => image.complete && image.naturalWidth > 300 && image.getBoundingClientRect().height > 100"

# The parts that make a view scroll sideways.
WIDER = """view => view.scrollWidth <= view.clientWidth ? [] : [...view.querySelectorAll('*')]
    .filter(part => part.getBoundingClientRect().right > view.getBoundingClientRect().right)
    .map(part => part.outerHTML.slice(0, 120))"""


def test_a_figure_is_shown_below_its_call_while_the_run_goes_on(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("figure-480.ipynb", SETUP, PROMPT), width=480)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)  # the first import of matplotlib makes a list of all fonts
    notebook.run_only(1)
    output = notebook.output(1)
    card = output.locator(".pk-tool", has_text="run_python")
    image = output.locator(".pk-figure img")
    expect(image).to_be_visible()
    expect(output.locator(".pk-status strong")).to_have_text("Running wait")
    expect(card).not_to_have_attribute("open", "")  # the figure is below the line, its code is folded
    assert image.get_attribute("alt") == "Image from run_python"
    source = image.get_attribute("src") or ""
    assert source.startswith("data:image/png;base64,")
    notebook.page.wait_for_function(IS_DRAWN, arg=image.element_handle())
    assert output.locator(".pk-view").evaluate(WIDER) == [], "a figure is never wider than the view"
    output.locator(".pk-dock").scroll_into_view_if_needed()
    notebook.screenshot("live-figure-480")
    output.locator(".pk-stop").click()
    notebook.wait_idle()
    bundle = notebook.outputs(1)[-1]["data"]
    assert source in "".join(bundle["text/html"])
    assert source not in "".join(bundle["text/markdown"])
