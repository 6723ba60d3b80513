"""In JupyterLab with our extension: very many cells and proposals, and texts that try to become elements."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser.lab_extension.test_proposals import ADD, EXECUTE, SETUP, button, cells_of
from playwright.sync_api import expect
from support.listener import Listener
from support.node import LABEXTENSION, build_script
from support.payloads import payloads

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

PANEL = "window.jupyterapp.shell.currentWidget"
CELLS = 1_000
PROPOSALS = 200
LONG = 50_000_000
LONG_OUTPUTS = f"""() => {{
    const [, page, stream] = {PANEL}.content.widgets;
    page.model.outputs.add({{
        output_type: 'display_data', metadata: {{}}, data: {{'text/html': `<!-- ${{'x'.repeat({LONG})}} -->`}},
    }});
    stream.outputHidden = true;  // else JupyterLab lays it out for minutes
    const text = `${{'x'.repeat(79)}}\\n`.repeat({LONG // 80});
    stream.model.outputs.add({{output_type: 'stream', name: 'stdout', text}});
}}"""
HOSTILE = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>'
WATCH = "() => { window.ran = []; window.fired = number => { window.ran.push(number); }; }"
ACTIVE = """() => [...document.querySelectorAll('.planck-review *, .planck-at-cell *, .jp-OutputArea *')]
    .flatMap(element => [...element.attributes].filter(({name}) => name.startsWith('on')).map(({value}) => value))"""
"""Handlers which a text has brought."""
VIOLATIONS = """async () => {
    const found = await axe.run({include: [['.planck-review, .planck-at-cell, .planck-help']]},
        {iframes: false, resultTypes: ['violations']});
    return found.violations.map(({id, nodes}) => [id, nodes[0].html]);
}"""


def test_a_thousand_cells_with_two_hundred_proposals(lab: Lab, open_notebook: Open) -> None:
    cells = [f"{SETUP}\n{ADD}", *(f"x = {at}" for at in range(1, CELLS))]
    notebook = open_notebook(lab.write("large.ipynb", *cells))
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    changes = [
        {"id": f"p{at}", "kind": "change", "cell": f"c{at}", "before": f"x = {at}", "source": f"y = {at}"}
        for at in range(CELLS - PROPOSALS, CELLS)
    ]
    page.evaluate(EXECUTE, f"add('s', {changes!r})")
    bar = page.locator(".planck-review")
    expect(bar).to_contain_text(f"{PROPOSALS} changes")
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    for _ in range(10):
        page.evaluate("window.jupyterapp.commands.execute('planck:previous-change')")
    entry = page.locator(".pk-ops li[aria-current]")
    expect(entry).to_contain_text("cell 991")
    expect(entry).to_contain_text("y = 990")
    button(entry, "Accept").click()
    expect(bar).to_contain_text(f"{PROPOSALS - 1} changes")
    assert cells_of(page)[990]["source"] == "y = 990"


@pytest.mark.own_page
def test_fifty_megabytes_of_output_stay_in_the_page(lab: Lab, open_notebook: Open) -> None:
    """They are never sent, and neither copied for a review nor kept for taking back."""
    read = [("read_cell", {"cell": cell}) for cell in ("c1", "c2")]
    change = [("propose", {"kind": "change", "cell": cell, "source": "x = 2\nx"}) for cell in ("c1", "c2")]
    setup = f"{SETUP}\n{ADD}\nagent('analyst', {read!r}, {change!r}, 'done')"
    prompt = "%%planck analyst --tools notebook\nMake it two."
    notebook = open_notebook(lab.write("outputs.ipynb", setup, "a = 1", "b = 1", prompt), width=1400)
    page = notebook.page
    session = page.context.new_cdp_session(page)
    sent: list[int] = []
    session.send("Network.enable")
    session.on("Network.webSocketFrameSent", lambda frame: sent.append(len(frame["response"]["payloadData"])))

    def used() -> int:
        """The page's memory for data, in bytes."""
        session.send("HeapProfiler.collectGarbage")
        found = session.send("Runtime.getHeapUsage")["usedSize"]
        assert isinstance(found, (int, float))
        return int(found)

    notebook.run_first(3)
    notebook.wait_idle(cells=3)
    page.evaluate(LONG_OUTPUTS)
    before = used()
    notebook.run_only(3)
    boxes, bar = page.locator(".planck-at-cell"), page.locator(".planck-review")
    expect(boxes).to_have_count(2)
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    button(bar, "Accept the 2 ready").click()
    expect(boxes).to_have_count(0)
    assert used() < before + LONG / 2
    expect(notebook.output(3)).to_contain_text("done")
    messages = "planck_nb.get_workspace().agents['analyst'].state.messages"
    told = f"[len(text) for entry in {messages} if (text := str(entry.message))]"
    page.evaluate(EXECUTE, f"assert max({told}) < 20_000, {told}")
    notebook.run_only(1)
    expect(notebook.output(1)).to_contain_text("2")
    button(bar, "Take back").click()
    expect(bar).to_contain_text("The long outputs of cells 2, 3 were not kept; run them again.")
    found = cells_of(page)[1:3]
    assert [(cell["source"], cell["outputs"], cell["execution_count"]) for cell in found] == [
        ("a = 1", [], None),
        ("b = 1", [], None),
    ]
    assert used() < before
    assert max(sent) < 100_000


def test_texts_of_agents_are_texts(lab: Lab, open_notebook: Open, window: Window) -> None:
    build_script()
    notebook = open_notebook(lab.write("hostile.ipynb", f"{SETUP}\n{ADD}", "a = 1"))
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle()
    change = {"id": HOSTILE, "kind": "change", "cell": "c1", "before": "a = 1", "source": HOSTILE, "why": HOSTILE}
    page.evaluate(EXECUTE, f"add({HOSTILE!r}, {[change]!r}, title={HOSTILE!r})")
    box = page.locator(".planck-at-cell")
    expect(box).to_contain_text(HOSTILE)
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        assert page.evaluate(VIOLATIONS) == []
        notebook.screenshot(f"lab-review-{theme[11:].lower()}")
    notebook.theme("JupyterLab Light")
    button(box, "Accept").click()
    expect(box).to_have_count(0)
    assert cells_of(page)[1]["source"] == HOSTILE
    assert page.evaluate("window.hacked") is None
    assert [line for line in window.said if "planck" in line] == []


@pytest.mark.parametrize("width", [1400, 480])
def test_axe_finds_nothing(lab: Lab, open_notebook: Open, width: int) -> None:
    """In all states: open, edited, contested, outdated, accepted, with an error and while an agent works."""
    build_script()
    cells = (f"{SETUP}\n{ADD}", "a = 1", "b = 1", "c = 1", "1 / 0", "2 / 0", "d = 1")
    notebook = open_notebook(lab.write("states.ipynb", *cells), width=width)
    page = notebook.page
    for at in (0, 4, 5):  # what is queued behind a failed cell does not run
        notebook.run_only(at)
        page.wait_for_function(f"() => {PANEL}.content.widgets[{at}].model.executionCount !== null")
        page.wait_for_function(f"() => {PANEL}.content.widgets[{at}].model.executionState === 'idle'")
    texts = {"c1": ("a = 1", "a = 2"), "c2": ("b = 0", "b = 2"), "c3": ("c = 1", "c = 2"), "c6": ("d = 1", "d = 2")}
    changes = [
        {"id": f"s{cell}", "kind": "change", "cell": cell, "before": before, "source": source, "why": "So."}
        for cell, (before, source) in texts.items()
    ]
    page.evaluate(EXECUTE, f"add('s', {changes!r})")
    page.evaluate(EXECUTE, f"add('t', {[{**changes[2], 'id': 't', 'kind': 'delete'}]!r}, title='Better:')")
    status = "HelpStatus('c5', 'helper works on this cell', 'working')"
    tell = f"from planck_nb.jupyter.lab.protocol import HelpStatus; extension._link.pages.tell({status})"
    page.evaluate(EXECUTE, tell)
    box = page.locator(".planck-at-cell")
    expect(box).to_have_count(5)
    button(box.filter(has_text="d = 2"), "Accept").click()
    expect(page.locator(".planck-review .pk-strip")).to_have_count(1)
    button(box.filter(has_text="a = 2"), "Edit").click()
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    for details in page.locator(".pk-ops details").all():
        details.evaluate("element => { element.open = true; }")
    expect(page.locator(".planck-help")).to_have_count(2)
    page.add_script_tag(path=LABEXTENSION / "node_modules" / "axe-core" / "axe.min.js")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        page.wait_for_timeout(300)  # colours change by transitions
        notebook.screenshot(f"lab-states-{width}-{theme[11:].lower()}")
        assert page.evaluate(VIOLATIONS) == []
    notebook.theme("JupyterLab Light")


def test_the_corpus_runs_nothing_in_the_review(lab: Lab, open_notebook: Open) -> None:
    listener = Listener()
    texts = payloads(listener.url)
    (lab.root / "payloads.json").write_text(json.dumps(texts), encoding="utf-8")
    reading = (
        "import json\nfrom planck_nb.jupyter.lab.protocol import Decision\ntexts = json.load(open('payloads.json'))"
    )
    adding = f"{SETUP}\n{ADD}\n{reading}"
    notebook = open_notebook(lab.write("corpus.ipynb", adding, "a = 1"))
    page = notebook.page
    page.evaluate(WATCH)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    every = "[dict(id=t, kind='insert', cell=t, after='c1', source=t, why=t, cell_type='markdown') for t in texts]"
    page.evaluate(EXECUTE, f"add(''.join(texts), {every}, title=' '.join(texts))")
    bar = page.locator(".planck-review")
    expect(bar).to_contain_text(f"{len(texts)} changes")
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    expect(page.locator(".pk-ops li")).to_have_count(len(texts))
    expect(page.locator(".planck-at-cell")).to_have_count(len(texts))
    for refused in texts[:20]:
        page.evaluate(EXECUTE, f"book.decide(''.join(texts), [Decision({refused!r}, 'refused', {refused!r})], '')")
    assert page.evaluate(ACTIVE) == []
    assert page.evaluate("window.ran") == []
    assert listener.connections == 0
    listener.close()


def test_the_corpus_runs_nothing_in_saved_runs_which_nobody_trusts(lab: Lab, open_notebook: Open) -> None:
    """JupyterLab itself loads images in such a notebook; we make elements of a stranger's names and texts nowhere."""
    path = lab.write("strangers.ipynb", "1")
    content = json.loads(path.read_text(encoding="utf-8"))
    html = "".join(f'<div class="planck-run-{at}">{text}</div>' for at, text in enumerate(payloads()))
    data = {"text/html": html, "text/plain": ""}
    outputs = [{"output_type": "display_data", "metadata": {}, "data": data}]
    content["cells"].append({**content["cells"][0], "id": "run", "source": "%%planck\nhello", "outputs": outputs})
    path.write_text(json.dumps(content), encoding="utf-8")
    page = open_notebook(lab.write("first.ipynb", "1")).page
    page.evaluate(WATCH)
    open_notebook(path)
    expect(page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .pk-saved").first).to_be_attached()
    assert page.evaluate(ACTIVE) == []
    assert page.evaluate("window.ran") == []
