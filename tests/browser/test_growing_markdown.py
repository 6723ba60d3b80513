"""In Chromium: a text that grows ends as the whole text is rendered, and nothing in it is run or loaded meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Browser, expect
from support.node import bundled
from support.payloads import payloads

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

TEXTS = json.loads((Path(__file__).parents[1] / "fixtures/markdown/texts.json").read_text(encoding="utf-8"))
GROWN = """texts => texts.map(text => {
    const whole = document.createElement('template');
    whole.innerHTML = planck.toHtml(text.replace(/\\r\\n?/g, '\\n'));
    const element = document.createElement('div');
    document.body.replaceChildren(element);
    const markdown = new planck.GrowingMarkdown(element);
    const step = Math.max(1, Math.floor(text.length / 200));
    for (let at = step; at < text.length; at += step) markdown.update(text.slice(0, at), true);
    markdown.update(text, false);
    for (const block of element.children) block.removeAttribute('dir');
    for (const block of whole.content.children) block.removeAttribute('dir');
    const html = element.innerHTML.replace(/\\n/g, ' ').trim();
    const expected = whole.innerHTML.replace(/\\n/g, ' ').trim();
    return html === expected ? '' : `${text}\\n--- is\\n${html}\\n--- and not\\n${expected}`;
}).filter(Boolean)"""
TIMES = """count => {
    const element = document.createElement('div');
    document.body.replaceChildren(element);
    const markdown = new planck.GrowingMarkdown(element);
    let text = '';
    const started = performance.now();
    for (let at = 0; at < count; at++) {
        text += at % 50 === 49 ? '.\\n\\n' : ' some **words** and $x$';
        markdown.update(text, true);
    }
    return performance.now() - started;
}"""


def test_a_text_that_grows_ends_as_the_whole_text_is_rendered(chromium: Browser) -> None:
    page = chromium.new_page()
    try:
        page.add_script_tag(content=bundled("text/markdown.ts", "planck"))
        assert page.evaluate(GROWN, list(TEXTS.values())) == []
    finally:
        page.close()


def test_payloads_that_grow_run_and_load_nothing(chromium: Browser) -> None:
    page = chromium.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    try:
        page.evaluate("window.ran = []; window.fired = number => window.ran.push(number); null")
        page.add_script_tag(content=bundled("text/markdown.ts", "planck"))
        assert page.evaluate(GROWN, payloads()) == []
        page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 200))")
        assert page.evaluate("window.ran") == []
        assert requests == []
    finally:
        page.close()


def test_a_delta_costs_the_same_however_long_the_text_is(chromium: Browser) -> None:
    page = chromium.new_page()
    try:
        page.add_script_tag(content=bundled("text/markdown.ts", "planck"))
        page.evaluate(TIMES, 200)
        short = min(page.evaluate(TIMES, 200) for _ in range(3))
        long = min(page.evaluate(TIMES, 1200) for _ in range(3))
        assert long < short * 6 * 3
    finally:
        page.close()


# A very long paragraph is not formatted in the live view: parsing it would block the page.

LONG = """from scripted_run import ScriptedRun
run = ScriptedRun()
display(run.view())
run.start()
run.text("](<" * 60_000)
run.text("end")
run.tool("1", "bash", {"command": "ls"})
await run.stopped.wait()"""


def test_a_very_long_paragraph_stays_plain(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("long.ipynb", LONG))
    notebook.run_all()
    plain = notebook.output(0).locator(".pk-plain")
    expect(notebook.output(0).locator(".pk-tool")).to_be_visible()
    expect(plain).to_contain_text("end")
    assert len(plain.inner_text().replace("\n", "")) >= 180_000
    notebook.output(0).locator(".pk-stop").click()
    notebook.wait_idle()
