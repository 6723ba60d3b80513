"""Commands in the live view: decisions, steering, the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = "import asyncio\nfrom scripted_run import ScriptedRun, ask_twice, work, EDIT, SUITE"
BEGIN = "run = ScriptedRun()\nview = run.view()\ndisplay(view)\n"
END = "\nrun.end()\nview.finish(run.summary())"
ASK = f"""{BEGIN}ask_twice(run)
print(await run.commands.get())
print(await run.commands.get())
run.result("1", "edit", "Edited sales/load.py.")
run.result("2", "bash", "96 passed")
await run.stopped.wait()
run.results(("1", "edit", ""), ("2", "bash", ""))
{END}"""


def test_two_calls_wait_for_approval(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("ask-480.ipynb", SETUP, ASK), width=480)
    notebook.run_all()
    output = notebook.output(1)
    edit, bash = output.get_by_label("Approval: edit"), output.get_by_label("Approval: bash")
    expect(edit.locator(".pk-line")).to_contain_text("edit wants to change sales/load.py")
    expect(edit.locator(".pk-facts")).to_contain_text("4 lines added, 1 removed.")
    assert edit.locator(".pk-diff > div").count() == 7
    expect(bash.locator(".pk-facts").first).to_have_text(
        "Runs a command. It can write files and use the network. No rule allows it."
    )
    expect(bash.locator(".pk-meta")).to_contain_text("expires in 4:4")
    expect(output.locator(".pk-status strong")).to_have_text("Waiting for you")
    expect(output.locator(".pk-status")).to_contain_text("2 approvals")
    assert output.locator(".pk-tool:visible").count() == 0
    bash.get_by_role("button", name="Edit arguments").click()
    command = bash.get_by_label("command")
    command.fill("pytest -q tests/ --maxfail=5 \\\n  --junitxml=build/report.xml")
    expect(bash).to_contain_text("edited")
    bash.get_by_label("timeout").fill("120")
    output.locator(".pk-stop").scroll_into_view_if_needed()
    notebook.screenshot("approval-480")
    command.press("Control+Enter")
    expect(bash).to_have_count(0)
    assert notebook.page.evaluate("document.activeElement.className") == "pk-view"
    edit.get_by_role("button", name="Allow once").click()
    expect(edit).to_have_count(0)
    lines = output.locator(".pk-tool .pk-line")
    expect(lines.nth(1)).to_contain_text("bashpytest -q tests/ --maxfail=5")
    expect(lines.nth(1)).to_contain_text("edited by you")
    expect(lines.nth(0)).to_contain_text("done,")
    output.locator(".pk-stop").click()
    notebook.wait_idle()
    edited = {"command": "pytest -q tests/ --maxfail=5 \\\n  --junitxml=build/report.xml", "timeout": 120}
    assert notebook.printed(1).splitlines() == [
        str(("decide", "2", True, edited, False)),
        str(("decide", "1", True, None, False)),
    ]


LONG = "reports/2026/northern-region/quarterly/summary-of-all-figures.md"
ASK_LONG = f"""{BEGIN}from planck_nb.agent.effect import Effect
run.start()
run.ask("1", "write", {{"path": "{LONG}", "content": "North."}}, Effect("write", "{LONG}"))
await run.stopped.wait(){END}"""


def test_an_approval_is_not_cut_in_a_narrow_window(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("ask-long.ipynb", SETUP, ASK_LONG), width=480)
    notebook.run_all()
    what = notebook.output(1).locator(".pk-ask .pk-what")
    expect(what).to_have_text(f"write wants to change {LONG}")
    assert what.evaluate("what => [what.scrollWidth > what.clientWidth, what.clientHeight > 24]") == [False, True]
    buttons = notebook.output(1).locator(".pk-ask .pk-row > :is(.pk-btn, .pk-split)")
    tops = buttons.evaluate_all("buttons => buttons.map(button => button.getBoundingClientRect().top)")
    assert (len(tops), len(set(tops))) == (3, 1)
    notebook.screenshot("approval-long-480")
    notebook.output(1).get_by_label("Always allow for").select_option("All agents")
    row = notebook.output(1).locator(".pk-ask .pk-row")
    assert row.evaluate("row => row.scrollWidth <= row.clientWidth")
    notebook.output(1).locator(".pk-stop").click()
    notebook.wait_idle()


WORK = f"""{BEGIN}await work(run)
received = []
while not run.stopped.is_set():
    waits = [asyncio.ensure_future(run.commands.get()), asyncio.ensure_future(run.stopped.wait())]
    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    received += [wait.result() for wait in done if wait is waits[0]]
    waits[0].cancel(), waits[1].cancel()
    if received[-1:] == [("steer", "Only March,\\nplease.")]:
        run.refusing = "The agent is stopped; start another run."
        run.steered(f"q{{run._seq - 1}}", "Only March,\\nplease.")
