"""Consent, steering and queueing from the browser to a real agent and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = "%load_ext planck_nb\n%planck model demo"
ASK = '%%planck --tools bash\nUse bash for "echo one two".'


def test_what_is_allowed_runs_and_the_transcript_has_it(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("allow.ipynb", SETUP, ASK))
    notebook.run_all()
    output = notebook.output(1)
    ask = output.get_by_label("Approval: bash")
    expect(ask.locator(".pk-well")).to_have_text("echo one two")
    expect(ask.locator(".pk-meta")).to_contain_text("expires in 4:5")
    notebook.screenshot("approval-real")
    ask.get_by_role("button", name="Allow once").click()
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    saved = "".join(notebook.outputs(1)[-1]["data"]["text/plain"])
    assert saved.startswith("[bash echo one two]\n")
    assert "one two" in saved.split("\n", 1)[1]
    assert notebook.outputs(1)[-1]["metadata"]["planck_nb"]["outcome"] == "done"


def test_what_is_edited_runs_as_edited(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("edited.ipynb", SETUP, ASK))
    notebook.run_all()
    output = notebook.output(1)
    ask = output.get_by_label("Approval: bash")
    ask.get_by_role("button", name="Edit arguments").click()
    ask.get_by_label("command").fill("echo three")
    ask.get_by_role("button", name="Allow edited once").click()
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    saved = "".join(notebook.outputs(1)[-1]["data"]["text/plain"])
    assert saved.startswith("[bash echo three: edited by you]\n")
    assert "three" in saved.split("\n", 1)[1]


def test_edits_that_do_not_fit_are_refused_and_can_be_made_again(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("refused_edits.ipynb", SETUP, ASK))
    notebook.run_all()
    output = notebook.output(1)
    ask = output.get_by_label("Approval: bash")
    ask.get_by_role("button", name="Edit arguments").click()
    ask.get_by_label("command").fill("")
    ask.get_by_label("command").press("Control+Enter")
    expect(output.locator(".pk-dock .pk-note")).to_contain_text("Invalid arguments for bash")
    ask.get_by_label("command").fill("echo four")
    ask.get_by_role("button", name="Allow edited once").click()
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    assert "".join(notebook.outputs(1)[-1]["data"]["text/plain"]).startswith("[bash echo four: edited by you]\n")


def test_what_is_denied_does_not_run_and_is_asked_again(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("deny.ipynb", SETUP, ASK, ASK, ASK))
    notebook.run_first(1)
    notebook.run_first(2)
    ask = notebook.output(1).get_by_label("Approval: bash")
    ask.get_by_role("button", name="Deny").click()
    notebook.wait_idle(cells=2)
    assert "".join(notebook.outputs(1)[-1]["data"]["text/plain"]).startswith("[bash echo one two: denied]\n")
    notebook.run_all()
    again = notebook.output(1).get_by_label("Approval: bash")
    again.get_by_role("button", name="Always this session").click()
    notebook.wait_idle()
    for cell in (2, 3):
        assert "".join(notebook.outputs(cell)[-1]["data"]["text/plain"]).startswith("[bash echo one two]\n")


def test_a_decision_for_all_agents_is_remembered_for_another_agent(lab: Lab, open_notebook: Open) -> None:
    cells = [ASK.replace("%%planck", f"%%planck {name}") for name in ("ann", "ann", "bob", "cid")]
    notebook = open_notebook(lab.write("scope.ipynb", SETUP, *cells))
    notebook.run_all()
    remember = "Always this session"
    ann = notebook.output(1).get_by_label("Approval: bash")
    options = ann.get_by_label("Always allow for").locator("option")
    expect(options).to_have_text(["This agent", "All agents"])
    ann.get_by_role("button", name=remember, exact=True).click()
    bob = notebook.output(3).get_by_label("Approval: bash")
    expect(bob.get_by_role("button", name=remember, exact=True)).to_be_visible()
    choice = bob.get_by_label("Always allow for")
    bob.get_by_role("button", name=remember).focus()
    choice.page.keyboard.press("Tab")
    expect(choice).to_be_focused()
    choice.page.keyboard.press("End")
    expect(choice).to_have_value("all")
    notebook.screenshot("approval-scope")
    bob.get_by_role("button", name=f"{remember}, all agents").click()
    notebook.wait_idle()
    for cell in (1, 2, 3, 4):
        assert "".join(notebook.outputs(cell)[-1]["data"]["text/plain"]).startswith("[bash echo one two]\n")


def test_nobody_decides_in_time(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("late.ipynb", f"%env PLANCK_NB_APPROVAL_DEADLINE=2\n{SETUP}", ASK))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.get_by_label("Approval: bash")).to_contain_text("expires in")
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    assert "".join(notebook.outputs(1)[-1]["data"]["text/plain"]).startswith("[bash echo one two: denied]\n")
    expect(output.locator("details pre")).to_contain_text("Nobody approved bash within 2 s")


def test_what_was_queued_in_the_view_is_answered_in_the_same_cell(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("queued.ipynb", SETUP, ASK))
    notebook.run_all()
    output = notebook.output(1)
    ask = output.get_by_label("Approval: bash")
    expect(ask).to_be_visible()
    box = output.locator(".pk-dock textarea, .pk-dock input").last
    box.fill("Hello again")
    output.get_by_role("button", name="Queue", exact=True).click()
    box.fill("And again")
    output.get_by_role("button", name="Queue", exact=True).click()
    ask.get_by_role("button", name="Allow once").click()
    expect(output.locator(".pk-bar")).to_have_count(2)
    notebook.wait_idle()
    notebook.screenshot("queued-answered")
    plain = ["".join(shown["data"]["text/plain"]) for shown in notebook.outputs(1) if "data" in shown]
    said = [text for text in plain if text.strip()]
    assert said[0].startswith("[bash echo one two]\n")
    assert "Hello again" in said[1]
    assert "And again" in said[1]
    assert "I am the demo" in said[1]
    assert len(said) == 2


def test_stop_takes_the_question_away(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("stopped.ipynb", SETUP, ASK))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.get_by_label("Approval: bash")).to_be_visible()
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")
    notebook.wait_idle()
    assert "denied" not in "".join(notebook.outputs(1)[-1]["data"]["text/plain"])


STEERED = """import asyncio
from IPython.display import display, publish_display_data
from planck_nb import Agent
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.jupyter.transcript.answer import transcript_of
from planck_nb.jupyter.live.view import LiveView
from planck_nb.testing import scripted_model

