"""In JupyterLab with our extension: the side panel searches stored messages and shows transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_cell_commands import activate
from browser.lab_extension.test_large_and_hostile import ACTIVE, VIOLATIONS, WATCH
from browser.lab_extension.test_panel import WAITS
from browser.lab_extension.test_proposals import EXECUTE, SETUP, button, cells_of
from playwright.sync_api import Locator, Page, expect
from support.listener import Listener
from support.node import LABEXTENSION, build_script
from support.payloads import payloads

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]
    Show = Callable[[Page], Locator]

STORE = """import asyncio, threading
from planck_nb import Session
from planck_nb.ai.messages import AssistantMessage, TextPart, ToolCallPart
from planck_nb.ai.messages import ToolResultMessage, ToolResultPart, UserMessage
async def append(session, texts):
    for text in texts:
        call = AssistantMessage((ToolCallPart(text, 'bash', {'command': f'echo {text}'}),))
        result = ToolResultMessage((ToolResultPart(text, 'bash', f'{text} was printed'),))
        for message in (UserMessage(text), call, result, AssistantMessage((TextPart(f'Answer to **{text}**.'),))):
            await session.append(text if text.startswith('<') else 'scribe', message)
def store(name, *texts):
    "Store a session whose turns have these prompts, each with a call and an answer."
    with Session.create(planck_nb.get_workspace().sessions_dir, name=name) as session:
        thread = threading.Thread(target=asyncio.run, args=(append(session, texts),))
        thread.start()
        thread.join()
"""


def open_texts(panel: Locator, words: str) -> Locator:
    """Search all messages, and return the results; the page may have the panel's state from another test."""
    door = panel.locator("h2", has_text="Sessions").get_by_role("button")
    if door.get_attribute("aria-expanded") == "false":
        door.click()
    if button(panel, "In texts").get_attribute("aria-pressed") == "false":
        button(panel, "In texts").click()
    panel.get_by_label("Find a session").fill(words)
    return panel.locator(".planck-hit")


