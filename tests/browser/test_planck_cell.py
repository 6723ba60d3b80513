"""`%%planck` in JupyterLab, from the cell to the saved notebook."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


TOOLS = '''def get_weather(city: str, note: str = "") -> str:
    """Weather of a city."""
    return f"{city}: sun, {note}"

def get_time(city: str) -> str:
    """Local time of a city."""
    return f"12:00 in {city}"'''
ASK = "%%planck --tools get_weather,get_time\nWhat is the weather in Paris and the time in Rome?"
ANSWER = "It is sunny in Paris, and 12:00 in Rome."


@pytest.fixture(scope="module")
def fast_server() -> Iterator[str]:
    """A server that streams as fast as it is read."""
    command = [sys.executable, str(Path(__file__).parents[1] / "benchmarks" / "server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


def test_a_real_server_thinks_calls_in_parallel_and_answers(lab: Lab, open_notebook: Open, llama: str) -> None:
    setup = f"%load_ext planck_nb\n%planck model llama_cpp:default --base-url {llama}\n{TOOLS}"
    notebook = open_notebook(lab.write("llama-480.ipynb", setup, ASK), width=480)
    notebook.run_all()
    notebook.wait_idle()
    output = notebook.output(1)
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    expect(output.locator("p", has_text=ANSWER)).to_have_count(1)  # live and saved view never show the same text twice
    calls = output.locator(".pk-tool .pk-what b")
    assert calls.all_inner_texts() == ["get_weather", "get_time"]
    calls.first.click()
    expect(output.get_by_text("Paris: sun, héllo 🎉")).to_be_visible()
    notebook.screenshot("planck-480")
    notebook.theme("JupyterLab Light")


KERNEL_STATES = """async () => {
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const states = [];
    while (states.length < 50) {
        states.push(kernel.status);
        await new Promise(done => setTimeout(done, 20));
    }
    return states;
}"""


def test_thinking_and_calls_show_while_they_come(lab: Lab, open_notebook: Open) -> None:
    setup = f"%load_ext planck_nb\n%planck model demo\n{TOOLS}\nimport asyncio\ngate = asyncio.Event()"
    slow = 'async def wait_for_sun(city: str) -> str:\n    "Wait."\n    await gate.wait()\n    return "sun"'
    notebook = open_notebook(
        lab.write("live.ipynb", setup, slow, '%%planck\nUse @wait_for_sun for "Paris".', "gate.set()")
    )
    notebook.run_first(3)
    output = notebook.output(2)
    expect(output.locator(".pk-tool[data-state=run] .pk-what")).to_contain_text("wait_for_sun")
    expect(output.locator(".pk-think")).to_contain_text("Thought")
    expect(output.locator(".pk-status strong")).to_contain_text("Running wait_for_sun")
    states = notebook.page.evaluate(KERNEL_STATES)
    assert states.count("busy") >= 0.9 * len(states), states  # all but when it handles a message of the view
    expect(notebook.page.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "busy")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")
    notebook.wait_idle(cells=3)
    expect(output.get_by_text("The text so far is kept.")).to_be_visible()


def test_a_kernel_that_handles_no_clicks_meanwhile(lab: Lab, open_notebook: Open) -> None:
    older = "from planck_nb.jupyter import frontend\nfrontend.kernel_handles_clicks = lambda _: False"  # ipykernel 6
    setup = f"%load_ext planck_nb\n%planck model demo\n{older}"
    notebook = open_notebook(lab.write("older.ipynb", setup, "%%planck --tools bash\nUse bash with `echo typed`"))
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-tool[data-state]").first).to_contain_text("bash")  # sent unheard
    sentence = "This kernel handles no clicks while the cell runs: to stop, interrupt the kernel (■)."
    expect(output.locator(".pk-unheard")).to_have_text(sentence)
    expect(output.locator(".pk-stop, .pk-asks")).to_have_count(0)
    box = output.locator(".jp-Stdin-input")
    box.fill("y")
    box.press("Enter")
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle(cells=2)
    expect(output.get_by_text("returned").first).to_be_visible()


def test_fifty_thousand_deltas_arrive_in_order_and_the_cell_ends(
    lab: Lab, open_notebook: Open, fast_server: str
) -> None:
    setup = f"%load_ext planck_nb\n%planck model openai:m --base-url {fast_server}/n=50000/v1"
    check = "answer = _\nprint(len(answer.text))"
    notebook = open_notebook(lab.write("fifty.ipynb", setup, "%%planck\nhello", check))
    notebook.run_all()
    notebook.wait_idle()
    assert notebook.printed(2) == "300000\n"
    shown = notebook.output(1).locator("pre").last
    expect(shown).to_contain_text("hello there")
    assert (shown.text_content() or "").split() == ("hello there it is going " * 12_500).split()
    expect(notebook.output(1).locator(".pk-bar")).to_contain_text("Done")


def test_run_all_over_ten_agent_cells_finishes(lab: Lab, open_notebook: Open) -> None:
    cells = [f"%%planck\nhello number {number}" for number in range(10)]
    notebook = open_notebook(lab.write("ten.ipynb", "%load_ext planck_nb\n%planck model demo", *cells))
    notebook.run_all()
    notebook.wait_idle()
    for number in range(1, 11):
        assert any("I am the demo" in str(output) for output in notebook.outputs(number))


def test_the_interrupt_button_and_a_background_agent(lab: Lab, open_notebook: Open) -> None:
    setup = "%env PLANCK_NB_DEMO_PACE=0.02\n%load_ext planck_nb\n%planck model demo"
    notebook = open_notebook(
        lab.write("background.ipynb", setup, "%%planck --background ann\nhello", "%%planck bob\nhello", "t = 1")
    )
    notebook.run_all()
    expect(notebook.output(2).locator(".pk-prose")).to_contain_text("I am")
    notebook.page.evaluate("window.jupyterapp.commands.execute('notebook:interrupt-kernel'), null")
    expect(notebook.output(2)).to_contain_text("KeyboardInterrupt")
    expect(notebook.output(1).locator(".pk-bar")).to_contain_text("Done")
    expect(notebook.output(1)).to_contain_text("for example with")  # ann went on to her last word


def test_what_was_steered_into_a_run_that_is_aborted_is_given_back(lab: Lab, open_notebook: Open) -> None:
    setup = "%load_ext planck_nb\n%planck model demo\nimport asyncio\ngate, inside = asyncio.Event(), asyncio.Event()"
    wait = "inside.set()\n    await gate.wait()"
    slow = f'async def wait_for_sun(city: str) -> str:\n    "Wait."\n    {wait}\n    return "sun"'
    background = '%%planck --background ann\nUse @wait_for_sun for "Paris".\n'
    steer = 'await inside.wait()\n%planck steer And for "Rome" use @wait_for_sun.'
    notebook = open_notebook(lab.write("steer.ipynb", setup, slow, background, steer, "%planck stop", "gate.set()"))
    notebook.run_first(5)
    output = notebook.output(2)
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")
    expect(output).to_contain_text('Not sent: And for "Rome" use @wait_for_sun.')
    notebook.run_only(5)
    notebook.wait_idle()
    [shown] = [
        "".join(shown["data"]["text/plain"])
        for shown in notebook.outputs(2)
        if "text/markdown" in shown.get("data", {})
    ]
    assert shown.startswith("[wait_for_sun Paris: stopped]")
    assert 'Not sent: And for "Rome" use @wait_for_sun.' in shown


@pytest.mark.own_page
def reopen(notebook: Notebook) -> None:
    """Save the notebook, end its kernel and open it with a new one."""
    notebook.save()
    notebook.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.reload()


def expect_saved_without_view(output: Locator, saved: str) -> None:
    """Expect what is saved in place of the live view, and nothing of that."""
    without_model = output.get_by_text("model not found")  # what JupyterLab writes for a widget of another kernel
    expect(without_model).to_have_count(1)
    expect(without_model).to_be_hidden()
    expect(output.locator(saved)).to_be_visible()


def test_a_saved_notebook_that_is_opened_with_a_new_kernel_shows_no_error(lab: Lab, open_notebook: Open) -> None:
    prompt = "%%planck\nHello."
    path = lab.write("reopened.ipynb", "%load_ext planck_nb\n%planck model demo", prompt, prompt)
    notebook = open_notebook(path)
    notebook.run_all()
    notebook.wait_idle()
    expect(notebook.output(1).locator(".pk-bar")).to_be_visible()
    reopen(notebook)
    for cell in (1, 2):
        expect_saved_without_view(notebook.output(cell), ".planck-run-1")
    notebook.screenshot("reopened")
    notebook.run_only(0)
    notebook.run_only(1)
    expect(notebook.output(1).locator(".pk-bar")).to_be_visible()
    notebook.save()
    notebook.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    notebook.reload()
    expect(notebook.output(1).locator(".pk-bar")).to_be_visible()


def test_a_saved_run_that_failed_at_once_shows_only_its_error(lab: Lab, open_notebook: Open) -> None:
    setup = (
        "%load_ext planck_nb\nfrom planck_nb import get_workspace\nfrom planck_nb.testing import scripted_model\n"
        "get_workspace().add_agent('ann', model=scripted_model([]))"
    )
    notebook = open_notebook(lab.write("failed.ipynb", setup, "%%planck ann\nHello."))
    notebook.run_all()
    notebook.wait_idle()
    output = notebook.output(1)
    expect(output.locator(".pk-bar")).to_contain_text("Failed")
    notebook.screenshot("failed-live")
    reopen(notebook)
    without_model = output.get_by_text("model not found")
    expect(without_model).to_have_count(1)
    expect(without_model).to_be_hidden()
    expect(output.get_by_text("Error:")).to_be_visible()
    notebook.screenshot("failed-reopened")


SAYING_SOMETHING = ["agent", "status", "waits_for", "model", "turns", "messages", "tokens"]
"""The columns of the table of agents that are not empty for an agent without a team and a price."""


def test_a_saved_table_of_agents_that_were_busy_takes_the_place_of_the_live_one(lab: Lab, open_notebook: Open) -> None:
    setup = "%load_ext planck_nb\n%planck model demo\nimport asyncio\ngate, inside = asyncio.Event(), asyncio.Event()"
    wait = "inside.set()\n    await gate.wait()"
    slow = f'async def wait_for_sun(city: str) -> str:\n    "Wait."\n    {wait}\n    return "sun"'
    background = '%%planck --background ann\nUse @wait_for_sun for "Paris".\n'
    agents = "await inside.wait()\n%planck agents"
    notebook = open_notebook(lab.write("busy.ipynb", setup, slow, background, agents, "gate.set()", "%planck agents"))
    notebook.run_first(4)
    table = notebook.output(3)
    expect(table.locator(".planck-agents-now")).to_contain_text("executing_tools")
    expect(table.locator(".planck-agents-now th:visible")).to_have_text(SAYING_SOMETHING)
    expect(table.locator(".planck-agents")).to_have_count(1)
    expect(table.locator(".planck-agents")).to_be_hidden()
    expect(table.get_by_text("ann")).to_have_count(2)
    notebook.screenshot("agents-live")
    notebook.run_only(4)
    expect(notebook.output(2).locator(".planck-run-1")).to_be_visible()
    notebook.run_only(5)
    notebook.wait_idle()
    reopen(notebook)
    expect_saved_without_view(notebook.output(2), ".planck-run-1")
    expect_saved_without_view(notebook.output(3), ".planck-agents")
    expect(notebook.output(5).get_by_text("ann")).to_be_visible()
    notebook.screenshot("agents-reopened")


def test_stop_gives_the_queue_back_and_says_how_an_answer_ended(lab: Lab, open_notebook: Open) -> None:
    setup = (
        "%load_ext planck_nb\nfrom planck_nb import get_workspace\n"
        "from planck_nb.testing import Reply, scripted_model\n"
        "replies = ['word ' * 4_000, Reply('one two', stop_reason='length'), 'three']\n"
        "agent = get_workspace().add_agent('planck', model=scripted_model(replies, pace=0.02))"
    )
    asked = "[entry.message.text for entry in agent.state.messages if entry.message.type == 'user']"
    notebook = open_notebook(
        lab.write("returned.ipynb", setup, "%%planck\nGo.", f"print({asked})", "%planck -- count", "%planck continue")
    )
    notebook.run_first(2)
    output = notebook.output(1)
    full = "() => { const view = document.querySelector('.pk-view'); return view?.scrollHeight > view?.clientHeight; }"
    notebook.page.wait_for_function(full)  # nothing moves from now on
    box = output.get_by_label("Steer or queue")
    box.fill("Then call the tool")
    box.press("Alt+Enter")
    expect(output.locator(".pk-queue li")).to_have_count(1)
    box.fill("and this")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_contain_text("Stopped")
    expect(output.locator(".pk-unsent")).to_have_text("Not sent: Then call the tool\n\nand this")
    expect(output.get_by_text("Not sent: Then call the tool", exact=True)).to_be_visible()  # in the saved output
    notebook.run_only(2)
    notebook.wait_idle(cells=3)
    assert notebook.printed(2) == "['Go.']\n"
    notebook.run_only(3)
    cut = notebook.output(3)
    expect(cut.locator(".pk-bar")).to_contain_text("Cut off")
    expect(cut.get_by_text("was cut off after 2 tokens")).to_be_visible()
    notebook.run_only(4)
    expect(notebook.output(4).locator(".pk-bar")).to_contain_text("Done")
    expect(notebook.output(4).get_by_text("three", exact=True)).to_be_visible()


def test_each_message_that_a_search_finds_is_below_its_heading(lab: Lab, open_notebook: Open) -> None:
    asked = "%planck -q where is the burst hydrant?\n%planck -q why did the hydrant burst?"
    cells = ("%load_ext planck_nb\n%planck model demo", asked, "%planck search hydrant")
    notebook = open_notebook(lab.write("search.ipynb", *cells))
    notebook.run_all()
    notebook.wait_idle()
    output = notebook.output(2)
    headings, marked = output.get_by_text("· planck · user ·"), output.locator("mark")
    expect(headings).to_have_count(2)
    places = [headings.nth(0), marked.nth(0), headings.nth(1), marked.nth(1)]
    boxes = [box for place in places if (box := place.bounding_box())]
    ends = [box["y"] + box["height"] for box in boxes]
    assert all(below["y"] >= end for below, end in zip(boxes[1:], ends, strict=False)), boxes
