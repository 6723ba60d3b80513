"""In JupyterLab with our extension: what people, files and other extensions do while proposals are open."""

from __future__ import annotations

import json
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from browser.lab_extension.test_help_states import SLOW
from browser.lab_extension.test_proposals import ADD, EXECUTE, SETUP, SHARED, SOAK, button, cells_of, sources
from playwright.sync_api import Page, Route, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

PANEL = "window.jupyterapp.shell.currentWidget"
OWN = ".jp-NotebookPanel:not(.lm-mod-hidden)"
SPLIT = f"""() => {{
    {PANEL}.content.activeCellIndex = 2;
    {PANEL}.content.activeCell.editor.setCursorPosition({{line: 0, column: 5}});
    window.jupyterapp.commands.execute('notebook:split-cell-at-cursor');
}}"""
MERGE = f"""() => {{
    {PANEL}.content.activeCellIndex = 2;
    {PANEL}.content.extendContiguousSelectionTo(3);
    return window.jupyterapp.commands.execute('notebook:merge-cells');
}}"""
TALK = "agent('a', 'Hello.')\nplanck_nb.get_workspace().session\n%planck a hi"
EDITED = "The cell was edited after this was written."
GONE = "The cell is not in the notebook any more."


def change(cell: str, before: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": f"{cell}-{source}", "kind": "change", "cell": cell, "before": before, "source": source, **more}


def opened(lab: Lab, open_notebook: Open, name: str, *cells: str) -> Notebook:
    """A notebook whose first cell can add proposals."""
    notebook = open_notebook(lab.write(name, f"{SETUP}\n{ADD}", *cells), width=1400)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    return notebook


def add(page: Page, name: str, *changes: dict[str, Any]) -> None:
    page.evaluate(EXECUTE, f"add({name!r}, {list(changes)!r})")
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text("change")


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (SPLIT, EDITED),
        (MERGE, GONE),
        (f"() => {SHARED}.deleteCell(2)", GONE),
        (f"() => {SHARED}.getCell(2).setMetadata('editable', false)", "The cell is not editable."),
    ],
    ids=["split", "merged", "deleted", "locked"],
)
def test_a_cell_that_is_not_the_same_any_more_stays(lab: Lab, open_notebook: Open, action: str, words: str) -> None:
    notebook = opened(lab, open_notebook, "cell.ipynb", "a = 1", "b = 1 + 1", "c = 1")
    page = notebook.page
    add(page, "s", change("c2", "b = 1 + 1", "b = 2"))
    page.evaluate(action)
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    entry = page.locator(f"{OWN} .pk-ops li")
    expect(entry).to_contain_text(words)
    after = cells_of(page)
    button(entry, "Refuse").click()
    expect(page.locator(f"{OWN} .pk-ops li")).to_have_count(0)
    assert cells_of(page) == after


def test_another_extension_moves_the_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "moved.ipynb", "a = 1", "b = 1", "c = 1")
    page = notebook.page
    add(page, "s", change("c2", "b = 1", "b = 2"))
    page.evaluate(f"() => {SHARED}.moveCell(2, 3)")
    box = page.locator(f"{OWN} .jp-Cell").nth(3).locator(".planck-at-cell")
    expect(box).to_have_count(1)
    button(box, "Accept").click()
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
    assert list(sources(page).values())[1:] == ["a = 1", "c = 1", "b = 2"]


def test_two_agents_propose_for_one_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "contested.ipynb", "a = 1")
    page = notebook.page
    add(page, "s", change("c1", "a = 1", "a = 2"))
    add(page, "t", change("c1", "a = 1", "a = 3"))
    boxes = page.locator(f"{OWN} .planck-at-cell")
    expect(boxes).to_have_count(2)
    expect(boxes.first).to_contain_text("Another proposal changes the same cell: accept one of them.")
    button(page.locator(f"{OWN} .planck-at-cell", has_text="a = 3"), "Accept").click()
    expect(boxes).to_have_count(1)
    expect(boxes).to_contain_text(EDITED)
    assert sources(page)["c1"] == "a = 3"


