"""The view of a run of a team in JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """import asyncio, time
from planck_nb import Agent
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.tool import Tool
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.jupyter.live.view import LiveView
from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from planck_nb.teams.inter_agent_tools import orchestrator_tools, worker_tools
from planck_nb.teams.team_run import TeamRun
from planck_nb.testing import scripted_model

go, waiting, approvals = asyncio.Event(), [], Approvals(Policy((Rule.parse("ask", "edit"),)))
approvals.attend()
async def wait(args):
    waiting.append(args["what"])
    await go.wait()
    return f"waited for {args['what']}"
wait = Tool(name="wait", description="Wait.", execute_fn=wait)
edit = Tool(name="edit", description="Edit.", execute_fn=lambda args: "Edited.")
def call(name, **arguments):
    return {"name": name, "arguments": arguments}
def agent(name, role, script, *tools):
    own = orchestrator_tools() if role == "orchestrator" else worker_tools()
    return Agent(id=f"{name}-1", name=name, type=name, role=role, team_id="t", model=scripted_model(script),
        tools=[*own, *tools], approvals=approvals)
def give(to, task):
    return call("delegate_task", type=to, task=task)
lead = agent("lead", "orchestrator", [
    {"text": "I hand the work out.", "calls": [
        give("ingest", "Clean the March export; both date formats."),
        give("model", "Refit the forecast on the clean table."),
        give("report", "Draft the report with the sections we agreed.")]},
    *["The outline is in. I wait for the others."] * 4])
ingest = agent("ingest", "worker", [
    {"text": "I read the export. It has two formats.", "calls": [call("wait", what="python clean.py --month 3")]},
    "Cleaned, 3 rows rejected."], wait)
model = agent("model", "worker", [
    {"text": "First the columns.", "calls": [call("ask_agent", type="critic", question="Which columns are needed?")]},
    "The forecast is refitted."])
critic = agent("critic", "worker", [{"calls": [call("wait", what="a look at the table")]}, "Date and amount."], wait)
report = agent("report", "worker", [{"text": "A correction.", "calls": [call("edit", path="report.md")]}, "Drafted."],
    edit)
idle = agent("spare", "worker", ["x"])
"""
SHOW = """run = TeamRun(lead, "Clean the March export, refit the forecast, and draft the report.", None).run
actions = RunActions(lead, run, lambda run: None)
view = LiveView(run.events, agent="lead", actions=actions, members=actions.agents.members,
    marker="planck-run-1")
display(view)
"""
FINISH = """
transcript = transcript_of("lead", "demo:script", run.events.since(0), agent_id="lead-1")
data, metadata = Answer(transcript).mime_bundle("planck-run-1")
display(data, raw=True, metadata=metadata)
view.finish({"outcome": "done", "seconds": 84, "spent": transcript.spent, "cost": None, "model": "demo:script",
    "text": "x"}, saved=True)
