"""In JupyterLab: payloads run and load nothing in the live view, in outputs and in tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect
from support.hostile_session import previews, turn
from support.listener import Listener
from support.payloads import payloads

from planck_nb.jupyter.transcript.transcript import Transcript
from planck_nb.rendering.blocks import Execution, Notice

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """import json
import pandas as pd
from IPython.display import display
from planck_nb.agent import events as ev
from planck_nb.agent.preview_types import HtmlPreview, TablePreview
from planck_nb.agent.effect import Effect
from planck_nb.jupyter.live.view import LiveView
from scripted_run import ScriptedRun
texts = json.load(open("payloads.json"))
bundles = json.load(open("bundles.json"))"""
LIVE = """run = ScriptedRun()
display(LiveView(run.log, agent=" ".join(texts), actions=run))
run.start()
for number, text in enumerate(texts):
    run.add(ev.Warned, text=text)
    run.thinking(text)
    run.text(text + "\\n\\n")
    run.tool(str(number), text, {text: text, "path": text})
    table = TablePreview("", (text,), (text,), (False,), 0, ((text,),), 1, 1)
    run.add(ev.ToolPreview, id=str(number), name=text, tables=(table,), documents=(HtmlPreview("", text),))
    run.result(str(number), text, text, error=number % 2 == 0)
for number, text in enumerate(texts[::25]):
    run.ask(f"a{number}", text, {text: text, "command": text}, Effect("execute", text))"""
OUTPUTS = """display(pd.DataFrame({text: texts for text in texts[:10]}))
for kind in ("text/html", "text/markdown"):
    display({kind: "\\n\\n".join(bundle[kind] for bundle in bundles)}, raw=True)"""
INSPECTED = """() => {
    const inside = selector => [...document.querySelectorAll(`.jp-OutputArea ${selector}`)];
    const handlers = inside('*').flatMap(element => [...element.attributes])
        .filter(attribute => attribute.name.startsWith('on'));
    const links = inside('a[href]').filter(link => !['http:', 'https:', 'mailto:'].includes(link.protocol));
    return [window.ran, handlers.map(attribute => attribute.value), links.map(link => link.outerHTML)];
}"""


def bundle(text: str) -> dict[str, str]:
    messages = turn(text)
    entries = (Notice(text), *messages[1:3], Execution("1", previews=previews(text)), *messages[3:4])
    return Transcript(text, text, "failed", entries, None, None, text, 0.0, (text,)).bundle()


def test_nothing_runs_or_loads_in_jupyterlab(lab: Lab, open_notebook: Open) -> None:
    listener = Listener()
    texts = payloads(listener.url)
    (lab.root / "payloads.json").write_text(json.dumps(texts), encoding="utf-8")
    (lab.root / "bundles.json").write_text(json.dumps([bundle(text) for text in texts]), encoding="utf-8")
    notebook = open_notebook(lab.write("payloads.ipynb", SETUP, LIVE, OUTPUTS))
    notebook.page.evaluate("() => { window.ran = []; window.fired = number => { window.ran.push(number); }; }")
    notebook.run_all()
    notebook.wait_idle()
    notebook.screenshot("payloads")
    expect(notebook.output(1)).to_contain_text("<script>fired(0)</script>")
    expect(notebook.output(2).locator(".jp-RenderedMarkdown")).to_contain_text("fired(98)")
    assert notebook.page.evaluate(INSPECTED) == [[], [], []]
    assert listener.connections == 0
    # What an unsafe renderer would have inserted is found.
    html = (
        f"<img src={listener.url}/x onload=fired(1)><img src=data: onerror=fired(2)><a href=javascript:fired(3)>x</a>"
    )
    notebook.page.evaluate(
        "html => document.querySelector('.jp-OutputArea').insertAdjacentHTML('beforeend', html)", html
    )
    notebook.page.wait_for_function("() => window.ran.length")
    ran, handlers, links = notebook.page.evaluate(INSPECTED)
    assert (ran, handlers, len(links)) == ([2], ["fired(1)", "fired(2)"], 1)
    assert listener.connected.wait(30)
    listener.close()
