from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = "import asyncio\nfrom pathlib import Path\nfrom scripted_run import ScriptedRun, stream, tour, words"
TOUR = """run = ScriptedRun()
view = run.view()
display(view)
await tour(run, Path("thought-seen"))
await run.stopped.wait()
run.result("3", "bash", "interrupted", error=True)
run.end()
view.finish(run.summary("stopped"))
print("stopped")"""


def forming(notebook: Notebook) -> None:
    """Wait until the tour has come to its end."""
    expect(notebook.output(1).locator(".pk-tool[data-state=form] .pk-well")).to_contain_text("return")


def test_a_run_streams_and_stop_reaches_the_kernel(lab: Lab, open_notebook: Open) -> None:
    thought_seen = lab.root / "thought-seen"
    thought_seen.unlink(missing_ok=True)
    notebook = open_notebook(lab.write("tour.ipynb", SETUP, TOUR))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-status strong")).to_have_text("Thinking")
    thought_seen.touch()
    forming(notebook)
    expect(output.locator(".pk-tool[data-state=form] .pk-what")).to_have_text("editsales/load.py")
    expect(output.locator(".pk-think .pk-what")).to_have_text(re.compile(r"^Thought \d+ s"))
    assert output.locator(".pk-prose strong").all_inner_texts() == ["monthly totals", "two formats"]
    assert output.locator(".pk-prose li").count() == 2
    assert output.locator(".pk-prose td").all_inner_texts() == ["March", "9,980"]
    states = output.locator(".pk-tool").evaluate_all("tools => tools.map(tool => tool.dataset.state)")
    assert states == ["done", "bad", "run", "form"]
    expect(output.locator(".pk-tokens")).to_contain_text("k tokens")
    notebook.screenshot("live-light")
    notebook.theme("JupyterLab Dark")
    notebook.screenshot("live-dark")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")
    notebook.wait_idle()
    assert notebook.printed(1) == "stopped\n"
    facts = output.locator(".pk-bar .pk-now > :not(:empty)").all_text_contents()
    assert facts[:1] + facts[2:3] == ["Stopped", "41.2 s"]
    assert output.locator(".pk-view, .pk-dock").count() == 0
    expect(output.locator(".pk-bar")).to_be_in_viewport()
    notebook.screenshot("folded-dark")
    notebook.theme("JupyterLab Light")


def test_a_narrow_window_keeps_what_matters(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("narrow.ipynb", SETUP, TOUR), width=480)
    (lab.root / "thought-seen").touch()
    notebook.run_all()
    forming(notebook)
    output = notebook.output(1)
    output.locator(".pk-stop").scroll_into_view_if_needed()
    notebook.screenshot("live-480")
    edge = output.locator(".pk").bounding_box()
    assert edge is not None
    for part in output.locator(".pk-line, .pk-well, .pk-prose, .pk-status, .pk-stop").all():
        box = part.bounding_box()
        assert box is None or box["x"] + box["width"] <= edge["x"] + edge["width"] + 1
    output.locator(".pk-view").press("Control+.")
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")
    notebook.wait_idle()
    notebook.screenshot("folded-480")


def test_prompts_that_come_back_with_the_end_of_the_run_are_not_lost(lab: Lab, open_notebook: Open) -> None:
    stopped = (
        "run = ScriptedRun()\nview = run.view()\ndisplay(view)\nrun.start()\nrun.queue('from the queue')\n"
        "await run.stopped.wait()\n"
        "from planck_nb.agent.events import Unqueued\n"
        "[queued] = [event for event in run.log.since(0) if event.type == 'queued']\n"
        "run.add(Unqueued, prompt_id=queued.prompt_id, removed=True, returned=True)\n"
        "run.end()\nview.finish(run.summary('stopped'))"
    )
    notebook = open_notebook(lab.write("returned-at-once.ipynb", SETUP, stopped))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-queue li")).to_have_count(1)
    output.get_by_label("Steer or queue").fill("from the field")
    # A busy page paints no more before the run is over.
    notebook.page.evaluate("() => { window.painting = requestAnimationFrame; window.requestAnimationFrame = () => 1; }")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-unsent")).to_have_text("Not sent: from the queue\n\nfrom the field")
    notebook.page.evaluate("() => { window.requestAnimationFrame = window.painting; }")
    notebook.wait_idle()


