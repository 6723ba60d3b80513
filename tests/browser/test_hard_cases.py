"""In JupyterLab: what models and tools send that is too long, too much, coloured or broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """import asyncio
from planck_nb.agent import events as ev
from planck_nb.agent.effect import Effect
from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from scripted_run import ScriptedRun
def finish(run, view):
    run.end()
    data, metadata = Answer(transcript_of("analyst", "demo:scripted", run.log.since(0))).mime_bundle()
    display(data, raw=True, metadata=metadata)
    view.finish(run.summary())"""
BEGIN = "run = ScriptedRun()\nview = run.view()\ndisplay(view)\nrun.start()\n"
LINE = f"""{BEGIN}line = "wordy " * 833_333
run.tool("1", "bash", {{"command": "cat " + line}})
run.progress("1", "bash", line)
await asyncio.sleep(0.2)
run.result("1", "bash", line)
for at in range(0, len(line), 50_000):
    run.text(line[at:at + 50_000])
    await asyncio.sleep(0)
run.text("the end")
run.reply(line)
finish(run, view)"""
CALLS = f"""{BEGIN}calls = [(str(at), "read", {{"path": f"part_{{at:03d}}.csv"}}) for at in range(100)]
run.reply("All at once.", *calls)
for call, name, args in calls:
    run.tool(call, name, args)
for call, name, args in calls:
    run.progress(call, name, f"\\x1b[31mred {{call}}\\x1b[0m\\x1b]0;title\\x07\\x1b[2K\\r")
await asyncio.sleep(0.3)
for call, name, args in calls:
    run.result(call, name, f"\\x1b[32mgreen {{call}}\\x1b[0m", error=call == "7")
run.results(*[(call, name, f"\\x1b[32mgreen {{call}}\\x1b[0m") for call, name, args in calls])
run.text("Read.")
await run.stopped.wait()
finish(run, view)"""
BROKEN = "**bold that `never ends\\n\\n| a | b |\\n|--\\n\\n```python\\nx = '</div><b>'\\n# $$\\n"
MARKDOWN = f"""{BEGIN}for char in "{BROKEN}":
    run.text(char)
    await asyncio.sleep(0.005)
await run.stopped.wait()
run.reply(run.said)
finish(run, view)"""
PYTHON = f"""{BEGIN}code = {{"code": "for x in range(3):\\n    print(x)"}}
run.tool("1", "run_python", code)
run.ask("1", "run_python", code, Effect("execute", code["code"]), rule="", for_prompt=True)
print(await run.commands.get())
for call in "123":
    decided = {{"by": "user", "scope": "prompt"}} if call == "1" else {{"by": "rule", "rule": "run_python"}}
    run.tool(call, "run_python", code)
    run.add(ev.ApprovalDecision, id=call, name="run_python", allowed=True, **decided)
    run.result(call, "run_python", "0 1 2")
await run.stopped.wait()
finish(run, view)"""

PRESSED = f"""from pathlib import Path
{BEGIN}run.text("One moment.")
run.ask("1", "bash", {{"command": "ls"}}, Effect("execute", "ls"))
while not Path("pressed").exists():
    await asyncio.sleep(0.02)
run.text("\\n\\nAnother paragraph." * 5)
await asyncio.sleep(0.5)
Path("written").touch()
print(await run.commands.get())
await run.stopped.wait()
finish(run, view)"""


def test_long_lines_many_calls_colours_and_broken_markdown(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("hard.ipynb", SETUP, LINE, CALLS, MARKDOWN, PYTHON), height=1000)
    page = notebook.page
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    notebook.run_all()

    expect(notebook.output(1).locator(".pk-folded")).to_be_visible()
    saved = notebook.outputs(1)
    assert len(str(saved)) < 3_000_000  # the middle is left out, once in each of the types
    assert notebook.output(1).evaluate("output => output.scrollWidth <= output.clientWidth + 1")

    calls = notebook.output(2)
    expect(calls.locator(".pk-prose").last).to_have_text("Read.")
    group = calls.locator(".pk-view > .pk-flow > .pk-tool")
    expect(group).to_have_count(1)
    expect(group.locator("> summary")).to_contain_text("100 calls")
    expect(group.locator("> summary")).to_contain_text("1 failed")
    card = group.locator(".pk-tool").nth(3)
    expect(card.locator(".pk-well").last).to_contain_text("green 3")
    assert calls.evaluate("output => !/[\\u001b\\u0007]|\\[3[12]m|title/.test(output.textContent)")
    calls.locator(".pk-stop").click()
    expect(calls.locator(".pk-folded")).to_be_visible()
    assert "\u001b" not in str(notebook.outputs(2))

    broken = notebook.output(3)
    expect(broken.locator(".pk-prose")).to_contain_text("x = '</div><b>'")
    assert broken.locator(".pk-prose b").count() == 0
    expect(broken.locator(".pk-stop")).to_be_visible()
    broken.locator(".pk-stop").click()
    expect(broken.locator(".pk-folded")).to_be_visible()
    expect(broken.locator(".jp-RenderedHTML").last).to_contain_text("x = '</div><b>'")

    python = notebook.output(4)
    ask = python.get_by_label("Approval: run_python")
    expect(ask).to_contain_text("wants to run Python in your kernel")
    expect(ask.locator(".pk-well")).to_have_text("for x in range(3):\n    print(x)")
    expect(ask.locator(".pk-well .hl-keyword").first).to_have_text("for")
    expect(ask.locator("button:visible")).to_have_text(
        ["Allow once", "Allow for this prompt", "Deny", "Edit arguments"]
    )
    assert "Always" not in ask.inner_text()
    ask.get_by_role("button", name="Deny").scroll_into_view_if_needed()
    notebook.screenshot("python-in-the-kernel")
    ask.get_by_role("button", name="Allow for this prompt").click(delay=500)
    expect(python).to_contain_text("('decide', '1', True, None, True, 'prompt'")
    expect(python).to_contain_text("run_python is allowed for this prompt")
    expect(python).to_contain_text("3 calls so far")
    notebook.screenshot("python-allowed")
    python.locator(".pk-stop").click()
    notebook.wait_idle()
    assert "run_python was allowed for this prompt: 3 calls." in str(notebook.outputs(4))
    assert errors == []
    notebook.save()


def test_a_button_stays_under_the_pointer_while_it_is_pressed(lab: Lab, open_notebook: Open) -> None:
    path = lab.write("pressed.ipynb", SETUP, PRESSED)
    notebook = open_notebook(path)
    notebook.run_all()
    output = notebook.output(1)
    button = output.get_by_role("button", name="Allow once")
    button.scroll_into_view_if_needed()
    button.hover()  # waits until it takes clicks and no longer moves
    place = button.bounding_box()
    assert place is not None
    notebook.page.mouse.down()
    (path.parent / "pressed").touch()
    while not (path.parent / "written").exists():
        notebook.page.evaluate("() => new Promise(resolve => requestAnimationFrame(resolve))")
    assert button.bounding_box() == place
    notebook.page.mouse.up()
    expect(output).to_contain_text("('decide', '1', True")
    expect(output.locator(".pk-prose p")).to_have_count(6)
    output.locator(".pk-stop").click()