def test_the_file_is_replaced_and_renamed(lab: Lab, open_notebook: Open, window: Window) -> None:
    notebook = opened(lab, open_notebook, "replaced.ipynb", "a = 1", "b = 1")
    page = notebook.page
    notebook.save()
    add(page, "s", change("c1", "a = 1", "a = 2"), change("c2", "b = 1", "b = 2"))
    content = json.loads(notebook.path.read_text(encoding="utf-8"))
    content["cells"][2]["source"] = ["b = 5"]
    notebook.path.write_text(json.dumps(content), encoding="utf-8")
    page.evaluate(f"{PANEL}.context.revert()")
    outdated = page.locator(f"{OWN} .planck-at-cell", has_text=EDITED)
    expect(outdated).to_have_count(1)
    page.evaluate(f"{PANEL}.context.rename('renamed.ipynb')")
    page.wait_for_function(f"() => {PANEL}.context.path === 'renamed.ipynb'")
    page.evaluate(EXECUTE, "assert {each.path for each in book.sets()} == {'renamed.ipynb'}")
    button(page.locator(f"{OWN} .planck-at-cell", has_text="a = 2"), "Accept").click()
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(1)
    assert list(sources(page).values())[1:] == ["a = 2", "b = 5"]
    button(page.locator(f"{OWN} .planck-review"), "Take back").click()
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text("Variables and files stay as they are.")
    assert list(sources(page).values())[1:] == ["a = 1", "b = 5"]
    assert [line for line in window.said if "planck" in line] == []


def test_a_notebook_without_ids_which_nobody_trusts(lab: Lab, open_notebook: Open) -> None:
    path = lab.write("old.ipynb", f"{SETUP}\n{ADD}", "a = 1")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["nbformat_minor"] = 4
    for cell in content["cells"]:
        del cell["id"]
    html = {"output_type": "display_data", "metadata": {}, "data": {"text/html": "<b>x</b>"}}
    content["cells"].append({**content["cells"][1], "source": ["b = 1"], "outputs": [html]})
    path.write_text(json.dumps(content), encoding="utf-8")
    notebook = open_notebook(path)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    [_, first, _] = page.evaluate(f"{PANEL}.content.widgets.map(cell => cell.model.id)")
    insert = {"id": "n", "kind": "insert", "cell": "new", "after": first, "source": "n = 1"}
    add(page, "s", change(first, "a = 1", "a = 2"), insert)
    for left in (1, 0):
        button(page.locator(f"{OWN} .planck-at-cell").first, "Accept").click()
        expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(left)
    assert [cell["source"] for cell in cells_of(page)][1:] == ["a = 2", "n = 1", "b = 1"]
    assert page.evaluate(f"{PANEL}.content.widgets.map(cell => cell.model.trusted)")[2:] == [False, False]
    notebook.save()
    assert [cell.get("id") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]] == [None] * 4
    button(page.locator(f"{OWN} .planck-review"), "Take back").click()
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text("Variables and files stay as they are.")
    assert [cell["source"] for cell in cells_of(page)][1:] == ["a = 1", "b = 1"]


def test_what_a_person_typed_after_accepting_is_not_taken_back(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "typed.ipynb", "a = 1", "b = 1")
    page = notebook.page
    add(page, "s", change("c1", "a = 1", "a = 2"), change("c2", "b = 1", "b = 2"))
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    button(page.locator(f"{OWN} .planck-review"), "Accept the 2 ready").click()
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
    page.evaluate(f"() => {{ {SHARED}.getCell(2).setSource('b = 2  # mine'); }}")
    after = cells_of(page)
    button(page.locator(f"{OWN} .planck-review"), "Take back").click()
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text(f"Nothing was changed: cell 3. {EDITED}")
    assert cells_of(page) == after
    page.evaluate(f"() => {{ {SHARED}.getCell(2).setSource('b = 2'); }}")
    button(page.locator(f"{OWN} .planck-review"), "Take back").click()
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text("Variables and files stay as they are.")
    assert list(sources(page).values())[1:] == ["a = 1", "b = 1"]