print(received){END}"""


def test_tool_output_steering_and_the_queue(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("work-light.ipynb", SETUP, WORK))
    notebook.run_all()
    output = notebook.output(1)
    well = output.locator(".pk-tool[data-state=run] .pk-well")
    expect(well).to_be_visible()
    expect(well).to_contain_text("tests/test_load.py ....")
    assert well.inner_text().splitlines()[0] == "31 earlier lines"
    assert len(well.inner_text().splitlines()) == 11
    assert "[32m" not in well.inner_text()
    row = output.locator(".pk-queue li")
    expect(row).to_contain_text("Then plot the corrected months")
    output.locator(".pk-stop").scroll_into_view_if_needed()
    notebook.screenshot("working-light")
    row.get_by_role("button", name="Edit").click()
    row.get_by_label("Queued prompt").fill("Then plot them")
    row.get_by_label("Queued prompt").press("Enter")
    expect(row).to_contain_text("QueuedThen plot them")
    box = output.get_by_label("Steer or queue")
    box.fill("Then print it")
    box.press("Alt+Enter")
    expect(row).to_have_count(2)
    row.nth(0).get_by_label("Remove from queue").click()
    expect(row).to_have_count(1)
    box.fill("Only March,")
    box.press("Shift+Enter")
    box.press_sequentially("please.")
    box.press("Enter")
    expect(output.locator(".pk-said")).to_have_text("You: Only March,\nplease.")
    expect(box).to_have_value("")
    box.fill("Hello?")
    box.press("Enter")
    expect(output.locator(".pk-dock .pk-note")).to_have_text("The agent is stopped; start another run.")
    expect(box).to_have_value("Hello?")
    notebook.screenshot("refused")
    box.press("Control+.")
    notebook.wait_idle()
    assert notebook.page.evaluate("document.activeElement.closest('.jp-Notebook') !== null")
    expect(output.locator(".pk-unsent")).to_have_text("Not sent: Hello?")
    assert notebook.printed(1).strip() == str(
        [
            ("queue", "Then plot the corrected months next to the old ones"),
            ("edit", "Then plot them"),
            ("queue", "Then print it"),
            ("remove",),
            ("steer", "Only March,\nplease."),
        ]
    )


TWICE = """() => new Promise(done => {
    const allow = () => document.querySelector(".pk-ask .pk-btn[data-kind=main]").click();
    const moved = (_, observer) => { observer.disconnect(); allow(); done(); };
    new MutationObserver(moved).observe(document.querySelector(".pk-asks"), { childList: true });
    allow();
    allow();
})"""


def test_two_of_many_approvals_are_shown_and_a_double_click_decides_only_one(lab: Lab, open_notebook: Open) -> None:
    cell = f"""{BEGIN}run.start()
for at in range(5):
    run.ask(str(at), "bash", {{"command": f"echo {{at}}"}}, seconds=600)