def test_a_reload_shows_the_run_again_and_goes_on(lab: Lab, open_notebook: Open) -> None:
    cell = """run = ScriptedRun()
view = run.view()
display(view)
run.start()
run.text("Before the reload. ")
await run.stopped.wait()
run.stopped.clear()
run.text("After it.")
await run.stopped.wait()
view.finish(run.summary("stopped"))"""
    notebook = open_notebook(lab.write("reload.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-prose")).to_have_text("Before the reload.")
    notebook.save()
    notebook.reload()
    expect(output.locator(".pk-prose")).to_have_text("Before the reload.")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-prose")).to_have_text("Before the reload. After it.")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")


@pytest.mark.parametrize(
    ("newline_every", "burst", "pause"),
    [pytest.param(0, 100, 0.01, id="one-paragraph"), pytest.param(40, 4, 0, id="many-paragraphs-at-once")],
)
def test_fifty_thousand_deltas_all_show_in_order(
    lab: Lab, open_notebook: Open, newline_every: int, burst: int, pause: float
) -> None:
    """How smooth they are is measured by `bench_views.py`."""
    cell = f"""run = ScriptedRun()
view = run.view()
sent = []
send = view.send
view.send = lambda *sending: (sent.append(asyncio.get_running_loop().time()), send(*sending))
display(view)
await stream(run, 50_000, newline_every={newline_every}, burst={burst}, pause={pause})
run.end()
await run.stopped.wait()
view.finish(run.summary())
print(len(sent), sent[-1] - sent[0])"""
    notebook = open_notebook(lab.write(f"deltas{newline_every}.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-status strong")).to_have_text("Done")
    shown = output.locator(".pk-prose").inner_text()
    assert [int(word) for word in re.findall(r"\d+", shown)] == list(range(50_000))
    output.locator(".pk-stop").click()
    notebook.wait_idle()
    messages, seconds = map(float, notebook.printed(1).split())
    assert messages <= 30 * seconds + 5


def test_text_of_models_does_nothing_but_show(lab: Lab, open_notebook: Open) -> None:
    cell = """run = ScriptedRun()
view = run.view()
display(view)
run.start()
run.text('''<script>window.hurt = 1</script> <img src=x onerror="window.hurt = 1">

[a](javascript:window.hurt=1) [b](/lab?reset) [c](https://example.invalid/c)

![image](https://example.invalid/p.png "t") ''')
run.args("1", "<img src=x onerror=window.hurt=1>", '{"path": "<b onclick=1>')
await run.stopped.wait()
view.finish(run.summary("stopped"))"""
    notebook = open_notebook(lab.write("hostile.ipynb", SETUP, cell))
    asked: list[str] = []
    notebook.page.on("request", lambda request: asked.append(request.url))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-prose")).to_contain_text("<script>window.hurt = 1</script>")
    expect(output.locator(".pk-tool .pk-what")).to_contain_text("<img")
    links = output.locator(".pk-prose a").evaluate_all("links => links.map(link => [link.textContent, link.href])")
    assert links == [["c", "https://example.invalid/c"], ["image", "https://example.invalid/p.png"]]
    assert output.locator("img, script").count() == 0
    assert notebook.page.evaluate("window.hurt") is None
    assert not [url for url in asked if "example.invalid" in url]
    output.locator(".pk-stop").click()
    notebook.wait_idle()