@pytest.mark.own_page
def test_a_read_only_file_stays_as_it_is(lab: Lab, open_notebook: Open, window: Window) -> None:
    path = lab.write("locked.ipynb", f"{SETUP}\n{ADD}", "a = 1")
    notebook = open_notebook(lab.write("writable.ipynb", "1"))
    page = notebook.page

    def lock(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "writable": False})

    page.route("**/api/contents/locked.ipynb*", lock)
    notebook = open_notebook(path)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    add(page, "s", change("c1", "a = 1", "a = 2"))
    button(page.locator(f"{OWN} .planck-at-cell"), "Accept").click()
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text("The notebook is read-only.")
    assert sources(page)["c1"] == "a = 1"
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(1)


def test_a_second_view_of_the_notebook_reviews_when_the_first_is_closed(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "views.ipynb", "a = 1")
    page = notebook.page
    add(page, "s", change("c1", "a = 1", "a = 2"))
    page.evaluate(
        f"""async () => {{
            const first = {PANEL};
            await window.jupyterapp.commands.execute('docmanager:clone');
            first.dispose();
        }}"""
    )
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(1)
    button(page.locator(f"{OWN} .planck-at-cell"), "Accept").click()
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
    assert sources(page)["c1"] == "a = 2"


def test_the_kernel_restarts_and_the_session_is_resumed(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "restarted.ipynb", "a = 1", "%planck resume latest", TALK)
    page = notebook.page
    notebook.run_only(3)
    expect(notebook.output(3)).to_contain_text("Hello.")
    add(page, "s", change("c1", "a = 1", "a = 2"))
    page.evaluate(f"{PANEL}.sessionContext.session.kernel.restart()")
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(2)
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(1)
    button(page.locator(f"{OWN} .planck-at-cell"), "Accept").click()
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
    assert sources(page)["c1"] == "a = 2"