await run.stopped.wait(){END}"""
    notebook = open_notebook(lab.write("many.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    asks = output.locator(".pk-ask")
    expect(asks).to_have_count(2)
    expect(output.locator(".pk-asks > .pk-facts")).to_have_text("3 more wait")
    expect(output.locator("[aria-live=polite]")).to_contain_text("Approval needed: bash wants to run.")
    expect(asks.nth(0).locator(".pk-row")).not_to_have_attribute("aria-disabled", "true")
    notebook.page.evaluate(TWICE)
    expect(output.locator(".pk-asks > .pk-facts")).to_have_text("2 more wait")
    expect(asks.nth(0).locator(".pk-well")).to_have_text("commandecho 1")
    asks.nth(0).get_by_role("button", name="Deny").click()
    denied = output.locator(".pk-tool[data-state=deny]")
    expect(denied.locator(".pk-line")).to_contain_text("denied")
    denied.locator(".pk-line").click()
    expect(denied.locator(".pk-well")).to_have_text("The user denied this call.")
    notebook.save()
    notebook.reload()
    expect(asks.nth(0).locator(".pk-well")).to_have_text("commandecho 2")
    expect(output.locator(".pk-status")).to_contain_text("3 approvals")
    output.locator(".pk-stop").click()
    expect(output.locator(".pk-bar")).to_contain_text("Done")


AGENTS = f"""from planck_nb.agent import events as ev
{BEGIN}for name in ("analyst", "reviewer"):
    run.agent_id = name[:1]
    run.add(ev.AgentStarted, name=name, agent_type="", model="demo:scripted", system_prompt="", tools=())
    run.start()
    run.text(f"I am the {{name}}. ")
    run.ask("1", "bash", {{"command": f"echo {{name}}"}})
run.agent_id = "a"
run.text("I go on.")
print(await run.commands.get(), run.agent_id)
await run.stopped.wait()
for run.agent_id in "ar":
    run.add(ev.Aborted)
{END}"""


def test_a_run_of_several_agents_names_them(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("agents-dark.ipynb", SETUP, AGENTS))
    notebook.theme("JupyterLab Dark")
    notebook.run_all()
    output = notebook.output(1)
    expect(output.locator(".pk-lane .pk-who b")).to_have_text(["analyst", "reviewer"])
    expect(output.locator(".pk-prose")).to_have_text(["I am the analyst.", "I go on."])
    approval = output.get_by_label("Approval for reviewer: bash")
    expect(approval.locator(".pk-what")).to_have_text("reviewer: bash wants to run")
    expect(output.get_by_label("Approval for analyst: bash")).to_be_visible()
    notebook.screenshot("agents-dark")
    notebook.theme("JupyterLab Light")
    approval.get_by_role("button", name="Allow once").click()
    expect(approval).to_have_count(0)
    expect(output.get_by_label("Approval for analyst: bash")).to_be_visible()
    output.locator(".pk-stop").click()
    notebook.wait_idle()
    assert notebook.printed(1).strip() == "('decide', '1', True, None, False) r"


def test_a_decision_is_remembered_for_the_role_of_an_agent(lab: Lab, open_notebook: Open) -> None:
    cell = f"""from planck_nb.agent import events as ev
{BEGIN}run.add(ev.AgentStarted, name="w", agent_type="", model="demo:s", system_prompt="", tools=(), role="worker")
run.start()
run.ask("1", "bash", {{"command": "ls"}})
print(await run.commands.get())
await run.stopped.wait(){END}"""
    notebook = open_notebook(lab.write("role-480.ipynb", SETUP, cell), width=480)
    notebook.run_all()
    ask = notebook.output(1).get_by_label("Approval: bash")
    choice = ask.get_by_label("Always allow for")
    expect(choice.locator("option")).to_have_text(["This agent", "All workers", "All agents"])
    expect(choice).to_have_value("agent")
    choice.select_option("All workers")
    choice.focus()
    notebook.screenshot("approval-role-480")
    ask.get_by_role("button", name="Always this session, all workers", exact=True).click()
    expect(ask).to_have_count(0)
    notebook.output(1).locator(".pk-stop").click()
    notebook.wait_idle()
    assert notebook.printed(1).strip() == str(("decide", "1", True, None, True, "role"))


def test_nothing_can_hide_in_an_approval(lab: Lab, open_notebook: Open) -> None:
    cell = f"""{BEGIN}run.start()
