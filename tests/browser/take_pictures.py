"""Pictures of runs, their last live frame and their end, for people to look at.

They are taken by hand: ``PLANCK_NB_SCREENSHOTS=1 python -m pytest -q -s tests/browser/take_pictures.py`` writes them
into `tests/screenshots`, checks that nothing is wider than its view, and prints what an end shows otherwise than the
last frame before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from browser import test_team_view
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

WIDTHS = (1400, 1000, 480)
THEMES = ("Light", "Dark")
HEIGHT = 1100

SETUP = r'''
import asyncio, io
import matplotlib
matplotlib.use("agg")
from matplotlib.figure import Figure
from planck_nb.agent import events as ev
from planck_nb.agent.effect import Effect
from planck_nb.ai.messages import (AssistantMessage, ImagePart, TextPart, ThinkingPart, ToolCallPart, ToolResultMessage,
    ToolResultPart, Usage)
from planck_nb.jupyter.live.view import LiveView
from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from scripted_run import ScriptedRun, EDIT, SUITE

ANSWER = r"""Parse each format on its own and join the two. Then nothing is guessed row by row:

```python
iso = pd.to_datetime(orders.date, format="%Y-%m-%d", errors="coerce")
till = pd.to_datetime(orders.date, format="%d/%m/%y", errors="coerce")
orders["date"] = iso.fillna(till)   # the till exports since 1 March
```