def test_a_text_is_the_same_in_the_list_and_at_the_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "edited.ipynb", "a = 1")
    page = notebook.page
    add(page, "s", change("c1", "a = 1", "a = 2"))
    box, entry = page.locator(f"{OWN} .planck-at-cell"), page.locator(f"{OWN} .pk-ops li")
    button(box, "Edit").click()
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    entry.locator(".pk-edit .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" + 1")
    # The proposal is drawn again, because the cell has another number.
    page.evaluate(f"() => {{ {SHARED}.insertCell(0, {{cell_type: 'code', source: ''}}); }}")
    expect(entry).to_contain_text("cell 3")
    page.keyboard.type("0")
    expect(box.locator(".cm-content")).to_have_text("a = 2 + 10")
    button(box, "Accept").click()
    expect(box).to_have_count(0)
    assert sources(page)["c1"] == "a = 2 + 10"


@pytest.fixture
def autosave(lab: Lab) -> Iterator[None]:
    """Notebooks are saved a second after each change."""
    settings = lab.root.parent / "settings" / "@jupyterlab" / "docmanager-extension" / "plugin.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{"autosaveInterval": 1}', encoding="utf-8")
    yield
    settings.unlink()


@pytest.mark.own_page
@pytest.mark.usefixtures("autosave")
def test_the_file_has_nothing_of_a_proposal_before_it_is_accepted(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "autosaved.ipynb", "a = 1", "b = 1")
    page = notebook.page
    page.wait_for_function(f"() => !{PANEL}.context.model.dirty")  # a save of ours may collide with the automatic one
    before = written(notebook)
    insert = {"id": "n", "kind": "insert", "cell": "new", "after": "c1", "source": "n = 1"}
    add(page, "s", change("c1", "a = 1", "a = 2"), insert)
    box = page.locator(f"{OWN} .planck-at-cell", has_text="a = 2")
    button(box, "Edit").click()
    box.locator(".pk-edit .cm-content").click()
    page.keyboard.type("never ")
    assert page.evaluate(f"{PANEL}.context.model.dirty") is False
    assert written(notebook) == before
    page.evaluate(f"() => {{ {SHARED}.getCell(2).setSource('b = 2'); }}")
    page.wait_for_function(f"() => !{PANEL}.context.model.dirty")
    assert written(notebook) == before.replace(b"b = 1", b"b = 2")
    button(page.locator(f"{OWN} .planck-at-cell", has_text="n = 1"), "Accept").click()
    page.wait_for_function(f"() => {SHARED}.cells.length === 4 && !{PANEL}.context.model.dirty")
    assert b"n = 1" in written(notebook)


def written(notebook: Notebook) -> bytes:
    """Read the file between two writes, without counts: a cell may have run during the last write."""
    while True:
        content = notebook.path.read_bytes()
        with suppress(ValueError):
            json.loads(content)
            return re.sub(rb'"execution_count": (null|[0-9]+)', b"", content)


def reload(notebook: Notebook) -> Page:
    notebook.reload()
    return notebook.page


def restart(notebook: Notebook) -> Page:
    """Restart the kernel and go on with the session."""
    page = notebook.page
    page.evaluate(f"{PANEL}.sessionContext.session.kernel.restart()")
    page.wait_for_function(f"() => {PANEL}.sessionContext.session.kernel.status === 'idle'")
    page.evaluate(EXECUTE, f"{SETUP}\n{ADD}")
    page.evaluate(EXECUTE.replace("silent: true", "silent: false"), "%planck resume latest")
    return page


def open_tab(notebook: Notebook) -> Page:
    """Open a second tab, and look at it."""
    with notebook.page.context.expect_page() as opened:
        notebook.page.evaluate("address => { window.open(address); }", notebook.page.url)
    other = opened.value
    other.wait_for_function(f"() => window.jupyterapp && {PANEL}?.content?.widgets?.length > 0")
    other.evaluate(f"{PANEL}.content.activeCellIndex = 1")
    return other


def test_each_proposal_is_there_once_and_decided_once(lab: Lab, open_notebook: Open) -> None:
    random = Random(38)
    notebook = opened(lab, open_notebook, "moments.ipynb", TALK, *(f"x{at} = 1" for at in range(20)))
    page = notebook.page
    notebook.run_only(1)
    expect(notebook.output(1)).to_contain_text("Hello.")
    decided: dict[str, str] = {}
    for at in range(20 if SOAK else 5):
        notebook.save()
        add(page, f"s{at}", change(f"c{at + 2}", f"x{at} = 1", f"x{at} = 2"))
        page.wait_for_timeout(random.randint(0, 200))
        shown = random.choice([reload, restart, open_tab] if at > 2 else [(reload, restart, open_tab)[at]])(notebook)
        boxes = shown.locator(f"{OWN} .planck-at-cell")
        expect(boxes).to_have_count(1)
        if shown is not page:
            expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
        word = "Refuse" if shown is not page else random.choice(["Accept", "Refuse"])
        button(boxes, word).dblclick()
        expect(boxes).to_have_count(0)
        decided[f"s{at}"] = {"Accept": "accepted", "Refuse": "refused"}[word]
        states = "{each.id: each.changes[0].state for each in book.sets()}"
        page.evaluate(EXECUTE, f"from pathlib import Path; Path('states.txt').write_text(repr({states}))")
        assert literal_eval((lab.root / "states.txt").read_text(encoding="utf-8")) == decided
        if shown is not page:
            shown.close()
    twos = [name for name, state in decided.items() if state == "accepted"]
    assert [f"s{at - 2}" for at in range(2, 22) if sources(page)[f"c{at}"].endswith("2")] == twos


CLICK = """([button, time]) => {
    window.clicked = new Promise(done => setTimeout(() => done(button.click()), time - Date.now()));
}"""
IN_A_MOMENT_MS = 300
LOOK = f"() => {{ {PANEL}.content.activeCellIndex = {PANEL}.content.activeCellIndex ? 0 : 1; }}"


def accept_at_once(first: Page, second: Page, name: str, random: Random) -> None:
    """Have two tabs accept a new cell, each before it hears of the other one."""
    insert = {"id": name, "kind": "insert", "cell": name, "after": "c1", "source": name}
    held: list[tuple[Page, object]] = []
    box = f'{OWN} .planck-at-cell[data-change="{name}"]'
    accepting = f"[...document.querySelectorAll({f'{box} button'!r})].find(each => each.textContent === 'Accept')"
    for tab in (first, second):
        if tab is first:
            add(tab, name, insert)
        # The other tab may just have had the last word about where the person is.
        found = tab.wait_for_function(f"() => {accepting} || ({LOOK})()", polling=500)
        held.append((tab, found.as_element()))
    expect(first.locator(box)).to_have_count(0)  # a click may be there before this
    now = first.evaluate("Date.now()")
    for tab, accept in held:
        tab.evaluate(CLICK, [accept, now + IN_A_MOMENT_MS + random.uniform(0, 15)])
    for tab in (first, second):
        tab.evaluate("window.clicked")
        tab.evaluate(EXECUTE, "pass")  # the answer to its claim has arrived


def test_two_tabs_accept_at_the_same_moment(lab: Lab, open_notebook: Open) -> None:
    random = Random(38)
    notebook = opened(lab, open_notebook, "same-moment.ipynb", "a = 1")
    page = notebook.page
    notebook.save()
    tabs = (page, open_tab(notebook))
    for at in range(20 if SOAK else 5):
        accept_at_once(*(tabs[::-1] if at % 2 else tabs), f"n{at}", random)
        winner, loser = sorted(tabs, key=lambda tab: f"n{at}" not in sources(tab))
        assert f"n{at}" not in sources(loser)
        expect(loser.locator(f"{OWN} .planck-said")).to_have_text(
            re.compile("Another page with this notebook decides about it|It was decided already")
        )
        client = winner.evaluate(f"{PANEL}.sessionContext.session.kernel.clientId")
        decided = "[(each.changes[0].state, each.decided_by) for each in book.sets()][-1]"
        winner.evaluate(EXECUTE, f"assert {decided} == ('accepted', {client!r}), {decided}")
        expect(button(winner.locator(f"{OWN} .planck-review"), "Take back").first).to_be_visible()
        winner.evaluate(f"{PANEL}.context.save()")
        loser.evaluate(f"{PANEL}.context.revert()")
        assert [cell["id"] for cell in cells_of(loser)] == ["c0", "c1", *(f"n{each}" for each in range(at, -1, -1))]
        assert sources(winner) == sources(loser)
    tabs[1].close()


def test_a_change_is_taken_back_while_a_cell_blocks_the_kernel(lab: Lab, open_notebook: Open) -> None:
    wait = "import time\nfrom pathlib import Path\nwhile not Path('taken').exists(): time.sleep(0.05)"
    notebook = opened(lab, open_notebook, "blocked.ipynb", "a = 1", wait)
    page = notebook.page
    add(page, "s", change("c1", "a = 1", "a = 2"))
    notebook.run_only(2)
    expect(page.locator(f"{OWN} .jp-Cell").nth(2)).to_contain_text("[*]")
    bar = page.locator(f"{OWN} .planck-review")
    button(page.locator(f"{OWN} .planck-at-cell"), "Accept").click()
    button(bar, "Take back").click()
    expect(bar).to_contain_text("Variables and files stay as they are.")
    expect(bar.locator(".pk-strip")).to_have_count(0)
    assert sources(page)["c1"] == "a = 1"
    (lab.root / "taken").touch()
    states = "[change.state for each in book.sets() for change in each.changes]"
    page.evaluate(EXECUTE, f"assert {states} == ['taken back'], {states}")


def test_a_set_without_an_effect_is_taken_back_too(lab: Lab, open_notebook: Open) -> None:
    notebook = opened(lab, open_notebook, "nothing.ipynb", "a = 1")
    page = notebook.page
    insert = {"id": "n", "kind": "insert", "cell": "new", "after": "c1", "source": "n = 1"}
    add(page, "s", insert, {"id": "d", "kind": "delete", "cell": "new", "before": "n = 1"})
    page.evaluate("window.jupyterapp.commands.execute('planck:review')")
    bar = page.locator(f"{OWN} .planck-review")
    button(bar, "Accept the 2 ready").click()
    button(bar, "Take back").click()
    expect(bar).to_contain_text("Variables and files stay as they are.")
    expect(bar.locator(".pk-strip")).to_have_count(0)


@pytest.fixture
def plain_kernel(lab: Lab) -> str:
    """A kernel of the same environment which has not loaded our package."""
    folder = lab.root.parent / "data" / "kernels" / "plain-python"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Plain", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder.name


def change_kernel(page: Page, name: str) -> None:
    page.evaluate(f"{PANEL}.sessionContext.changeKernel({{name: {name!r}}})")
    page.wait_for_function(f"() => {PANEL}.sessionContext.session?.kernel?.name === {name!r}")


def test_the_kernel_is_changed_and_changed_back(lab: Lab, open_notebook: Open, plain_kernel: str) -> None:
    notebook = opened(lab, open_notebook, "kernels.ipynb", "a = 1", "1 / 0", TALK, "%planck resume latest", SLOW)
    page = notebook.page
    boxes, help_bar = page.locator(f"{OWN} .planck-at-cell"), page.locator(f"{OWN} .planck-help")
    notebook.run_only(3)
    expect(notebook.output(3)).to_contain_text("Hello.")
    notebook.run_only(5)
    notebook.run_only(2)
    expect(button(help_bar, "Fix")).to_be_visible()  # what waits behind a failed cell is not run
    add(page, "s", change("c1", "a = 1", "a = 2"))
    button(help_bar, "Fix").click()
    expect(help_bar).to_contain_text("helper works on this cell")
    before = cells_of(page)
    change_kernel(page, plain_kernel)
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text(
        "`%planck resume latest` shows the open proposals again"
    )
    expect(boxes).to_have_count(0)
    expect(help_bar).to_have_count(0)
    assert cells_of(page) == before
    notebook.run_only(1)
    page.wait_for_function(f"() => {PANEL}.content.widgets[1].model.executionCount === 1")

    change_kernel(page, "python3")
    notebook.run_first(1)
    notebook.run_only(4)
    expect(boxes).to_have_count(1)
    button(boxes, "Accept").click()
    expect(boxes).to_have_count(0)
    assert sources(page)["c1"] == "a = 2"
    notebook.run_only(5)
    notebook.run_only(2)
    button(help_bar, "Fix").click()
    expect(help_bar).to_contain_text("helper works on this cell")
    change_kernel(page, plain_kernel)
    expect(page.locator(f"{OWN} .planck-review")).to_contain_text("and the help with the cell too; ask for it again.")
    expect(help_bar).to_have_count(0)


R_KERNEL = """from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel
class R(Kernel):
    implementation = banner = "R"
    implementation_version = "1"
    language_info = {"name": "R", "mimetype": "text/x-rsrc", "file_extension": ".r"}
    async def do_execute(self, code, silent, *_args, **_more):
        return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
IPKernelApp.launch_instance(kernel_class=R)"""


@pytest.mark.own_page
def test_a_kernel_of_another_language_is_left_alone(lab: Lab, open_notebook: Open, window: Window) -> None:
    folder = lab.root.parent / "data" / "kernels" / "plain-r"
    folder.mkdir(parents=True)
    spec = {"argv": [sys.executable, "-c", R_KERNEL, "-f", "{connection_file}"], "display_name": "R", "language": "R"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    path = lab.write("r.ipynb", "x <- 1", "%%planck\nhello")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["metadata"]["kernelspec"] = {"name": "plain-r", "display_name": "R", "language": "R"}
    path.write_text(json.dumps(content), encoding="utf-8")
    notebook = open_notebook(path)
    page = notebook.page
    notebook.run_all()
    notebook.wait_idle()
    assert page.evaluate(f"{PANEL}.sessionContext.session.kernel.info.then(info => info.language_info.name)") == "R"
    assert page.evaluate("window.jupyterapp.commands.isEnabled('planck:fix-cell')") is False
    expect(page.locator(f"{OWN} .planck-review")).to_be_hidden()
    expect(page.locator(f"{OWN} .planck-help")).to_have_count(0)
    assert [line for line in window.said if "planck" in line] == []
    # With another kernel, the notebook has proposals.
    page.evaluate(f"{SHARED}.getCell(0).setSource({SETUP + chr(10) + ADD!r})")
    page.evaluate(f"{PANEL}.sessionContext.changeKernel({{name: 'python3'}})")
    page.wait_for_function(f"() => {PANEL}.sessionContext.session?.kernel?.name === 'python3'")
    notebook.run_first(1)
    page.wait_for_function(f"() => {PANEL}.content.widgets[0].model.executionState === 'idle'")
    add(page, "s", change("c1", "%%planck\nhello", "%%planck\nbye"))
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(1)
    page.evaluate(f"{PANEL}.sessionContext.changeKernel({{name: 'plain-r'}})")
    expect(page.locator(f"{OWN} .planck-at-cell")).to_have_count(0)
    expect(page.locator(f"{OWN} .planck-review .pk-ask")).to_be_hidden()