print([(e.target_name, e.error) for e in run.events.since(0) if e.type == "responded"])
print([m.message.text for m in ingest.state.messages if m.message.type == "user"])"""
RUN = f"{SHOW}await run.wait(){FINISH}"
FOCUS = "document.activeElement"


def start(lab: Lab, open_notebook: Open, name: str, cell: str = RUN, *, width: int = 1000) -> Notebook:
    notebook = open_notebook(lab.write(f"{name}.ipynb", SETUP, cell), width=width)
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-lane")).to_have_count(6)
    expect(output.locator(".pk-ask")).to_be_visible()
    expect(lane(notebook, "ingest").locator(".pk-doing")).to_contain_text("wait python clean.py")
    expect(lane(notebook, "model").locator(".pk-doing")).to_contain_text("Waiting for critic")
    return notebook


def lane(notebook: Notebook, name: str) -> Any:
    return notebook.output(1).locator(f".pk-lane[data-agent='{name}-1']")


def allow(notebook: Notebook) -> None:
    notebook.output(1).get_by_role("button", name="Allow once").click()


def let_go(notebook: Notebook) -> None:
    """Allow the edit, and stop the two workers whose tools wait."""
    allow(notebook)
    expect(notebook.output(1).locator(".pk-ask")).to_have_count(0)
    for name in ("ingest", "critic"):
        if lane(notebook, name).get_attribute("aria-expanded") == "false":
            lane(notebook, name).click()
        expect(lane(notebook, name)).to_have_attribute("aria-expanded", "true")
        notebook.output(1).get_by_role("button", name=f"Stop {name}").click()
    expect(notebook.output(1).locator(".pk-bar")).to_contain_text("Done")


def test_each_agent_has_a_row(lab: Lab, open_notebook: Open) -> None:
    notebook = start(lab, open_notebook, "team-480", width=480)
    output = notebook.output(1)
    names = output.locator(".pk-lane .pk-who b")
    expect(names).to_have_text(["lead", "report", "ingest", "model", "critic", "spare"])
    words = ["Waiting for ingest and 2 more", "Needs approval", "Working", "Waiting for critic", "Working", "Idle"]
    expect(output.locator(".pk-lane .pk-doing > b")).to_have_text(words)
    exchanges = output.locator(".pk-wires .pk-what").all_inner_texts()
    assert len(exchanges) == 4
    assert "task: Clean the March export" in exchanges[0]
    assert output.locator(".pk-team, .pk-view").get_by_text("Clean the March export").count() == 0  # said once
    ask = output.get_by_label("Approval for report: edit")
    expect(ask.locator(".pk-asked")).to_have_text("Task from lead: Draft the report with the sections we agreed.")
    expect(output.get_by_role("button", name="Stop all")).to_be_visible()
    edge = output.locator(".pk").bounding_box()
    assert edge is not None
    for part in output.locator(".pk-lane > *, .pk-wires .pk-line, .pk-ask, .pk-stop").all():
        box = part.bounding_box()
        assert box is None or box["x"] + box["width"] <= edge["x"] + edge["width"] + 1
    output.locator(".pk-lanes").scroll_into_view_if_needed()
    notebook.screenshot("team-480")
    lane(notebook, "ingest").click()
    expect(output.locator(".pk-inset .pk-prose")).to_have_text("I read the export. It has two formats.")
    notebook.screenshot("team-open-480")
    output.locator(".pk-dock").scroll_into_view_if_needed()
    notebook.screenshot("team-below-480")
    let_go(notebook)
    saved = output.locator(".jp-RenderedHTML").last
    text = saved.inner_text()
    assert text.index("The outline is in.") < text.index("How it was made")
    saved.locator("summary", has_text="How it was made").click()
    expect(saved.get_by_text("lead → ingest, task: Clean the March export; both date formats.")).to_be_visible()
    saved.locator("summary", has_text=re.compile("^model")).click()
    expect(saved.get_by_text("First the columns.")).to_be_visible()
    notebook.screenshot("team-saved-480")
    notebook.theme("JupyterLab Light")


def test_one_worker_is_stopped_and_one_is_steered(lab: Lab, open_notebook: Open) -> None:
    notebook = start(lab, open_notebook, "team-steer")
    output = notebook.output(1)
    lane(notebook, "ingest").click()
    output.get_by_label("Steer ingest").fill("Only the first week.")
    output.get_by_label("Steer ingest").press("Enter")
    expect(output.locator(".pk-queue")).to_contain_text("ingest: Only the first week.")
    lane(notebook, "spare").click()
    expect(output.locator(".pk-inset")).to_have_count(1)
    box = output.get_by_label("Steer spare")
    box.fill("Hello?")
    box.press("Enter")
    expect(output.locator(".pk-inset .pk-note")).to_contain_text("is not part of this run")
    expect(box).to_have_value("Hello?")
    lane(notebook, "critic").click()
    expect(output.get_by_label("Steer spare")).to_have_count(0)
    output.get_by_role("button", name="Stop critic").click()
    expect(lane(notebook, "critic").locator(".pk-doing")).to_contain_text("Stopped")
    expect(lane(notebook, "ingest").locator(".pk-doing")).to_contain_text("Working")
    expect(output.locator(".pk-wires .pk-meta").nth(3)).to_have_text("failed")
    lane(notebook, "spare").click()
    expect(output.get_by_label("Steer spare")).to_have_value("Hello?")
    allow(notebook)
    lane(notebook, "ingest").click()
    output.get_by_role("button", name="Stop ingest").click()
    notebook.wait_idle()
    assert "('critic', True)" in notebook.printed(1)
    expect(output.locator(".pk-unsent")).to_have_text(["Not sent: Only the first week.", "Not sent: Hello?"])


def test_the_keyboard_is_enough(lab: Lab, open_notebook: Open) -> None:
    notebook = start(lab, open_notebook, "team-keys")
    output, page = notebook.output(1), notebook.page
    focused = f"{FOCUS}.dataset.agent ?? {FOCUS}.getAttribute('aria-label') ?? {FOCUS}.textContent"
    expect(output.locator(".pk-lane[tabindex='0']")).to_have_count(1)
    lane(notebook, "lead").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "report-1"
    page.keyboard.press("End")
    assert page.evaluate(focused) == "spare-1"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "ingest-1"
    page.keyboard.press("Enter")
    expect(lane(notebook, "ingest")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    for _ in range(4):
        if page.evaluate(focused) == "Steer ingest":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("Only March.")
    page.keyboard.press("Enter")
    expect(output.locator(".pk-queue")).to_contain_text("Only March.")
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "ingest-1"
    page.keyboard.press("ArrowLeft")
    expect(lane(notebook, "ingest")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(lane(notebook, "ingest")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    while page.evaluate(focused).strip() != "Stop ingest":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(lane(notebook, "ingest").locator(".pk-doing")).to_contain_text("Stopped")
    expect(output.get_by_label("Steer or queue")).to_have_value("Only March.")
    page.keyboard.press("Control+.")
    notebook.wait_idle()


def test_a_screen_reader_is_told_of_tasks_answers_and_approvals(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("team-reader.ipynb", SETUP, RUN))
    notebook.page.evaluate(
        """() => {
            window.said = [];
            new MutationObserver(() => {
                const text = document.querySelector('.pk > [aria-live=polite]')?.textContent;
                if (text && text !== window.said.at(-1)) window.said.push(text);
            }).observe(document.body, {childList: true, subtree: true, characterData: true});
        }"""
    )
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-ask")).to_be_visible()
    team = output.get_by_role("treegrid", name="Team")
    expect(team.get_by_role("columnheader")).to_have_count(6)
    expect(team.get_by_role("row")).to_have_count(8)
    cells = [cell.split() for cell in lane(notebook, "report").get_by_role("gridcell").all_inner_texts()]
    assert ["report", "worker"] in cells
    expect(output.locator(".pk-status .pk-model")).to_have_text("demo:script")  # of all of them
    assert [cell for cell in cells if cell[:2] == ["Needs", "approval"]]
    assert lane(notebook, "lead").get_attribute("aria-level") == "1"
    assert lane(notebook, "report").get_attribute("aria-level") == "2"
    expect(output.get_by_role("button", name="Open report")).to_have_attribute("aria-expanded", "false")
    expect(output.get_by_role("region", name="Tasks and answers")).to_be_visible()
    said = "() => window.said.some(text => text.includes({}))"
    notebook.page.wait_for_function(said.format("'Approval needed: report, edit'"))
    notebook.page.wait_for_function(said.format("'model asks critic a question.'"))
    let_go(notebook)
    spoken = notebook.page.evaluate("window.said")
    assert len(spoken) < 10, spoken
    assert not [text for text in spoken if "Waiting for the model" in text], "what each agent does is not announced"


def test_a_reload_shows_the_team_again(lab: Lab, open_notebook: Open) -> None:
    notebook = start(lab, open_notebook, "team-reload")
    before = notebook.output(1).locator(".pk-team").inner_text()
    notebook.save()
    notebook.reload()
    output = notebook.output(1)
    expect(output.locator(".pk-lane")).to_have_count(6)
    expect(output.locator(".pk-ask")).to_be_visible()
    assert output.locator(".pk-team").inner_text() == before
    let_go(notebook)


MANY = """from scripted_run import ScriptedRun, team_of, write_in_lanes
run = ScriptedRun()
view = LiveView(run.log, agent="lead", actions=run, members=lambda: team_of(200))
display(view)
await write_in_lanes(run, 50, 2, ended=range(1, 40))
await run.stopped.wait()
view.finish(run.summary())"""


def test_fifty_live_lanes_of_two_hundred_agents(lab: Lab, open_notebook: Open) -> None:
    """How smooth they are is measured by `bench_views.py`."""
    notebook = open_notebook(lab.write("team-many.ipynb", SETUP, MANY))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-lane")).to_have_count(50)
    expect(output.locator(".pk-restrow")).to_have_text("and 150 idle")
    for lane in (0, 30, 49):
        expect(output.locator(".pk-lane").nth(lane).locator(".pk-doing")).to_contain_text("word")
    height = output.locator(".pk-lanes").evaluate("box => box.offsetHeight")
    notebook.page.mouse.move(5, 5)
    expect(output.locator(".pk-restrow")).to_have_text("and 189 idle")
    expect(output.locator(".pk-lane")).to_have_count(11)
    assert output.locator(".pk-lanes").evaluate("box => box.offsetHeight") == height, "nothing below it moves"
    output.locator(".pk-lanes").scroll_into_view_if_needed()
    notebook.screenshot("team-many")
    output.locator(".pk-restrow button").click()
    expect(output.locator(".pk-lane")).to_have_count(200)
    output.locator(".pk-stop").click()
    notebook.wait_idle()