def test_a_hit_opens_its_transcript_which_reads_on_to_both_ends(
    lab: Lab, open_notebook: Open, window: Window, show: Show
) -> None:
    notebook = open_notebook(lab.write("texts.ipynb", f"{SETUP}\n{STORE}", "a = 1"), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    page.evaluate(EXECUTE, "store('flood', *(f'Zebra{at:02}' for at in range(40)), 'end')")
    activate(page, 1)
    panel = show(page)
    hits = open_texts(panel, "zebra03 answer")
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("scribe")
    expect(hits.locator("mark")).to_have_text(["Answer", "Zebra03"])
    notebook.screenshot("panel-search")
    hits.get_by_role("button", name="flood").click()
    transcript = panel.get_by_label("Transcript of flood")
    expect(transcript.locator("[aria-current]")).to_contain_text("Answer to Zebra03.")
    expect(button(transcript, "Back")).to_be_focused()
    expect(transcript).to_contain_text("You: Zebra00")
    expect(button(transcript, "Older messages")).to_have_count(0)
    expect(transcript.locator(".pk-tool")).to_have_count(4)
    while button(transcript, "Later messages").count():
        button(transcript, "Later messages").click()
        expect(transcript).not_to_contain_text("Reading")
    expect(transcript.locator(".pk-said")).to_have_count(41)
    button(transcript, "Export").click()
    assert cells_of(page)[2]["source"] == "%planck export flood flood.html"
    button(transcript, "Back").click()
    expect(transcript).to_have_count(0)
    button(panel, "In texts").click()
    panel.get_by_label("Find a session").fill("flood")
    row = panel.locator(".planck-row", has_text="flood")
    row.get_by_role("button").click()
    button(row, "Transcript").click()
    expect(transcript).to_contain_text("Answer to end.")
    expect(button(transcript, "Later messages")).to_have_count(0)
    expect(transcript.locator(".pk-said").first).to_be_attached()
    count = transcript.locator(".pk-said").count()
    end = transcript.locator(".pk-said").last
    place = end.bounding_box()
    button(transcript, "Older messages").evaluate("element => element.click()")
    expect(transcript.locator(".pk-said")).to_have_count(2 * count)
    now = end.bounding_box()
    assert place is not None
    assert now is not None
    assert abs(now["y"] - place["y"]) < 1, "what a person reads stays in its place"
    button(transcript, "Back").focus()
    page.keyboard.press("Enter")
    expect(row.get_by_role("button").first).to_be_focused()
    assert [line for line in window.said if "planck" in line] == []


def test_messages_are_found_and_read_while_a_cell_blocks(lab: Lab, open_notebook: Open, show: Show) -> None:
    setup = f"{SETUP}\nagent('analyst', 'The quokka sleeps.')"
    cells = (setup, "%%planck analyst\nWhere is it?", WAITS.format("sleeps", "awake"))
    notebook = open_notebook(lab.write("asleep.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    panel = show(page)
    expect(panel.locator(".planck-row", has_text="analyst").first).to_be_visible()
    notebook.run_only(2)
    expect(page.locator(".jp-Cell").nth(2)).to_contain_text("[*]")
    hits = open_texts(panel, "quokka")
    expect(hits).to_contain_text("The quokka sleeps.")
    hits.get_by_role("button").click()
    expect(panel.get_by_label("Transcript of")).to_contain_text("You: Where is it?")
    (lab.root / "awake").touch()
    notebook.wait_idle(cells=3)


def test_a_kernel_without_an_answer_is_called_busy(lab: Lab, open_notebook: Open, show: Show) -> None:
    setup = f"{SETUP}\nagent('analyst', 'Yes.')"
    cells = (
        setup,
        "%%planck analyst\nIs it a wombat?",
        "sum(range(6 * 10**8))  # in one call, which no thread interrupts",
    )
    notebook = open_notebook(lab.write("held.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    panel = show(page)
    expect(panel.locator(".planck-row", has_text="analyst").first).to_be_visible()
    hits = open_texts(panel, "")
    notebook.run_only(2)
    expect(page.locator(".jp-Cell").nth(2)).to_contain_text("[*]")
    panel.get_by_label("Find a session").fill("wombat")
    expect(panel.get_by_text("The kernel is busy. The answer is shown when it comes.")).to_be_visible()
    expect(hits).to_contain_text("Is it a wombat?")


@pytest.mark.parametrize("width", [1400, 480])
def test_axe_finds_nothing_in_results_and_transcripts(lab: Lab, open_notebook: Open, show: Show, width: int) -> None:
    build_script()
    notebook = open_notebook(lab.write(f"axe-texts-{width}.ipynb", f"{SETUP}\n{STORE}", "a = 1"), width=width)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    page.evaluate(EXECUTE, f"store('report{width}', *(f'Yak{width} {{at}}' for at in range(4)))")
    panel = show(page)
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    violations = VIOLATIONS.replace(".planck-review, .planck-at-cell, .planck-help", ".pk-panel")
    hits = open_texts(panel, f"Yak{width}")
    expect(hits.first).to_be_visible()
    for place in ("search", "transcript"):
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            notebook.theme(theme)
            page.wait_for_timeout(300)  # colours change by transitions
            notebook.screenshot(f"panel-{place}-{theme[11:].lower()}-{width}")
            assert page.evaluate(violations) == []
        if place == "search":
            hits.first.get_by_role("button").focus()
            page.keyboard.press("Enter")
            expect(panel.get_by_label("Transcript of")).to_contain_text("was printed")


def test_the_corpus_runs_nothing_in_results_and_transcripts(
    lab: Lab, open_notebook: Open, window: Window, show: Show
) -> None:
    listener = Listener()
    texts = payloads(listener.url)
    (lab.root / "payloads.json").write_text(json.dumps(texts), encoding="utf-8")
    notebook = open_notebook(lab.write("corpus-texts.ipynb", f"{SETUP}\n{STORE}", "a = 1"), width=1400)
    page = notebook.page
    page.evaluate(WATCH)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    page.evaluate(
        EXECUTE, "import json; store('corpus', *(f'{text} gnu' for text in json.load(open('payloads.json'))))"
    )
    panel = show(page)
    hits = open_texts(panel, "gnu")
    expect(hits).to_have_count(30)
    hits.first.get_by_role("button").click()
    transcript = panel.get_by_label("Transcript of")
    while button(transcript, "Older messages").count():
        button(transcript, "Older messages").click()
        expect(transcript).not_to_contain_text("Reading")
    in_panel = "document.querySelectorAll('.pk-panel *, "
    assert page.evaluate(ACTIVE.replace("document.querySelectorAll('", in_panel)) == []
    assert page.evaluate("window.ran") == []
    assert listener.connections == 0
    listener.close()
    assert [line for line in window.said if "planck" in line] == []