run.ask("1", "<img src=x onerror=window.hurt=1>", {{"command": "ls #\\u202e\\r\\x08 rm -rf ~ " + "x" * 500}})
await run.stopped.wait(){END}"""
    notebook = open_notebook(lab.write("hide.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    well = output.locator(".pk-ask .pk-well")
    expect(well).to_contain_text("ls #⟨U+202E⟩⟨U+000D⟩⟨U+0008⟩ rm -rf ~")
    assert well.evaluate("well => well.scrollWidth <= well.clientWidth")
    assert notebook.page.evaluate("window.hurt") is None
    output.locator(".pk-stop").click()
    notebook.wait_idle()


def test_a_request_shows_everything_and_what_always_allows(lab: Lab, open_notebook: Open) -> None:
    cell = f"""{BEGIN}from planck_nb.agent.effect import Effect
run.start()
text = "".join(f"line {{at}}\\n" for at in range(15_000))
run.ask("1", "write", {{"path": "a", "content": text}}, Effect("write", "/a"), rule="write:./src/**", seconds=600)
run.ask("2", "t", {{"x": "1"}}, Effect("execute", "ls; " + "x" * 300 + "; rm y"), rule="execute@t:ls", seconds=600)
print(await run.commands.get())
run.ask("3", "write", {{"content": "x" * 300_000}}, Effect("write", "/a"), seconds=600)
await run.stopped.wait(){END}"""
    notebook = open_notebook(lab.write("whole.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    long, command = output.locator(".pk-ask").nth(0), output.locator(".pk-ask").nth(1)
    expect(command.locator(".pk-well").first).to_contain_text("; rm y")
    expect(command.locator(".pk-always")).to_have_text("Always this session allows t to run exactly this command.")
    rule = "Always this session allows every tool to write everything below ./src (the rule write:./src/**)."
    expect(long.locator(".pk-always")).to_have_text(rule)
    well, below = long.locator(".pk-well").last, long.locator(".pk-below").last
    expect(well).to_contain_text("line 14999")
    expect(below).to_be_visible()
    well.evaluate("well => { well.scrollTop = well.scrollHeight; }")
    expect(below).to_be_hidden()
    command.get_by_role("button", name="Deny").click()
    expect(output.locator(".pk-ask").nth(1).get_by_role("button")).to_have_text(["Deny"])
    expect(output.locator(".pk-ask").nth(1).locator(".pk-always")).to_contain_text("too long to be shown as a whole")
    output.locator(".pk-stop").click()
    notebook.wait_idle()


def test_invalid_edits_are_not_sent_and_escape_discards_edits(lab: Lab, open_notebook: Open) -> None:
    cell = f"""{BEGIN}run.start()
run.ask("1", "fetch", {{"limit": 12345678901234567890, "env": {{"a": 1}}, "dry": True, "text": "a\\r\\nb"}})
print(await run.commands.get()){END}"""
    notebook = open_notebook(lab.write("fields.ipynb", SETUP, cell))
    notebook.run_all()
    ask = notebook.output(1).locator(".pk-ask")
    ask.get_by_role("button", name="Edit arguments").click()
    ask.get_by_label("limit").fill("many")
    ask.get_by_label("limit").press("Control+Enter")
    expect(ask).to_contain_text("not a number")
    ask.get_by_label("limit").press("Escape")
    expect(ask.get_by_label("limit")).to_have_count(0)
    ask.get_by_role("button", name="Edit arguments").click()
    ask.get_by_label("env").fill('{"a": 2}')
    ask.get_by_label("dry").select_option("false")
    ask.get_by_role("button", name="Allow edited once").click()
    notebook.wait_idle()
    edited = {"limit": 12345678901234567890, "env": {"a": 2}, "dry": False, "text": "a\r\nb"}
    assert notebook.printed(1).strip() == str(("decide", "1", True, edited, False))


def test_many_calls_are_grouped_and_notes_are_shown(lab: Lab, open_notebook: Open) -> None:
    cell = f"""from planck_nb.agent import events as ev
{BEGIN}run.start()
run.text("There are 34 parts. I will read them all, then check the keys.")
calls = [(str(at), "read", {{"path": f"data/part_{{at:02d}}.csv"}}) for at in range(34)]
run.reply("", *calls)
for call in calls:
    run.tool(*call)
