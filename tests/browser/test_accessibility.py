"""In JupyterLab: axe-core finds nothing in any state of the view; every control is used by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browser import test_team_view
from playwright.sync_api import expect
from support.node import LABEXTENSION, build_script

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window


STATES = f"""{test_team_view.SETUP}
from scripted_run import ScriptedRun, ask_twice, tour, work, MARKDOWN
from planck_nb.agent import events as ev
from planck_nb.agent.preview_types import HtmlPreview, TablePreview
from planck_nb.ai.messages import AssistantMessage, TextPart
from planck_nb.jupyter.transcript.answer import transcript_of
import time, asyncio
def view_of(run, **named):
    return LiveView(run.log, agent="analyst", actions=run, **named)"""
RUNNING = """running = ScriptedRun()
display(view_of(running))
table = TablePreview("t", ("", "month", "orders"), ("index", "str", "int64"), (True, False, True), 1,
    (("0", "January", "16244"), ("1", "March", "9980")), 2, 2)
running.start()
running.thinking("March may be short.")
running.text(MARKDOWN)
running.reply("", ("1", "run_python", {}), ("2", "bash", {}))
running.tool("1", "run_python", {"code": "orders"})
running.add(ev.ToolPreview, id="1", name="run_python", tables=(table,), documents=(HtmlPreview("h", "<b>drawn</b>"),))
running.result("1", "run_python", "printed\\nt\\nh")
running.results(("1", "run_python", "x"))
await work(running)"""
ASKING = """asking = ScriptedRun()
display(view_of(asking))
ask_twice(asking)"""
QUESTION = """from dataclasses import asdict
PIXEL = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg==")
from planck_nb.jupyter.live.question_display import QuestionDisplay, QuestionField
fields = tuple(QuestionField(kind.title(), "What it is", kind, "", ("Europe", "US") if "choice" in kind else (), True)
    for kind in ("text", "number", "boolean", "choice", "choices", "json"))
asked = [QuestionDisplay("1", "asker", "How is it to be deployed?", "", fields, "", time.time() + 300),
    QuestionDisplay("2", "asker", "Sign in.", "https://example.invalid/sign-in", (), "", time.time() + 300, (PIXEL,))]
