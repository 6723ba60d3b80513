"""In JupyterLab: what the reader looks at does not move when a run ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from scripted_run import ScriptedRun, EDIT"""
RUN = """run = ScriptedRun()
view = LiveView(run.log, agent="analyst", actions=run, marker="planck-run-1")
display(view)
run.start()
said = "".join(f"Paragraph {at} of the answer.\\n\\n" for at in range(40))
run.text(said)
run.reply(said, ("1", "bash", {"command": "ls"}))
run.tool("1", "bash", {"command": "ls"})
run.result("1", "bash", "a.txt")
run.results(("1", "bash", "a.txt"))
rest = "".join(f"- Item {at} of the list\\n" for at in range(40)) + "\\nThe **end** of it."
run.text(rest)
run.reply(rest)
await run.stopped.wait()
run.end()
data, metadata = Answer(transcript_of("analyst", "demo:scripted", run.log.since(0))).mime_bundle("planck-run-1")
display(data, raw=True, metadata=metadata)
view.finish(run.summary(), saved=True)"""
CELLS = (f"{SETUP}\nfrom planck_nb.jupyter.live.view import LiveView", RUN, "below = 1\n" * 30)
PLACE = """([text, selector]) => {
    const lines = [...document.querySelectorAll(`${selector} :is(p, li)`)].filter(line => line.textContent === text);
    if (lines.length !== 1) return null;
    const { top, left } = lines[0].getBoundingClientRect();
    return [top, left];
}"""
STOP = "document.querySelector('.pk-stop').click()"
TOLERANCE = 3


def place(notebook: Notebook, text: str, selector: str) -> list[float]:
    found = notebook.page.evaluate(PLACE, [text, selector])
    assert isinstance(found, list), text
    return found


def begin(lab: Lab, open_notebook: Open, name: str) -> Notebook:
    notebook = open_notebook(lab.write(f"{name}.ipynb", *CELLS), height=800)
    notebook.run_first(2)
    expect(notebook.output(1).locator(".pk-prose").last).to_contain_text("The end of it.")
    return notebook


def end(notebook: Notebook) -> None:
    """End the run as from elsewhere, without a click that would scroll."""
    notebook.page.evaluate(STOP)
    expect(notebook.output(1).locator(".pk-folded")).to_be_visible()
    notebook.wait_idle(cells=2)


@pytest.mark.parametrize("reader", ["scrolled up", "at the end"])
def test_the_line_that_is_read_stays(lab: Lab, open_notebook: Open, reader: str) -> None:
    notebook = begin(lab, open_notebook, f"anchor-{reader.split(maxsplit=1)[0]}")
    window = notebook.output(1).locator(".pk-view")
    window.evaluate("view => view.scrollIntoView({block: 'center', behavior: 'instant'})")
    window.hover()
    text = "The end of it."
    if reader == "scrolled up":
        notebook.page.mouse.wheel(0, -1200)
        expect(notebook.output(1).locator(".pk-tail button")).to_be_visible()
        text = notebook.page.evaluate(
            """() => {
                const box = document.querySelector('.pk-view').getBoundingClientRect();
                return [...document.querySelectorAll('.pk-view :is(p, li)')]
                    .find(line => line.getBoundingClientRect().top > box.top + 100).textContent;
            }"""
        )
    before = place(notebook, text, ".pk-view")
    assert 100 < before[0] < 750  # it can be seen
    end(notebook)
    after = place(notebook, text, ".planck-run-1")
    assert [abs(new - old) <= TOLERANCE for new, old in zip(after, before, strict=True)] == [True, True], (
        before,
        after,
    )
    notebook.page.evaluate("() => new Promise(resolve => setTimeout(resolve, 400))")  # what comes late moves nothing
    assert abs(place(notebook, text, ".planck-run-1")[0] - before[0]) <= TOLERANCE


def test_a_reader_of_a_cell_below_stays_there(lab: Lab, open_notebook: Open) -> None:
    notebook = begin(lab, open_notebook, "anchor-below")
    top = "() => document.querySelectorAll('.jp-Cell')[2].getBoundingClientRect().top"
    notebook.page.locator(".jp-Cell").nth(2).hover()
    notebook.page.evaluate(
        "() => document.querySelectorAll('.jp-Cell')[2].scrollIntoView({block: 'start', behavior: 'instant'})"
    )
    before = notebook.page.evaluate(top)
    end(notebook)
    assert abs(notebook.page.evaluate(top) - before) <= TOLERANCE