async def wait_for_words() -> str:
    "Wait until two prompts wait."
    while len(agent.state.queue) < 2:
        await asyncio.sleep(0.05)
    return "heard"

agent = Agent(model=scripted_model([{"calls": [{"name": "wait_for_words"}]}, "I look at March only.", "Printed."]),
              tools=[wait_for_words])
run = agent.prompt("Go on.")
view = LiveView(run.events, agent="ana", actions=RunActions(agent, run, lambda run: None))
display(view)
await run
transcript = transcript_of("ana", "demo", run.events.since(0))
publish_display_data(transcript.bundle())
view.finish({"outcome": "done", "seconds": 1.0, "spent": ("", ""), "cost": None, "model": "demo", "text": ""})
while agent.status != "idle":
    await asyncio.sleep(0.05)
print([entry.message.text for entry in agent.state.messages if entry.message.type in ("user", "assistant")])"""


def test_a_running_agent_is_steered_and_prompts_wait_for_its_end(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("steered.ipynb", STEERED))
    notebook.run_all()
    output = notebook.output(0)
    box = output.get_by_label("Steer or queue")
    expect(output.locator(".pk-status strong")).to_have_text("Running wait_for_words")
    box.fill("Then plot it.")
    box.press("Alt+Enter")
    row = output.locator(".pk-queue li")
    expect(row).to_contain_text("QueuedThen plot it.")
    row.get_by_role("button", name="Edit").click()
    row.get_by_label("Queued prompt").fill("Then print it.")
    row.get_by_label("Queued prompt").press("Enter")
    expect(row).to_contain_text("QueuedThen print it.")
    box.fill("Only March, please.")
    box.press("Enter")
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle()
    said = ["Go on.", "", "Only March, please.", "I look at March only.", "Then print it.", "Printed."]
    assert notebook.printed(0).strip() == str(said)
    [bundle] = [entry["data"] for entry in notebook.outputs(0) if "text/markdown" in entry.get("data", {})]
    assert "".join(bundle["text/plain"]) == "[wait_for_words]\n> You: Only March, please.\nI look at March only."