asked = {"type": "questions", "now": time.time(), "questions": list(map(asdict, asked)), "notice": "One was declined."}
questioned = ScriptedRun()
questioned.start()
questioned.text("I deploy it.")
questioned_view = view_of(questioned, on_connect=lambda: questioned_view.send(asked))
display(questioned_view)
"""
DONE = """done = ScriptedRun()
view = view_of(done, marker="planck-run-1")
display(view)
done.start()
done.text(MARKDOWN)
done.tool("1", "bash", {"command": "ls"})
done.result("1", "bash", "a\\nb", error=True)
done.reply(MARKDOWN, ("1", "bash", {"command": "ls"}))
done.end()
from planck_nb.jupyter.transcript.answer import Answer
data, metadata = Answer(transcript_of("analyst", "demo:scripted", done.log.since(0))).mime_bundle("planck-run-1")
display(data, raw=True, metadata=metadata)
view.finish(done.summary(), saved=True)"""
FAILED = """failed = ScriptedRun()
view = view_of(failed, marker="planck-run-2")
display(view)
failed.start()
failed.text("I look.")
failed.add(ev.Error, kind="MissingCredentialError", reason="`ANTHROPIC_API_KEY` is not set, so it cannot be used.")
failed.log.close()
view.finish({**failed.summary("failed"), "key_variable": "ANTHROPIC_API_KEY"}, saved=True)"""
HEIGHT = 7000
"""Of the window, so that JupyterLab shows all cells at once."""

CELLS = {"running": RUNNING, "asking": ASKING, "question": QUESTION, "done": DONE, "failed": FAILED}
AXE = """async (selector) => {
    const found = await axe.run({include: [[selector]]}, {iframes: false, resultTypes: ['violations']});
    return found.violations.flatMap(({id, nodes}) =>
        nodes.map(({html, failureSummary}) => `${id}: ${html.slice(0, 160)} ${failureSummary.slice(0, 240)}`));
}"""


@pytest.fixture(scope="module")
def states(lab: Lab, window: Window) -> Iterator[Notebook]:
    """A notebook whose cells show all states of the view at once."""
    build_script()
    cells = [STATES, *CELLS.values(), test_team_view.SHOW]
    notebook = window.open(lab.write("states.ipynb", *cells), width=1000, height=HEIGHT)
    notebook.page.evaluate(SPOKEN)
    notebook.run_all()
    notebook.wait_idle()
    expect(notebook.output(1).locator(".pk-preview")).to_be_visible()
    expect(notebook.output(2).locator(".pk-ask")).to_have_count(2)
    expect(notebook.output(3).get_by_alt_text("Image 1")).to_have_js_property("naturalWidth", 1)
    expect(notebook.output(4).locator(".pk-folded")).to_be_visible()
    expect(notebook.output(5).locator(".pk-kept")).to_be_visible()
    expect(notebook.output(6).locator(".pk-lane")).to_have_count(6)
    notebook.output(2).get_by_role("button", name="Edit arguments").first.click()
    notebook.output(5).get_by_role("button", name="How to set the key").click()
    notebook.page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    yield notebook
    window.close()  # with what was added to the page


@pytest.mark.parametrize("look", ["light", "dark", "480"])
def test_axe_finds_nothing_in_any_state(states: Notebook, look: str) -> None:
    states.page.set_viewport_size({"width": 480 if look == "480" else 1000, "height": HEIGHT})
    states.theme("JupyterLab Dark" if look == "dark" else "JupyterLab Light")
    states.page.wait_for_timeout(300)  # colours change by transitions
    states.screenshot(f"states-{look}")
    found: list[Any] = states.page.evaluate(AXE, ".jp-OutputArea .pk, .jp-OutputArea .jp-RenderedHTML")
    assert found == [], "\n".join(found)


SPOKEN = """() => {
    window.spoken = [];
    const listen = (records) => {
        const regions = new Set(records.map(({target}) => (target.closest ?? target.parentElement.closest)
            .call(target.closest ? target : target.parentElement, '.pk-sr[aria-live]')));
        for (const region of regions) if (region?.textContent) window.spoken.push(region.textContent);
    };
    new MutationObserver(listen).observe(document.body, {childList: true, characterData: true, subtree: true});
}"""
CONTROLS = """output => {
    const shown = [...output.querySelectorAll('button, summary, select, textarea, input, a[href], [tabindex="0"]')]
        .filter(one => one.closest('.pk') && one.checkVisibility() && !one.closest('[popover]'));
    // Lines of calls and rows of agents are one stop each for Tab, and move by arrows.
    const roving = shown.filter(one => one.matches('summary.pk-line') && one.tabIndex < 0);
    return shown.filter(one => !roving.includes(one)).map((one, at) => (one.dataset.control = String(at)));
}"""


@pytest.mark.parametrize("cell", [1, 2, 3, 4, 5])
def test_every_control_is_a_stop_of_the_tab_key(states: Notebook, cell: int) -> None:
    states.page.set_viewport_size({"width": 1000, "height": HEIGHT})
    output = states.output(cell)
    controls = output.evaluate(CONTROLS)
    assert len(controls) >= 3
    output.locator("[data-control='0']").focus()
    reached = set()
    for _ in range(len(controls) + 5):
        reached.add(states.page.evaluate("document.activeElement.dataset.control"))
        states.page.keyboard.press("Tab")
    assert set(controls) <= reached


def test_lines_of_calls_open_by_keyboard(states: Notebook) -> None:
    lines = states.output(1).locator("summary.pk-line")
    lines.nth(0).focus()
    states.page.keyboard.press("End")
    expect(lines.last).to_be_focused()
    states.page.keyboard.press("ArrowUp")
    read = lines.nth(-2)
    expect(read).to_be_focused()
    states.page.keyboard.press("ArrowRight")
    assert read.evaluate("line => line.parentElement.open")
    states.page.keyboard.press("ArrowLeft")
    assert not read.evaluate("line => line.parentElement.open")


def test_screen_readers_hear_words(states: Notebook) -> None:
    spoken: list[str] = states.page.evaluate("window.spoken")
    for text in (
        "Approval needed: edit wants to change sales/load.py. Approval needed: bash wants to run a command.",
        "The sidecar asker asks: Sign in.",
        "Done, 41 s, $0.014. The dates come in two formats: pd.to_datetime reads 3 April",
        "No API key",
        "Set the environment variable ANTHROPIC_API_KEY where",
    ):
        assert any(said.startswith(text) for said in spoken), "\n".join([text, *spoken])
    for text in spoken:
        assert not {"*", "`", "|", "#"} & set(text), text
