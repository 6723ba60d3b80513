"""In JupyterLab: tables and HTML that calls return, live and saved; hostile HTML runs and loads nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect
from support.listener import Listener

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """%load_ext planck_nb
import pandas as pd
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
orders = pd.DataFrame({"month": ["January", "March"], "orders": [16244, 9980], "revenue": [553011.5, 376592.0]})
def call(code):
    return {"calls": [{"name": "run_python", "arguments": {"code": code}}]}
get_workspace().set_default_model(scripted_model([
    call("print('two months'); orders"), call("orders.style.highlight_max(color='gold', subset=['orders'])"),
    call("from evil import Evil; Evil()"), {"calls": [{"name": "wait", "arguments": {}}]}, "The end."]))
import asyncio
go = asyncio.Event()
async def wait() -> str:
    "Wait."
    await go.wait()
    return "ok"
"""
RUN = "%%planck --tools kernel,wait --allow run_python\nShow me."
EVIL = """class Evil:
    def _repr_html_(self):
        return (
            "<script>parent.hurt = 1</script><img src={url}/1 onerror='top.hurt = 1'><svg onload='top.hurt = 1'></svg>"
            "<meta http-equiv=refresh content='0;url={url}/2'><style>@import '{url}/3'; p {{background: url({url}/4)}}"
            "</style><a href='{url}/5' target=_top>click</a><form action='{url}/6'><button>send</button></form>"
            "<iframe src='{url}/7'></iframe><base href='{url}/8/'><p>evil but shown</p>"
        )
"""


def test_tables_and_html_of_calls_live_and_saved(lab: Lab, open_notebook: Open) -> None:
    listener = Listener()
    (lab.root / "evil.py").write_text(EVIL.replace("{url}", listener.url).replace("{{", "{").replace("}}", "}"))
    notebook = open_notebook(lab.write("previews.ipynb", SETUP, RUN), height=1500)
    notebook.run_all()
    output = notebook.output(1)
    live = output.locator(".pk")
    table = live.locator(".pk-frame")
    expect(table.locator("thead :is(th, td)")).to_have_text(["", "month", "orders", "revenue"])
    expect(table.locator("tbody tr").nth(1)).to_have_text("1March9980376592.0")
    assert table.locator("thead th").nth(1).get_attribute("title") == "int64"
    assert table.locator("tbody td").nth(1).evaluate("cell => getComputedStyle(cell).textAlign") == "end"
    expect(live.locator(".pk-preview")).to_contain_text("2 rows, 3 columns")
    first = live.locator(".pk-tool").first
    expect(first.locator(".pk-well").last).to_have_text("two months", use_inner_text=True)
    expect(live.locator("iframe")).to_have_count(2)
    frames = live.locator("iframe").evaluate_all(
        "frames => frames.map(frame => [frame.getAttribute('sandbox'), frame.contentDocument, frame.offsetHeight])"
    )
    assert [[*frame[:2], 0 < frame[2] <= 320] for frame in frames] == [["", None, True]] * 2
    styled = live.frame_locator("iframe").first
    expect(styled.locator("td", has_text="16244")).to_have_css("background-color", "rgb(255, 215, 0)")
    expect(live.frame_locator("iframe").last.locator("p")).to_have_text("evil but shown")
    assert live.frame_locator("iframe").last.locator("script, img[src], a[href], form, iframe, base").count() == 0
    notebook.screenshot("previews-live-light")
    notebook.theme("JupyterLab Dark")
    notebook.screenshot("previews-live-dark")
    notebook.theme("JupyterLab Light")
    notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        ".requestExecute({code: 'go.set()'}, false, null) && null"
    )
    live.locator(".pk-stop").click()
    expect(output.locator(".pk-folded")).to_be_visible()
    saved = output.locator(".jp-RenderedHTML")
    number = saved.locator("table").first.locator("td", has_text="16244")
    expect(number).to_have_css("text-align", "right")
    expect(saved.locator("table").nth(1).locator("td", has_text="16244")).to_have_css(
        "background-color", "rgb(255, 215, 0)"
    )
    expect(saved).to_contain_text("evil but shown")
    assert saved.locator("script, iframe, a[href], form, svg:not(.pk-i)").count() == 0
    edges = saved.locator(".pk-body").first.locator(".pk-well, table")
    assert len(set(edges.evaluate_all("boxes => boxes.map(box => Math.round(box.getBoundingClientRect().left))"))) == 1
    [style] = saved.locator("style").all_text_contents()
    assert re.fullmatch(r"[^{}]*\.planck-run-1\)[^{}]*\{display:none\}", style)  # our own, for a later kernel
    notebook.screenshot("previews-saved-light")
    notebook.wait_idle()
    bundle = notebook.outputs(1)[-1]["data"]
    assert "DataFrame, 2 rows x 3 columns" in "".join(bundle["text/markdown"])
    assert "evil.invalid" not in json.dumps(bundle)
    assert notebook.page.evaluate("[window.hurt, top.hurt]") == [None, None]
    assert listener.connections == 0
    listener.close()
    notebook.save()