def test_the_window_follows_the_tail_until_one_reads(lab: Lab, open_notebook: Open) -> None:
    cell = """run = ScriptedRun()
view = run.view()
display(view)
run.start()
for at in range(80):
    run.text(f"Paragraph {at}\\n\\n")
await run.stopped.wait()
run.stopped.clear()
run.text("One more\\n\\nThe last")
await run.stopped.wait()
view.finish(run.summary("stopped"))"""
    notebook = open_notebook(lab.write("follow.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    window, latest = output.locator(".pk-view"), output.locator(".pk-tail button")
    below = "box => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight)"
    expect(output.locator(".pk-prose")).to_contain_text("Paragraph 79")
    assert window.evaluate(below) == 0
    expect(latest).to_be_hidden()
    window.hover()
    notebook.page.mouse.wheel(0, -400)
    expect(latest).to_be_visible()
    place = window.evaluate("box => box.scrollTop")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-prose")).to_contain_text("The last")
    assert window.evaluate("box => box.scrollTop") == place
    notebook.screenshot("scrolled-up")
    latest.click()
    assert window.evaluate(below) == 0
    expect(latest).to_be_hidden()
    output.locator(".pk-stop").click()
    notebook.wait_idle()


def test_a_view_whose_kernel_cannot_hear_still_shows_the_run(lab: Lab, open_notebook: Open) -> None:
    cell = """import nest_asyncio2
nest_asyncio2.apply()
run = ScriptedRun()
view = run.view()
display(view)

async def blocked():
    run.start()
    run.text("Said while the kernel was blocked.")
    for _ in range(30):
        await asyncio.sleep(0.1)
    run.end()
    view.finish(run.summary())

asyncio.get_event_loop().run_until_complete(blocked())"""
    notebook = open_notebook(lab.write("nested.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-prose")).to_have_text("Said while the kernel was blocked.")
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()


GONE = """import os
from planck_nb.agent.effect import Effect
run = ScriptedRun()
view = run.view()
display(view)
run.start()
run.thinking("March may be short.")
run.text("I run the suite. ")
run.reply("", ("1", "bash", {"command": "pytest -q"}))
run.tool("1", "bash", {"command": "pytest -q"})
run.progress("1", "bash", "31 passed\\n")
run.queue("Then plot it")
run.ask("2", "write", {"path": "a.txt"}, Effect("write", "a.txt"))
await run.stopped.wait()
os._exit(1)"""
ENDS = {
    "dies": "document.querySelector('.pk-stop').click()",
    "restarts": "void window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()",
    "is shut down": "void window.jupyterapp.shell.currentWidget.sessionContext.shutdown()",
}


@pytest.mark.parametrize("end", [pytest.param("dies", marks=pytest.mark.own_page), "restarts", "is shut down"])
def test_when_the_kernel_ends_the_text_stays_and_nothing_runs(lab: Lab, open_notebook: Open, end: str) -> None:
    notebook = open_notebook(lab.write(f"gone-{end[0]}.ipynb", SETUP, GONE, "print('again')"))
    notebook.run_first(2)
    output = notebook.output(1)
    expect(output.locator(".pk-tool[data-state=run] .pk-well")).to_contain_text("31 passed")
    expect(output.locator(".pk-ask")).to_be_visible()
    output.get_by_label("Steer or queue").fill("Only March")
    notebook.page.evaluate(ENDS[end])
    now = output.locator(".pk-now")
    expect(now).to_have_text("Kernel stopped. The text so far is kept", use_inner_text=True)
    expect(output.locator(".pk-spin, .pk-ask, [data-state=run], .pk-stop:visible, .pk-caret:visible")).to_have_count(0)
    expect(output.locator(".pk-unsent")).to_have_text(["Not sent: Then plot it", "Not sent: Only March"])
    expect(output.locator(".pk-prose")).to_have_text("I run the suite.")
    call = output.locator(".pk-tool").first
    expect(call.locator(".pk-meta")).to_contain_text("stopped")
    assert call.locator(".pk-well").last.text_content() == "31 passed"
    figures = output.locator(".pk-num").all_text_contents()
    if end == "restarts":
        notebook.run_only(2)
        expect(notebook.output(2)).to_have_text("again")
    for look, theme in (("light", "JupyterLab Light"), ("dark", "JupyterLab Dark")):
        notebook.theme(theme)
        notebook.screenshot(f"gone-{end[0]}-{look}")
    notebook.theme("JupyterLab Light")
    assert output.locator(".pk-num").all_text_contents() == figures


STATIC = """
from IPython.display import display
from planck_nb.ai.messages import AssistantMessage, ImagePart, TextPart, ThinkingPart, ToolCallPart
from planck_nb.ai.messages import ToolResultMessage, ToolResultPart, Usage, UserMessage
from planck_nb.jupyter.transcript.transcript import Transcript
from planck_nb.rendering.blocks import Decision, Notice
from scripted_run import BYTES, MARKDOWN
image = ImagePart("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
push = ToolCallPart("9", "bash", {"command": "git push"})
parts = [ToolCallPart(f"p{at}", "read", {"path": f"data/part_{at:02d}.csv"}) for at in range(34)]
messages = (
    AssistantMessage((ThinkingPart("March may be short."), TextPart(MARKDOWN),
        ToolCallPart("1", "run_python", {"code": "orders.date"}), ToolCallPart("2", "bash", {"command": "ls"}), push)),
    Decision("9", denied=True),
    ToolResultMessage((ToolResultPart("1", "run_python", "10 41880", False, (image,)),
        ToolResultPart("2", "bash", BYTES, True), ToolResultPart("9", "bash", "The user denied this call.", True))),
    UserMessage("Only March, please."),
    Notice("What was said before was summarised: 90.1k tokens became 8.2k."),
    AssistantMessage((TextPart("I read all parts."), *parts)),
    ToolResultMessage(tuple(ToolResultPart(part.id, "read", "a,b", part.id == "p3") for part in parts)),
    AssistantMessage((TextPart("All 96 tests pass. <script>window.hurt = 1</script>"),)),
)
transcript = Transcript("analyst", "demo:scripted", "done", messages, Usage(18_000, 400), 0.063, None, 41.2)
display(transcript.bundle(), raw=True, metadata=transcript.metadata())"""


@pytest.mark.own_page
def test_a_saved_notebook_needs_no_kernel(lab: Lab, open_notebook: Open) -> None:
    live = (
        """run = ScriptedRun()
view = run.view()
display(view)
run.start()
run.end()
view.finish(run.summary())"""
        + STATIC
    )
    notebook = open_notebook(lab.write("saved.ipynb", SETUP, live))
    notebook.run_all()
    notebook.wait_idle()
    output = notebook.output(1)
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    expect(output.locator(".jp-RenderedHTML")).to_contain_text("All 96 tests pass.")
    notebook.screenshot("static-under-bar")
    kept = [sorted(entry["data"]) for entry in notebook.outputs(1)]
    assert kept[1] == ["text/html", "text/markdown", "text/plain"]
    notebook.save()
    notebook.reload(kernel=False)
    output = notebook.output(1)
    expect(output).to_contain_text("All 96 tests pass.")
    assert output.locator(".pk").count() == 0
    assert "LiveView" not in output.inner_text()
    assert "Error" not in output.inner_text()
    assert notebook.page.evaluate("window.hurt") is None
    check_styles(output.locator(".jp-RenderedHTML").last)
    output.get_by_text("All 96 tests pass.").scroll_into_view_if_needed()
    notebook.screenshot("static-saved-light")
    notebook.theme("JupyterLab Dark")
    notebook.screenshot("static-saved-dark")
    notebook.theme("JupyterLab Light")


def check_styles(transcript: Any) -> None:
    """JupyterLab's sanitizer has left the inline styles in place."""
    well = transcript.locator("pre").first
    assert well.evaluate("pre => getComputedStyle(pre).padding") == "8px 12px"
    assert well.evaluate("pre => getComputedStyle(pre).borderRadius") == "4px"
    assert transcript.locator("td").last.evaluate("cell => getComputedStyle(cell).textAlign") == "right"
    assert transcript.locator("img").evaluate("image => [image.complete, image.naturalWidth]") == [True, 1]
    assert transcript.locator("summary span").first.evaluate("span => getComputedStyle(span).opacity") == "0.7"
