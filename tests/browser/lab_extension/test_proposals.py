"""In JupyterLab with our extension: agents propose changes to cells, and people decide about them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.cell_sets import random_set, set_applied, subjects

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

SETUP = """%load_ext planck_nb
import planck_nb
from planck_nb.testing import Call, Reply, scripted_model
def agent(name, *replies):
    script = [reply if isinstance(reply, str) else Reply(calls=[Call(*each) for each in reply]) for reply in replies]
    planck_nb.get_workspace().add_agent(name, model=scripted_model(script))"""
ADD = """from planck_nb.jupyter.extension import _loaded
from planck_nb.jupyter.lab.protocol import CellChange, ChangeSet
[extension] = _loaded.values()
book = extension._link.book
def add(name, changes, **more):
    path = extension._link.pages.path()
    book.put(ChangeSet(name, "analyst", "a1", path, 1.0, tuple(CellChange(**each) for each in changes), **more))"""
"""Adds sets of changes without an agent."""
READ = [("read_cell", {"cell": "c2"})]
PROPOSED = [
    ("propose", {"kind": "insert", "source": "import math", "after": "c1", "why": "Needed below."}),
    ("propose", {"kind": "change", "cell": "c2", "source": "b = 2\nb", "why": "It is `2`."}),
]
CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(cell => cell.toJSON())"
EXECUTE = """async code => {
    const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
    for (;;) {
        const {content} = await kernel.requestExecute({code, silent: true, store_history: false}).done;
        if (content.status === 'ok') return;
        if (content.status !== 'aborted') throw new Error(content.evalue);  // behind a failed cell
    }
}"""
PRESSED = """text => {
    const found = [...document.querySelectorAll('.planck-review button')].find(each => each.textContent === text);
    found?.click();
    return found !== undefined;
}"""
SOAK = int(os.environ.get("PLANCK_NB_SOAK", "0"))
"""Above 0 for long runs; each number has other random sets."""
SHARED = "window.jupyterapp.shell.currentWidget.content.model.sharedModel"


def cells_of(page: Page) -> list[dict[str, Any]]:
    found = page.evaluate(CELLS)
    assert isinstance(found, list)
    return found


def sources(page: Page) -> dict[str, str]:
    return {cell["id"]: cell["source"] for cell in cells_of(page)}


def button(page: Page | Locator, text: str) -> Locator:
    return page.get_by_role("button", name=text, exact=True)


def saved(path: Path) -> list[str]:
    """The sources in the file."""
    return ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def test_a_person_edits_accepts_and_takes_back(lab: Lab, open_notebook: Open, window: Window) -> None:
    prompt = f"agent('analyst', {READ!r}, {PROPOSED!r}, 'done')"
    cells = (SETUP, "a = 1", "b = 1\nb", prompt, "%%planck analyst --tools notebook\nMake it two.", "c = 3")
    notebook = open_notebook(lab.write("journey.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(4)
    notebook.wait_idle(cells=4)
    notebook.run_only(4)
    change = page.locator(".planck-at-cell", has_text="a change to this cell")
    expect(change).to_be_visible()
    expect(page.locator(".planck-at-cell")).to_have_count(2)
    notebook.screenshot("lab-proposal-1400")
    notebook.save()
    assert sources(page)["c2"] == "b = 1\nb"
    assert saved(notebook.path) == list(cells)
    ran = cells_of(page)[2]

    button(change, "Edit").click()
    editor = change.locator(".pk-edit .cm-content")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" + 1")
    assert sources(page)["c2"] == "b = 1\nb", "the text is edited beside the cell"
    page.keyboard.press("Control+Enter")
    expect(page.locator(".planck-at-cell")).to_have_count(1)
    button(page.locator(".planck-at-cell"), "Accept").click()
    expect(page.locator(".planck-at-cell")).to_have_count(0)
    notebook.wait_idle(cells=1)
    expect(notebook.output(5)).to_contain_text("It is now:")
    found = sources(page)
    assert found["c2"] == "b = 2\nb + 1"
    assert list(found.values())[2] == "import math"

    # Accepted cells run, and the person works elsewhere, before all of it is taken back.
    notebook.run_only(2)
    notebook.run_only(3)
    page.wait_for_function(f"() => {SHARED}.cells[3].getOutputs().some(output => output.data?.['text/plain'] === '3')")
    page.evaluate(f"() => {{ {SHARED}.insertCell(0, {{cell_type: 'markdown', source: 'mine', id: 'mine'}}); }}")
    page.evaluate(f"() => {{ {SHARED}.getCell({SHARED}.cells.length - 1).setSource('c = 33'); }}")
    button(page, "Take back").click()
    expect(page.locator(".planck-review")).to_contain_text("Variables and files stay as they are.")
    after = cells_of(page)
    assert [cell["id"] for cell in after] == ["mine", "c0", "c1", "c2", "c3", "c4", "c5"]
    assert after[3] == ran
    assert after[-1]["source"] == "c = 33"
    assert [line for line in window.said if "planck" in line] == []


def test_the_keyboard_is_enough_and_an_edited_cell_is_outdated(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("outdated.ipynb", f"{SETUP}\n{ADD}", "a = 1", "b = 1"), width=480)
    page = notebook.page
    notebook.run_first(2)
    notebook.wait_idle(cells=2)
    changes = [
        {"id": "x", "kind": "change", "cell": "c1", "before": "a = 1", "source": "a = 2"},
        {"id": "y", "kind": "delete", "cell": "c2", "before": "b = 1"},
    ]
    page.evaluate(EXECUTE, f"add('s', {changes!r})")
    expect(page.locator(".planck-at-cell")).to_have_count(2)
    page.evaluate(f"() => {{ {SHARED}.getCell(2).setSource('b = 11'); }}")
    outdated = page.locator(".planck-at-cell", has_text="to delete this cell")
    expect(outdated).to_contain_text("The cell was edited after this was written.")
    expect(button(outdated, "Accept")).to_have_count(0)
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    entry = page.locator(".pk-ops li[aria-current]")
    expect(button(entry, "Accept")).to_be_focused()
    expect(page.locator(".planck-review")).to_contain_text("Accept the 1 ready")
    notebook.screenshot("lab-review-480")
    page.keyboard.press("Alt+ArrowDown")
    expect(button(entry, "Ask again")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".planck-at-cell")).to_have_count(1)
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".planck-at-cell")).to_have_count(0)
    assert list(sources(page).values())[1:] == ["a = 2", "b = 11"]


def test_a_proposal_survives_a_reload_and_is_decided_once_in_two_tabs(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("tabs.ipynb", f"{SETUP}\n{ADD}", "a = 1"))
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.save()
    changes = [{"id": "x", "kind": "change", "cell": "c1", "before": "a = 1", "source": "a = 2"}]
    page.evaluate(EXECUTE, f"add('s', {changes!r})")
    expect(page.locator(".planck-at-cell")).to_have_count(1)
    notebook.reload()
    expect(page.locator(".planck-at-cell")).to_have_count(1)
    with page.context.expect_page() as opened:
        page.evaluate("address => { window.open(address); }", page.url)
    other = opened.value
    other.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.content?.widgets?.length > 0")
    other.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    expect(other.locator(".planck-at-cell")).to_have_count(1)
    expect(page.locator(".planck-at-cell")).to_have_count(0)
    button(other.locator(".planck-at-cell"), "Accept").click()
    expect(other.locator(".planck-at-cell")).to_have_count(0)
    assert sources(other)["c1"] == "a = 2"
    assert sources(page)["c1"] == "a = 1", "without collaboration, the tabs have two documents"
    other.close()


def changes_of(operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations as an agent would propose them."""
    changes: list[dict[str, Any]] = []
    for at, operation in enumerate(operations):
        change = {"id": str(at), "kind": operation["kind"], "cell": operation.get("id", ""), "source": None}
        if operation["kind"] == "insert":
            change |= {"cell": operation["cell"]["id"], "source": operation["cell"]["source"]}
        else:
            change["before"] = operation["before"]
        if operation["kind"] == "change":
            change["source"] = operation["source"]
        if "after" in operation:
            change["after"] = operation["after"][0]
        changes.append(change)
    return changes