The mean is $\bar{x} = \frac{1}{n}\sum x_i$, and 6,331 rows use the second format; see
[the manual](https://pandas.pydata.org).

| month | orders |
|---|---:|
| January | 9,980 |
| March | 3,760 |
"""
DIFF = """Edited sales/load.py.
--- sales/load.py
+++ sales/load.py
@@ -12,4 +12,4 @@
 def load(path):
     df = pd.read_csv(path)
-    df['date'] = pd.to_datetime(df['date'])
+    df['date'] = parse_date(df['date'])
     return df
"""
THOUGHT = "The dates come in two formats. So the parser guesses per row."
PLOT = "import matplotlib.pyplot as plt\nprint('3 months')\nplt.bar(months, revenue)\nplt.show()"

def drawn():
    figure = Figure(figsize=(4, 2))
    figure.subplots().bar(["Jan", "Feb", "Mar"], [2.2, 2.4, 1.5])
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return ImagePart(file.getvalue())

def say(run, text, *calls, thought=""):
    if thought:
        run.thinking(thought)
    run.text(text)
    thoughts = (ThinkingPart(thought),) if thought else ()
    parts = (*thoughts, TextPart(text), *(ToolCallPart(*call) for call in calls))
    run.add(ev.MessageAppended, id=run._seq, message=AssistantMessage(parts, "tool_use" if calls else "stop"))
    run.add(ev.UsageDelta, delta=Usage(4_100, 96), total=Usage(4_100, 96), cost=0.0143, total_cost=0.0143)

def answered(run):
    say(run, ANSWER, thought=THOUGHT)

def called(run):
    made = [("1", "read", {"path": "sales/load.py"}), ("2", "edit", {"path": "sales/load.py", "old_string": "x",
        "new_string": "y"}), ("3", "edit", {"path": "sales/load.py", "old_string": "df['date'] = x",
        "new_string": "y"}), ("4", "bash", {"command": "pytest -q tests/"})]
    say(run, "I look at the loader first.", *made, thought=THOUGHT)
    results = [("1", "def load(path): ...", False), ("2", "The text to replace is not in the file.", True),
        ("3", DIFF, False), ("4", "96 passed in 21.8s", False)]
    for call in made:
        run.tool(*call)
    names = {call: name for call, name, _ in made}
    for call, text, error in results:
        run.result(call, names[call], text, error=error)
    parts = tuple(ToolResultPart(call, names[call], text, is_error=error) for call, text, error in results)
    run.add(ev.MessageAppended, id=run._seq, message=ToolResultMessage(parts))
    run.steered("q", "And use euros, please.")
    say(run, "The loader reads both formats, and all 96 tests pass.")

def plotted(run):
    call = ("1", "run_python", {"code": PLOT})
    say(run, "", call)
    run.tool(*call)
    run.result("1", "run_python", "3 months\n[image 400x200 png]")
    part = ToolResultPart("1", "run_python", "3 months\n[image 400x200 png]", images=(drawn(),))
    run.add(ev.MessageAppended, id=run._seq, message=ToolResultMessage((part,)))
    say(run, "March is lowest.")

def asked(run):
    say(run, "Two steps need your consent.", ("1", "edit", EDIT), ("2", "bash", SUITE))
    for call, name, args, effect in (("1", "edit", EDIT, Effect("write", "sales/load.py")),
            ("2", "bash", SUITE, Effect("execute", SUITE["command"]))):
        run.tool(call, name, args)
        run.ask(call, name, args, effect, seconds=3000)

def begun(run):
    say(run, "The series has a weekly cycle with a peak on Saturdays. What remains is a slow rise from",
        ("1", "bash", {"command": "python build_features.py --part customers"}))
    run.tool("1", "bash", {"command": "python build_features.py --part customers"})
    run.progress("1", "bash", "customers 1 of 3\n")

def over(run):
    run.end()

def stopped(run):
    run.add(ev.Aborted)
    run.log.close()

def cut(run):
    run.add(ev.Error, kind="StreamTruncated", reason="api.example.com closed the connection after 1,204 tokens.")
    run.log.close()

def failed(run):
    run.add(ev.Error, kind="MissingCredentialError", reason="`ANTHROPIC_API_KEY` is not set; set it first.")
    run.log.close()

async def show(begin, end, outcome="done", number=[0]):
    number[0] += 1
    marker = f"planck-run-{number[0]}"
    run = ScriptedRun()
    view = LiveView(run.log, agent="analyst", actions=run, marker=marker)
    display(view)
    run.start()
    begin(run)
    await run.stopped.wait()
    end(run)
    transcript = transcript_of("analyst", "demo:scripted", run.log.since(0))
    data, metadata = Answer(transcript).mime_bundle(marker)
    display(data, raw=True, metadata=metadata)
    summary = {**run.summary(outcome), "trouble": transcript.trouble, "ending": transcript.ending,
        "spent": transcript.spent, "text": "x"}
    if outcome == "failed":
        summary["key_variable"] = "ANTHROPIC_API_KEY"
    view.finish(summary, saved=True)
'''
SCENES = {
    "text": "await show(answered, over)",
    "calls": "await show(called, over)",
    "plot": "await show(plotted, over)",
    "approval": "await show(asked, stopped, 'stopped')",
    "stopped": "await show(begun, stopped, 'stopped')",
    "cut": "await show(lambda run: say(run, 'The series has a weekly cycle with a'), cut, 'cut off')",
    "failed": "await show(lambda run: None, failed, 'failed')",
}
TOO_WIDE = """output => [...output.querySelectorAll('.pk *')].filter(part => {
    const view = part.closest('.pk').getBoundingClientRect();
    const box = part.getBoundingClientRect();
    const scrolled = part.parentElement.closest(
        '.pk-well, .pk-scroll, .pk-diff, .pk-math, .pk-menu, .pk-sr, math, .pk-what, .pk-doing, .pk-who, .pk-now');
    return box.width > 0 && !scrolled && !part.matches('.pk-sr, .pk-i *') && box.right > view.right + 1;
}).map(part => part.outerHTML.slice(0, 120))"""
PARTS = """output => Object.fromEntries([...output.querySelectorAll('.pk-bar, .pk-status, .pk-line, .pk-prose > *, ' +
    '.pk-tools, .pk-code pre, .pk-said, .pk-figure, .pk-diff, td, code span')]
    .filter(part => part.checkVisibility())
    .map(part => {
        const box = part.getBoundingClientRect(), style = getComputedStyle(part);
        const kind = part.className.toString().split(' ')[0] || part.tagName.toLowerCase();
        const text = /bar|status/.test(kind) ? '' : part.innerText.trim().replaceAll(/\\s+/g, ' ').slice(0, 40);
        return [`${kind.replace('pk-status', 'pk-bar')} ${text}`, {
            left: Math.round(box.left), width: Math.round(box.width), height: Math.round(box.height),
            colour: style.color, font: style.font.slice(0, 60)}];
    }))"""


def looks(notebook: Notebook, cell: int, name: str) -> None:
    """Take the pictures of a cell in all widths and themes, and check that nothing is too wide."""
    output = notebook.output(cell)
    for theme in THEMES:
        notebook.theme(f"JupyterLab {theme}")
        for width in WIDTHS:
            notebook.page.set_viewport_size({"width": width, "height": HEIGHT})
            notebook.page.evaluate(f"() => window.jupyterapp.shell.currentWidget.content.scrollToItem({cell}, 'start')")
            notebook.page.wait_for_timeout(300)
            notebook.screenshot(f"{name}-{theme.lower()}-{width}")
            assert output.evaluate(TOO_WIDE) == [], (name, theme, width)
    notebook.theme("JupyterLab Light")
    notebook.page.set_viewport_size({"width": 1000, "height": HEIGHT})
    notebook.page.wait_for_timeout(500)


def differences(live: dict[str, Any], ended: dict[str, Any]) -> list[str]:
    gone = [f"only live: {part}" for part in live if part not in ended]
    new = [f"only at the end: {part}" for part in ended if part not in live]
    changed = [
        f"{part}: {key} {live[part][key]} -> {ended[part][key]}"
        for part in live
        if part in ended
        for key in live[part]
        if live[part][key] != ended[part][key]
    ]
    return [*gone, *new, *changed]


@pytest.mark.parametrize("scene", SCENES)
def test_live_and_ended(lab: Lab, open_notebook: Open, scene: str) -> None:
    notebook = open_notebook(lab.write(f"picture-{scene}.ipynb", SETUP, SCENES[scene]), height=HEIGHT)
    notebook.run_first(2)
    output = notebook.output(1)
    expect(output.locator(".pk-stop")).to_be_visible()
    notebook.page.wait_for_timeout(1500)
    looks(notebook, 1, f"{scene}-live")
    live = output.evaluate(PARTS)
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_be_visible()
    notebook.wait_idle(cells=2)
    notebook.page.wait_for_timeout(800)
    ended = output.evaluate(PARTS)
    looks(notebook, 1, f"{scene}-ended")
    print(json.dumps({scene: differences(live, ended)}, indent=1, ensure_ascii=False))


def test_team(lab: Lab, open_notebook: Open) -> None:
    notebook = test_team_view.start(lab, open_notebook, "picture-team")
    looks(notebook, 1, "team-live")
    test_team_view.lane(notebook, "ingest").click()
    looks(notebook, 1, "team-open")
    test_team_view.let_go(notebook)
    notebook.page.wait_for_timeout(800)
    looks(notebook, 1, "team-ended")
    notebook.output(1).locator("summary", has_text="How it was made").click()
    looks(notebook, 1, "team-made")
