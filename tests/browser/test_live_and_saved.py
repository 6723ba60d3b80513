"""In JupyterLab: the same runs, rendered live and saved, have the same content in the same places."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = '''import asyncio
from planck_nb.agent import events as ev
from planck_nb.agent.effect import Effect
from planck_nb.agent.preview_types import TablePreview
from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from scripted_run import BYTES, MARKDOWN, ScriptedRun
DIFF = """Edited a.py.
--- a.py
+++ a.py
@@ -1,2 +1,2 @@
 import b
-x = 1
+x = $2
"""
def reply(run, text, *calls):
    run.text(text)
    run.reply(text, *calls)
def prose(run):
    rest = "> quoted **text**\\n\\n1. one\\n2. two\\n   - inner $5\\n\\n# Heading\\n\\n~~gone~~ `a < b`\\n"
    reply(run, MARKDOWN + rest)
def calls(run):
    made = [("1", "bash", {"command": "ls -l", "timeout": 60}), ("2", "read", {"path": "data.bin"}),
        ("3", "edit", {"path": "a.py", "old_string": "x = 1", "new_string": "x = $2"}),
        ("4", "frame", {"name": "orders"})]
    reply(run, "Four calls.", *made)
    for call in made:
        run.tool(*call)
    table = TablePreview("t", ("", "month", "orders"), ("index", "str", "int64"), (True, False, True), 1,
        (("0", "January", "$5"), ("1", "March", "9980")), 2, 2)
    run.add(ev.ToolPreview, id="4", name="frame", tables=(table,), documents=())
    results = (("1", "bash", "a.txt\\nb.txt"), ("2", "read", BYTES), ("3", "edit", DIFF), ("4", "frame", "t"))
    for call, name, text in results:
        run.result(call, name, text, error=call == "2")
    from planck_nb.ai.messages import ToolResultMessage, ToolResultPart
    parts = tuple(ToolResultPart(*result, is_error=result[0] == "2") for result in results)
    run.add(ev.MessageAppended, id=run._seq, message=ToolResultMessage(parts))
    reply(run, "That is all.")
def many(run):
    made = [(str(at), "read", {"path": f"part_{at}.csv"}) for at in range(20)]
    reply(run, "Many.", *made)
    for call in made:
        run.tool(*call)
        run.result(call[0], "read", f"rows of {call[0]}")
    run.results(*[(call, name, f"rows of {call}") for call, name, _ in made])
    reply(run, "Read.")
def said(run):
    reply(run, "First.")
    run.steered("q", "Only March,\\nplease.")
    reply(run, "Second.")
FIXTURES = [prose, calls, many, said]
runs = []
for fixture in FIXTURES:
    run = ScriptedRun()
    run.start()
    fixture(run)
    runs.append(run)'''
SHOW = "display(runs[{0}].view())"
SAVED = """from planck_nb.agent.events import TurnEnd
runs[{0}].end()
display(Answer(transcript_of("analyst", "demo:scripted", runs[{0}].log.since(0))).mime_bundle()[0], raw=True)"""
CONTENT = """root => {
    for (const details of root.querySelectorAll('details')) details.open = true;
    const shown = root.querySelectorAll('p, li, pre, tr, h1, h2, h3, blockquote, summary, .pk-said, .pk-diff > div');
    const leaves = [...shown].filter(one => !one.querySelector('p, li, pre, tr, h1, h2, h3, summary'));
    const text = one => {
        const copy = one.cloneNode(true);
        const extras = '.pk-meta, .pk-sr, .pk-label, :scope > i, summary > span:last-child:not(.pk-what)';
        for (const extra of copy.querySelectorAll(extras)) extra.remove();
        return copy.textContent.replaceAll(/\\s+/g, '');
    };
    const isDiff = one => one.matches('pre') && one.querySelector(':scope > span[style*=block]');
    const lines = leaves.flatMap(one => isDiff(one) ? [...one.children] : [one]);
    return lines.map(text).filter(line => line !== '' && !/^(@@.*@@|line\\d+)$/.test(line)); // where a change begins
}"""
EDGES = """root => ['p', 'pre', 'li', 'table', 'summary'].map(tag => {
    const last = [...root.querySelectorAll(tag)].at(-1);
    return last ? Math.round(last.getBoundingClientRect().left) : null;
})"""
LABELS = {"timeout", "result", "old_string", "new_string"}
"""Names of boxes, which are inside them live and above them when saved."""


def test_whole_transcripts_have_the_same_content(lab: Lab, open_notebook: Open) -> None:
    names = ["prose", "calls", "many", "said"]
    cells = [cell.format(at) for at in range(len(names)) for cell in (SHOW, SAVED)]
    notebook = open_notebook(lab.write("same.ipynb", SETUP, *cells), height=6000)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    for at, name in enumerate(names):
        notebook.run_only(1 + 2 * at)
        live = notebook.output(1 + 2 * at).locator(".pk-view > .pk-flow")
        expect(live.locator("> *").last).to_be_visible()
        shown = [line for line in live.evaluate(CONTENT) if line not in LABELS]
        edges = live.evaluate(EDGES)
        notebook.run_only(2 + 2 * at)
        saved = notebook.output(2 + 2 * at).locator(".jp-RenderedHTML")
        expect(saved.locator("p").first).to_contain_text("analyst")
        kept = [line for line in saved.evaluate(CONTENT) if line not in LABELS][1:]  # behind the line of figures
        assert len(shown) >= 3, name
        assert kept == shown, name
        for here, there in zip(edges, saved.evaluate(EDGES), strict=True):
            assert here is None or there is None or abs(here - there) <= 3, (name, edges)
    notebook.screenshot("live-and-saved")


# In JupyterLab: limits that were set and the alias of the model, live and saved in the same words.

LIMITS_SETUP = """%load_ext planck_nb
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
LIMITS_PROMPT = "%%planck --tools wait\nGo."


def test_a_limit_and_an_alias_are_the_same_live_and_saved(lab: Lab, open_notebook: Open) -> None:
    change = "settings = %planck config tokens=90000, cost=none"
    notebook = open_notebook(lab.write("limits.ipynb", LIMITS_SETUP, LIMITS_PROMPT, change, LIMITS_PROMPT))
    notebook.run_first(2)
    live = notebook.output(1).locator(".pk-status")
    expect(live.locator(".pk-cost")).to_contain_text(" of $0.200")
    cost = live.locator(".pk-cost").inner_text()
    expect(live.locator(".pk-model")).to_have_text("quick")
    expect(live.locator(".pk-model")).to_be_visible()
    notebook.output(1).locator(".pk-dock").scroll_into_view_if_needed()
    notebook.screenshot("limits")
    notebook.output(1).locator(".pk-stop").click()
    expect(notebook.output(1).locator(".pk-bar .pk-cost")).to_have_text(cost)
    assert f" · {cost} · quick" in str(notebook.outputs(1))

    notebook.wait_idle(cells=2)
    notebook.run_only(2)
    notebook.run_only(3)
    live = notebook.output(3).locator(".pk-status")
    tokens = live.locator(".pk-tokens")
    expect(tokens).to_contain_text(" of 90.0k tokens")
    expect(live).not_to_contain_text("of $")
    count = tokens.inner_text()
    notebook.output(3).locator(".pk-stop").click()
    notebook.wait_idle()
    assert f" · {count} · " in str(notebook.outputs(3))
