"""`%%planck --team` in JupyterLab: a team on real model servers, and one that works in the background."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect
from support.fixing_team import model_servers, run_tests, write_project, write_template

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


START = """import asyncio, os
os.chdir({project!r})
%load_ext planck_nb
%planck trust
%planck team start fixers
from planck_nb import get_workspace
lead = get_workspace().teams["fixers"].orchestrator
async def change_model():
    # A scripted model says the same to every message: another one goes on where this one has delegated.
    async for event in lead.subscribe():
        if event.type == "turn_end":
            lead.model = get_workspace().model("llama_cpp:default", base_url={reporter!r})
            return
changing = asyncio.create_task(change_model())"""
DELEGATIONS = """%%planck sql
SELECT concat_ws(' ', kind, from_agent_name, to_agent_name, status) AS line FROM delegations
WHERE session_id = getvariable('session') ORDER BY kind, to_agent_name"""


def test_a_team_on_llama_cpp_fixes_a_project_in_a_cell(lab: Lab, open_notebook: Open, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_project(project)
    with model_servers(tmp_path) as servers:
        write_template(project, servers)
        cells = (
            START.format(project=str(project), reporter=servers["reporter"]),
            "%%planck --team fixers\nFix the project.",
            DELEGATIONS,
            "%planck timeline",
        )
        notebook = open_notebook(lab.write("fixers.ipynb", *cells))
        notebook.run_first(2)
        output = notebook.output(1)
        expect(output.locator(".pk-lane")).to_have_count(4)
        lead = output.locator(".pk-lane").first
        expect(lead.locator(".pk-doing")).to_contain_text("Waiting for")
        names = output.locator(".pk-lane .pk-who b").all_inner_texts()
        assert names == ["lead", "coder", "writer", "tester"]
        expect(output.get_by_text("3 need approval")).to_be_visible()
        expect(output.locator(".pk-ask")).to_have_count(2)
        expect(output.get_by_text("1 more waits")).to_be_visible()
        assert set(output.locator(".pk-ask .pk-asked").all_inner_texts()) < {
            "Task from lead: Correct the sum in calc.py, please.",
            "Task from lead: Describe the module in NOTES.md now.",
            "Task from lead: Run all tests once before the change.",
        }
        output.locator(".pk-lanes").scroll_into_view_if_needed()
        notebook.screenshot("team-llama")
        for left in (2, 1, 0):  # of the three, two are shown at a time
            output.get_by_role("button", name="Allow once").first.click()
            expect(output.locator(".pk-ask")).to_have_count(left)
        # The orchestrator asks the tester in each turn, and how many turns there are depends on when responses come.
        ask, done = output.get_by_label("Approval for tester: bash"), output.locator(".pk-bar")
        expect(ask.locator(".pk-asked")).to_have_text("Question from lead: Do the tests pass at last?")
        while not done.count():
            with suppress(PlaywrightTimeout):  # the run may end without another request
                output.get_by_role("button", name="Allow once").click(timeout=2_000)
        expect(done).to_contain_text("Done")
        notebook.wait_idle(cells=2)
    saved = output.locator(".jp-RenderedHTML").last
    expect(saved).to_contain_text("Final report: the sum is right, and its tests pass.")
    expect(saved).to_contain_text("lead → coder, task: Correct the sum in calc.py, please.")
    output.scroll_into_view_if_needed()
    notebook.screenshot("team-llama-saved")
    assert run_tests(project) == 0
    notebook.run_only(2)
    notebook.wait_idle(cells=3)
    rows = [" ".join(line.split()[1:]) for line in _plain(notebook, 2).splitlines()[1:]]
    assert set(rows[:-3]) == {"ask lead tester answered"}
    assert rows[-3:] == [
        "delegate lead coder answered",
        "delegate lead tester answered",
        "delegate lead writer answered",
    ]
    notebook.run_only(3)
    notebook.wait_idle()
    notebook.output(3).scroll_into_view_if_needed()
    notebook.screenshot("team-llama-timeline")


def _plain(notebook: Notebook, cell: int) -> str:
    [output] = [output for output in notebook.outputs(cell) if "data" in output]
    text: Any = output["data"]["text/plain"]
    return text if isinstance(text, str) else "".join(text)