for at, name, _ in calls:
    run.result(at, name, "a,b", error=at == "3")
run.add(ev.Compacting, messages=10, tokens=90_100)
run.add(ev.Compacted, summary_id=3, tokens_before=90_100, tokens_after=8_200)
run.add(ev.Fallback, failed="a:b", model="demo:scripted", reason="a:b is overloaded.")
run.text("33 parts agree on their columns.")
run.add(ev.LimitReached, limit="session_cost", reason="The session has used up its 0.5 US dollars; raise it to go on.")
run.add(ev.Warned, text="demo:scripted takes no temperature.")
await run.stopped.wait(){END}"""
    notebook = open_notebook(lab.write("groups.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    group = output.locator(".pk-view > .pk-flow > .pk-tool > .pk-line")
    expect(group).to_have_count(1)
    assert group.inner_text().split("\n")[0].startswith("34 calls")
    expect(group).to_contain_text("read 34")
    expect(group).to_contain_text("1 failed")
    expect(output.locator(".pk-cut")).to_have_text("What was said before was summarised: 90.1k tokens became 8.2k")
    expect(output.locator(".pk-note").nth(0)).to_contain_text("a:b could not answer, so demo:scripted is asked")
    expect(output.locator(".pk-note").nth(1)).to_contain_text("Limit reached: session cost")
    notebook.screenshot("notes")
    group.click()
    expect(output.locator(".pk-tool .pk-tool:visible")).to_have_count(34)
    group.press("ArrowDown")
    assert notebook.page.evaluate("document.activeElement.textContent").startswith("readdata/part_00.csv")
    output.locator(".pk-stop").click()
    notebook.wait_idle()


def test_a_tool_that_prints_a_lot_costs_the_browser_little(lab: Lab, open_notebook: Open) -> None:
    cell = f"""{BEGIN}sizes = []
send = view.send
view.send = lambda content: (sizes.append(len(str(content))), send(content))
run.start()
run.tool("1", "bash", {{"command": "make"}})
begin = asyncio.get_running_loop().time()
for at in range(100_000):
    run.progress("1", "bash", f"line {{at}} of a build that says everything\\n")
    if at % 500 == 0:
        await asyncio.sleep(0.005)
seconds = asyncio.get_running_loop().time() - begin
await run.stopped.wait()
run.stopped.clear()
run.result("1", "bash", "\\n".join(f"line {{at}}" for at in range(100)))
await run.stopped.wait(){END}
print(len(sizes) - 30 * seconds, max(sizes))"""
    notebook = open_notebook(lab.write("output.ipynb", SETUP, cell))
    notebook.run_all()
    output = notebook.output(1)
    well = output.locator(".pk-tool .pk-well")
    expect(well).to_contain_text("line 99999 of")
    assert well.inner_text().splitlines()[0] == "99,990 earlier lines"
    output.locator(".pk-tool .pk-line").click()
    output.locator(".pk-tool .pk-line").click()
    output.locator(".pk-stop").click()
    result = output.locator('.pk-tool .pk-well[data-name="result"]')
    result.get_by_role("button", name="90 earlier lines").click()
    assert result.inner_text().splitlines() == ["result", *(f"line {at}" for at in range(100))]
    output.locator(".pk-stop").click()
    notebook.wait_idle()
    more, largest = map(float, notebook.printed(1).split())
    assert more <= 10
    assert largest <= 2_000
