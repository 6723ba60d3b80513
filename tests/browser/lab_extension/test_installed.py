"""The wheel beside several versions of JupyterLab: one journey in each, from the first cell to a corrected one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from browser.conftest import installed_lab
from browser.lab_extension.test_meanwhile import accept_at_once, open_tab
from browser.lab_extension.test_panel import WAITS
from browser.lab_extension.test_proposals import (
    ADD,
    CELLS,
    EXECUTE,
    PRESSED,
    PROPOSED,
    READ,
    SETUP,
    SHARED,
    SOAK,
    button,
    cells_of,
    changes_of,
    plain,
    sources,
)
from playwright.sync_api import Request, expect
from support.cell_sets import random_set, set_applied
from support.evidence import missing

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

ENVIRONMENTS = sorted(path.stem for path in Path(__file__).parents[2].glob("labs/*.txt"))
WITH_JOURNEY = [name for name in ENVIRONMENTS if name != "ipykernel6"]
"""An older ipykernel hears nothing during a cell, so its agents cannot read the notebook."""
POLICY = "script-src 'self' 'unsafe-eval' 'unsafe-inline'"
STRICT = f"--ServerApp.tornado_settings={{'headers': {{'Content-Security-Policy': \"{POLICY}\"}}}}"


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest) -> Path:
    """The environment with this name."""
    folder = Path(os.environ.get("PLANCK_NB_LABS", "nowhere"), request.param)
    if not (folder / "installed").is_file():
        missing(
            "PLANCK_NB_LABS names no folder with other versions of JupyterLab; run `python tests/labs/install.py "
            "FOLDER` and set it.",
            "labs",
        )
    return folder


@pytest.fixture(scope="module")
def lab(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with installed_lab(tmp_path_factory.mktemp(environment.name), environment) as lab:
        yield lab


@pytest.mark.parametrize("environment", ENVIRONMENTS, indirect=True)
def test_jupyterlab_lists_the_extension_as_compatible(environment: Path) -> None:
    command = [str(environment / "bin" / "jupyter"), "labextension", "list"]
    done = subprocess.run(command, env={"PATH": str(environment / "bin")}, capture_output=True, text=True, check=True)
    said = (done.stdout + done.stderr).splitlines()
    [line] = [line for line in said if "@planck-nb/lab" in line]
    assert "enabled" in line
    assert "OK" in line
    assert "(python, planck-nb)" in line


@pytest.mark.parametrize("environment", WITH_JOURNEY, indirect=True)
def test_a_journey(lab: Lab, open_notebook: Open, window: Window, environment: Path) -> None:
    setup = f"{SETUP}\nagent('analyst', {READ!r}, {PROPOSED!r}, 'It is **two** now.')"
    setup += "\nagent('helper', 'No zero.\\n```python\\nc = 1 / 2\\nc\\n```')\nagent('guide', 'Hello.')"
    cells = (setup, "a = 1", "b = 1\nb", "%%planck analyst --tools notebook\nMake it two.", "c = 1 / 0\nc")
    notebook = open_notebook(lab.write("journey.ipynb", *cells), width=1400)
    page = notebook.page
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)

    # Propose, edit, accept, take back.
    notebook.run_only(3)
    expect(page.locator(".planck-at-cell")).to_have_count(2)
    assert sources(page)["c2"] == "b = 1\nb"
    before = cells_of(page)[1:3]
    change = page.locator(".planck-at-cell", has_text="a change to this cell")
    button(change, "Edit").click()
    change.locator(".pk-edit .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" + 1")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".planck-at-cell")).to_have_count(1)
    button(page.locator(".planck-at-cell"), "Accept").click()
    expect(page.locator(".planck-at-cell")).to_have_count(0)
    assert sources(page)["c2"] == "b = 2\nb + 1"
    expect(notebook.output(4)).to_contain_text("It is two now.")
    button(page.locator(".planck-review"), "Take back").click()
    expect(page.locator(".planck-review")).to_contain_text("Variables and files stay as they are.")
    assert cells_of(page)[1:3] == before

    # Fix.
    notebook.run_only(4)
    expect(page.locator(".jp-cell-toolbar").get_by_role("button", name="Fix This Cell")).to_be_enabled()
    button(page.locator(".planck-help"), "Fix").click()
    button(page.locator(".planck-at-cell"), "Accept and run").click()
    expect(page.locator(".planck-help")).to_contain_text("Runs now")
    expect(notebook.output(4)).to_contain_text("0.5")

    ask_in_the_panel(notebook, environment.name)
    if environment.name != "collaboration":  # its server writes the file when it likes, and asks about other changes
        # Without a kernel, the run looks as it did.
        notebook.save()
        notebook.reload(kernel=False)
        run = notebook.output(3).locator(".pk-saved")
        expect(run).to_contain_text("It is two now.")
    assert [line for line in window.said if "planck" in line] == []
    assert [url for url in asked if not url.startswith((lab.url, "blob:", "data:"))] == []


def ask_in_the_panel(notebook: Notebook, name: str) -> None:
    """Ask in the side panel, and keep the answer."""
    page = notebook.page
    page.evaluate("window.jupyterapp.commands.execute('planck:show-panel')")
    panel = page.locator(".pk-panel")
    panel.get_by_label("Agent").select_option("guide")
    prompt = panel.get_by_label("Prompt", exact=True)
    prompt.fill("Hello?")
    prompt.press("Enter")  # a cell that has just ended may have taken the focus
    expect(panel.locator(".planck-answer")).to_contain_text("Hello.")
    notebook.screenshot(f"panel-{name}")
    button(panel, "Keep in the notebook").click()
    expect(panel.locator(".planck-answer")).to_have_count(0)
    assert cells_of(page)[5]["source"] == "%%planck guide\nHello?"
    expect(notebook.output(5)).to_contain_text("Hello.")


TYPE = f"""() => {{
    const cells = () => {SHARED}.cells;
    window.typing = setInterval(() => {{
        const cell = cells().at(-1);
        cell.updateSource(cell.source.length, cell.source.length, 'y');
    }}, 20);
}}"""
"""Another person types at the end."""


@pytest.mark.parametrize("environment", ["collaboration"], indirect=True)
def test_sets_beside_another_person_who_types(lab: Lab, open_notebook: Open) -> None:
    random = Random(38 + SOAK)
    notebook = open_notebook(lab.write("shared.ipynb", f"{SETUP}\n{ADD}", *(f"x{at} = {at}" for at in range(12))))
    page = notebook.page
    notebook.run_all()
    notebook.wait_idle()
    with page.context.expect_page() as opened:
        page.evaluate("address => { window.open(address); }", page.url)
    other = opened.value
    other.wait_for_function(
        f"() => window.jupyterapp?.shell.currentWidget?.content?.model && {SHARED}.cells.length === 13"
    )
    other.evaluate(TYPE)
    bar = page.locator(".planck-review")
    for at in range(50 if SOAK else 5):
        before = plain(cells_of(page)[:-1])
        operations = random_set([{**cell} for cell in before[1:]], random)
        page.evaluate(EXECUTE, f"add('s{at}', {changes_of(operations)!r})")
        count = "a change" if len(operations) == 1 else f"{len(operations)} changes"
        if not at:
            expect(other.locator(".planck-review")).to_contain_text(count)
            page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
        expect(bar).to_contain_text(count)
        if not at:
            button(bar, "Review").click()
        page.wait_for_function(PRESSED, arg=f"Accept the {len(operations)} ready")
        expect(page.locator(".pk-ops li")).to_have_count(0)
        expect(bar.locator(".pk-strip")).to_have_count(1)
        found = plain(cells_of(page)[:-1])
        assert found == [before[0], *set_applied(before[1:], operations)], operations
        page.wait_for_function(PRESSED, arg="Take back")
        expect(bar.locator(".pk-strip")).to_have_count(0)
        assert plain(cells_of(page)[:-1]) == before, operations
    other.evaluate("clearInterval(window.typing)")
    typed = other.evaluate(CELLS)
    assert len(typed[-1]["source"]) > len("x11 = 11")
    page.wait_for_function(f"source => {SHARED}.cells.at(-1).source === source", arg=typed[-1]["source"])
    assert plain(other.evaluate(CELLS)) == plain(cells_of(page))
    other.close()


@pytest.mark.parametrize("environment", ["collaboration"], indirect=True)
def test_two_tabs_with_one_document_accept_at_the_same_moment(lab: Lab, open_notebook: Open) -> None:
    random = Random(38)
    notebook = open_notebook(lab.write("moment.ipynb", f"{SETUP}\n{ADD}", "a = 1"), width=1400)
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    tabs = (notebook.page, open_tab(notebook))
    for at in range(20 if SOAK else 3):
        accept_at_once(*(tabs[::-1] if at % 2 else tabs), f"n{at}", random)
        expected = ["c0", "c1", *(f"n{each}" for each in range(at, -1, -1))]
        for tab in tabs:
            tab.wait_for_function(f"count => {SHARED}.cells.length >= count", arg=len(expected))
            assert [cell["id"] for cell in cells_of(tab)] == expected
        states = "[each.changes[0].state for each in book.sets()]"
        tabs[0].evaluate(EXECUTE, f"assert {states} == ['accepted'] * {at + 1}, {states}")
    tabs[1].close()


@pytest.mark.parametrize("environment", ["ipykernel6"], indirect=True)
def test_an_older_ipykernel_answers_between_cells_and_everything_says_so(lab: Lab, open_notebook: Open) -> None:
    setup = f"{SETUP}\n{ADD}\nagent('ann', 'Hello.')"
    cells = (setup, "a = 1", WAITS.format("blocks", "unblocked"))
    notebook = open_notebook(lab.write("older.ipynb", *cells), width=1400)
    page = notebook.page
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    page.evaluate("window.jupyterapp.commands.execute('planck:show-panel')")
    panel, box, bar = page.locator(".pk-panel"), page.locator(".planck-at-cell"), page.locator(".planck-review")
    expect(panel.locator(".planck-row", has_text="ann")).to_be_visible()
    change = {"id": "x", "kind": "change", "cell": "c1", "before": "a = 1", "source": "a = 2"}
    page.evaluate(EXECUTE, f"add('s', {[change]!r})")
    expect(box).to_have_count(1)
    notebook.run_only(2)
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus === 'busy'")
    button(box, "Accept").click()
    expect(bar).to_contain_text("This waits until the cell ends. The kernel's ipykernel answers between cells only")
    expect(panel).to_contain_text("The kernel is busy")
    expect(panel).to_contain_text("The kernel's ipykernel answers between cells only")
    button(panel, "Change").click()
    expect(panel.locator(".planck-settings [role=status]")).to_contain_text("This waits until the cell ends.")
    panel.get_by_label("Agent").select_option("ann")
    panel.get_by_label("Prompt", exact=True).fill("Hello?")
    button(panel, "Queue").click()
    expect(panel).to_contain_text("Waits until the kernel is free.")
    notebook.screenshot("panel-older-ipykernel")
    assert sources(page)["c1"] == "a = 1"
    (lab.root / "unblocked").touch()
    expect(panel.locator(".planck-answer")).to_contain_text("Hello.")
    expect(box).to_have_count(0)
    assert sources(page)["c1"] == "a = 2"
    expect(panel.locator(".planck-settings")).to_contain_text("From default")
    expect(panel).not_to_contain_text("answers between cells only")


@pytest.mark.parametrize("environment", ["notebook7"], indirect=True)
def test_a_page_with_a_strict_policy_shows_the_live_view(
    environment: Path, tmp_path: Path, window: Window, request: pytest.FixtureRequest
) -> None:
    with installed_lab(tmp_path, environment, STRICT) as lab:
        strict = type(window)(lab, request.getfixturevalue("chromium"))
        try:
            setup = f"{SETUP}\nagent('analyst', 'It is **two** now.')"
            notebook = strict.open(lab.write("strict.ipynb", setup, "%%planck analyst\nHow much?"))
            notebook.run_first(1)
            notebook.wait_idle(cells=1)
            notebook.run_only(1)
            expect(notebook.output(1).locator("strong", has_text="two").first).to_be_visible()
            expect(notebook.output(1).locator(".pk:not(.pk-saved)")).to_be_visible()
        finally:
            strict.close()