def plain(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells without the mark of trust, which is not saved."""
    return [{**cell, "metadata": {k: v for k, v in cell["metadata"].items() if k != "trusted"}} for cell in cells]


RUN = """async ids => {
    const { content } = window.jupyterapp.shell.currentWidget;
    for (const id of ids) {
        content.activeCellIndex = content.widgets.findIndex(({ model }) => model.id === id);
        await window.jupyterapp.commands.execute('notebook:run-cell');
    }
}"""
WORK = f"""([typed, text, deleted, moved, to, added, at]) => {{
    const notebook = {SHARED};
    const place = id => notebook.cells.findIndex(cell => cell.id === id);
    notebook.cells[place(typed)].setSource(text);
    notebook.deleteCell(place(deleted));
    notebook.insertCell(at, {{cell_type: 'markdown', id: added, source: 'mine'}});
    if (moved) notebook.moveCell(place(moved), to);
}}"""
"""A person types in one cell, deletes, moves and inserts others."""


def work(page: Page, random: Random, spared: set[str], name: str, *, moves: bool) -> None:
    """Let a person work in and with cells of their own."""
    own = [cell for cell in cells_of(page)[1:] if cell["id"] not in spared]
    typed, deleted, moved = random.sample(own, 3)
    to, at = random.randint(1, len(own)), random.randint(1, len(own))
    steps = [typed["id"], f"{typed['source']}\nmine", deleted["id"], moved["id"] if moves else "", to, name, at]
    page.evaluate(WORK, steps)


def accept(page: Page, name: str, operations: list[dict[str, Any]], strips: int) -> None:
    page.evaluate(EXECUTE, f"add({name!r}, {changes_of(operations)!r})")
    count = "a change" if len(operations) == 1 else f"{len(operations)} changes"
    bar = page.locator(".planck-review")
    expect(bar).to_contain_text(f"proposes {count}" if len(operations) == 1 else count)
    if button(bar, "Review").count():
        button(bar, "Review").click()
    page.wait_for_function(PRESSED, arg=f"Accept the {len(operations)} ready")
    expect(page.locator(".pk-ops li")).to_have_count(0)
    expect(bar.locator(".pk-strip")).to_have_count(strips)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_random_sets_are_applied_as_the_model_says_and_taken_back(lab: Lab, open_notebook: Open, seed: int) -> None:
    """Two sets, after whose acceptance cells run and a person works elsewhere, are taken back, the first one first."""
    random = Random(seed + 4 * SOAK)
    notebook = open_notebook(
        lab.write(f"random{seed}.ipynb", f"{SETUP}\n{ADD}", *(f"x{at} = {at}\nx{at}" for at in range(29)))
    )
    page = notebook.page
    notebook.run_all()
    notebook.wait_idle()
    for at in range(63 if SOAK else 5):
        before = plain(cells_of(page))
        untouched = {cell["id"] for cell in random.sample(before[1:], 5)}  # for the person
        now, changed, rewritten = before[1:], set[str](), set[str]()
        for number in (1, 2):
            name = f"n{at}-{number}-"
            operations = random_set(now, random, spared=untouched | changed, name=name)
            accept(page, f"s{name}", operations, number)
            now = set_applied(now, operations)
            assert plain(cells_of(page)) == [before[0], *now], operations
            changed |= subjects(operations)
            rewritten |= subjects(each for each in operations if each["kind"] != "move")
        run = [cell["id"] for cell in now if cell["id"] in changed and cell["cell_type"] == "code"]
        page.evaluate(RUN, random.sample(run, min(2, len(run))))
        work(page, random, changed, f"mine{at}", moves=at % 3 == 0)
        worked = plain(cells_of(page))
        mine = {cell["id"]: cell for cell in worked if cell["id"] not in changed}
        for left in (1, 0):
            page.locator(".planck-review .pk-strip").last.get_by_role("button", name="Take back").click()
            expect(page.locator(".planck-review .pk-strip")).to_have_count(left)
        after = plain(cells_of(page))
        restored = {cell["id"]: cell for cell in before if cell["id"] in rewritten}
        moved = {cell["id"]: cell for cell in worked if cell["id"] in changed - rewritten}
        assert {cell["id"]: cell for cell in after} == {**restored, **moved, **mine}
        assert [cell["id"] for cell in after if cell["id"] in mine] == list(mine)
        if at % 3:  # the person moved nothing
            kept = [cell["id"] for cell in before if cell["id"] in mine or cell["id"] in changed]
            assert [cell["id"] for cell in after if cell["id"] in kept] == kept
