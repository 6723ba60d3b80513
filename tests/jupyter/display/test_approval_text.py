"""What a person sees of a call that waits: all of it, with nothing hidden, and what Always would allow."""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from support.agents import calling, until

from planck_nb import Agent, BuiltinTools, Tool
from planck_nb.agent import events as ev
from planck_nb.agent.approval import Policy
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.approval.shown_call import MAX_CHARACTERS, MAX_LINES, call_size
from planck_nb.agent.effect import Effect
from planck_nb.agent.state import PendingApproval
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import is_hidden, literal
from planck_nb.jupyter.display.approval_text import pending_text, rule_sentence
from planck_nb.jupyter.live.approval_display import approval_display
from planck_nb.jupyter.live.browser_commands import read_command
from planck_nb.rendering.formatting import key_argument, shown_arguments
from planck_nb.testing import scripted_model
from planck_nb.tools.external import ExternalTool


@cache
def hidden() -> str:
    """All hidden characters, but few of those that are no characters at all."""
    return "".join(
        char
        for code in range(sys.maxunicode + 1)
        if is_hidden(char := chr(code)) and (unicodedata.category(char) not in ("Cn", "Co", "Cs") or code % 499 == 0)
    )


def request(args: JsonObject, *touches: Effect, rule: str = "", name: str = "bash") -> ev.ApprovalRequest:
    return ev.ApprovalRequest("a", None, 0, 0, 0.0, "1", name, args, touches, "why", 9.0, rule)


def texts_of(sent: ev.ApprovalRequest) -> list[str]:
    """Every text that is shown of the request: in the browser, and as text."""
    pending = PendingApproval(sent.id, sent.name, sent.args, sent.touches, sent.reason, sent.deadline, sent.rule)
    found = [
        pending_text("ann", pending),
        key_argument(sent.args),
        *(t for pair in shown_arguments(sent.args) for t in pair),
    ]
    waiting: list[object] = [json.loads(json.dumps(vars_of(approval_display(sent))))]
    while waiting:
        match waiting.pop():
            case str(text):
                found.append(text)
            case list(items):
                waiting += items
            case dict(items):
                waiting += items.values()
    return found


def vars_of(display: object) -> JsonObject:
    return {name: getattr(display, name) for name in type(display).__slots__}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_no_hidden_character_is_shown_as_it_is() -> None:
    everything = hidden()
    for at in range(0, len(everything), 1_000):
        text = f"ls {everything[at : at + 1_000]}"
        touches = (Effect("execute", text), Effect("write", f"/{text[:200]}"), Effect("network", text[:50]))
        args = {
            "command": text,
            "n\u202e": {"\u2066": [text[:99]]},
            "path": text,
            "old_string": text,
            "new_string": text,
        }
        sent = request(args, *touches, rule=f"execute@bash:{text[:99]}")
        for shown in texts_of(sent):
            assert not [char for char in set(shown) if is_hidden(char)]


def test_letters_of_other_alphabets_do_not_pass_for_latin_ones_in_commands_and_paths() -> None:
    display = approval_display(request({"command": "c\u0430t x"}, Effect("execute", "c\u0430t x")))
    assert display.arguments == (("command", "c⟨U+0430⟩t x", "text"),)
    display = approval_display(request({"path": "\u0430b", "content": "Δx"}, Effect("write", "/x/\u0430b")))
    assert display.arguments == (("path", "⟨U+0430⟩b", "text"), ("content", "Δx", "text"))
    assert display.effects == (("write", "/x/⟨U+0430⟩b"),)


@pytest.mark.parametrize("value", ["a\u202eb\r\n", "⟨U+202E⟩", {"\u2066": ["\u200b", 1]}, "c\u0430t", "\ufeff"])
def test_what_is_edited_runs_as_edited_and_what_is_not_stays(value: object) -> None:
    args = {"command": value, "other": "\u202e"}
    [(_, shown, kind), _] = approval_display(request(args, Effect("execute", "x"))).arguments
    edited = shown if kind == "text" else json.loads(shown)
    taken: list[JsonObject] = []

    class Decide:
        def decide(self, call_id: str, *, args: JsonObject, **_: object) -> None:
            taken.append(args)

    decision = {
        "type": "decide",
        "id": "1",
        "allow": True,
        "args": {"command": edited},
        "remember": False,
        "reason": "",
    }
    command = read_command(decision, lambda *_: args)
    assert command is not None
    command(Decide())  # type: ignore[arg-type]
    assert taken == [args]


def test_a_long_command_of_a_tool_file_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    command = "echo " + "harmless " * 40 + "{{x}}; rm -rf ~/work"
    (tmp_path / "t/TOOL.json").write_text(
        json.dumps({"name": "t", "description": "d", "command": command, "parameters": {"type": "object"}})
    )
    tool = ExternalTool.from_file(tmp_path / "t/TOOL.json")
    args = {"x": "a b"}
    sent = request(args, *tool.touched(args), name="t")
    whole = command.replace("{{x}}", "'a b'")
    assert approval_display(sent).commands == (whole,)
    assert any(whole in text for text in texts_of(sent)[:1])


def test_a_command_in_another_folder_is_shown_as_it_runs() -> None:
    sent = request(
        {"command": "rm x", "cwd": ".."}, Effect("execute", "rm x", "/c\u0430t"), rule="cwd=/a execute@bash:rm x"
    )
    display = approval_display(sent)
    assert (display.commands, display.cwd, display.rule) == (
        (),
        "/c⟨U+0430⟩t",
        "bash to run exactly this command in /a",
    )
    [text, *_] = texts_of(sent)
    assert "\n  in the folder: /c⟨U+0430⟩t\n" in text
    assert approval_display(request({"command": "rm x"}, Effect("execute", "rm x"))).cwd == ""


def test_the_network_of_a_command_includes_this_computer() -> None:
    sent = request({"command": "curl x"}, Effect("execute", "curl x"), Effect("network"), rule="network@bash")
    assert "network: anything, also this computer's own servers\n" in texts_of(sent)[0]
    assert "to use the network, also this computer's own servers (the rule `network@bash`)" in texts_of(sent)[0]


@pytest.mark.parametrize("size", [100_001, 150_000])
def test_a_long_text_is_shown_whole(size: int) -> None:
    text = "".join(f"{at:06d}\n" for at in range(size // 7))
    display = approval_display(request({"path": "p", "content": text}, Effect("write", "/p")))
    assert {name: shown for name, shown, _ in display.arguments}["content"] == text
    assert display.whole


async def denied(tmp_path: Path, content: str) -> str:
    agent = Agent(
        model=scripted_model(calling(("write", {"path": "f", "content": content}))),
        tools=BuiltinTools.all(cwd=tmp_path),
        approvals=Approvals(Policy.ask_before_changes(tmp_path), deadline=0.01),
    )
    run = agent.prompt("go")
    await run
    assert not [event for event in run.events.since(0) if isinstance(event, ev.ApprovalRequest)]
    assert not (tmp_path / "f").exists()
    [message] = [entry.message for entry in agent.state.messages if isinstance(entry.message, ToolResultMessage)]
    return message.content[0].text


@pytest.mark.parametrize("content", ["x" * MAX_CHARACTERS, "\n" * MAX_LINES, "\u202e" * (MAX_CHARACTERS // 7)])
async def test_what_is_too_long_to_be_shown_is_refused_with_a_sentence(tmp_path: Path, content: str) -> None:
    text = await denied(tmp_path, content)
    assert (
        "can be shown for approval; do it in smaller parts, or ask the user to allow it with `--allow write`." in text
    )


SIZES: dict[str, tuple[dict[str, object], bool]] = {
    "a table with carriage returns": ({"content": "1,2,3\r\n" * 16_000}, False),
    "a smaller one": ({"content": "1,2,3\r\n" * 14_000}, True),
    "escaped line feeds": ({"content": "print('\\\\n')\n" * 15_000}, True),
    "an object": ({"rows": [["a\nb", 1]] * 10_000}, True),
    "lookalikes in a name": ({"path": "c\u0430t " * 20_000}, False),
    "lookalikes in a file": ({"content": "c\u0430t " * 20_000}, True),
    "other letters": ({"content": "кот " * 40_000}, True),
    "names": ({"x" * MAX_CHARACTERS: 1}, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
async def test_what_an_agent_asks_about_can_be_shown_and_allowed(name: str, tmp_path: Path) -> None:
    args, fits = SIZES[name]
    assert call_size(args, [Effect("write", "/p")]).can_be_shown is fits
    display = approval_display(request(args, Effect("write", "/p")))
    assert display.whole is fits
    assert ("cut" in [kind for _, _, kind in display.arguments]) is not (fits or name == "names")
    tool = Tool(
        name="put",
        description="Puts.",
        execute_fn=lambda _id, _args: "put",
        touches=lambda _args: [Effect("write", "p")],
    )
    approvals = Approvals(Policy.ask_before_changes(tmp_path), deadline=0.01)
    run = Agent(model=scripted_model(calling(("put", args))), tools=[tool], approvals=approvals).prompt("go")
    await run
    assert any(isinstance(event, ev.ApprovalRequest) for event in run.events.since(0)) is fits


def test_a_huge_call_is_not_spelled_out() -> None:
    before = time.thread_time()
    assert not call_size({"content": "\u202e" * 20_000_000}, ()).can_be_shown
    assert time.thread_time() - before < 10  # to spell it out would take minutes


def test_what_is_not_whole_cannot_be_allowed() -> None:
    display = approval_display(request({"content": "x" * 300_000}, Effect("write", "/p")))
    assert not display.whole
    assert [kind for _, _, kind in display.arguments] == ["cut"]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("write:./src/**", "every tool to write everything below ./src (the rule `write:./src/**`)"),
        ("read:/etc/*", "every tool to read every file directly in /etc (the rule `read:/etc/*`)"),
        ("read:/home/a/.env", "every tool to read /home/a/.env (the rule `read:/home/a/.env`)"),
        ("execute@bash:ls -la", "bash to run exactly this command"),
        ("execute@t", "t to run any command"),
        (
            "network@fetch:https://a.invalid",
            "fetch to connect to https://a.invalid (the rule `network@fetch:https://a.invalid`)",
        ),
        ("write", "every tool to write any file (the rule `write`)"),
        ("lookup", "all calls of lookup"),
        ("write:./*", "every tool to write every file directly in the working directory (the rule `write:./*`)"),
        ("write:./**", "every tool to write everything below the working directory (the rule `write:./**`)"),
        ("read:/*", "every tool to read every file directly in / (the rule `read:/*`)"),
        ("read:/**", "every tool to read everything below / (the rule `read:/**`)"),
    ],
)
def test_what_always_allows_is_said(rule: str, sentence: str) -> None:
    assert rule_sentence(rule) == sentence


async def test_a_request_has_the_rule_that_is_then_remembered(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    approvals = Approvals(Policy.ask_before_changes(tmp_path))
    agent = Agent(
        model=scripted_model(calling(("write", {"path": "src/a.py", "content": ""}))),
        tools=BuiltinTools.all(cwd=tmp_path),
        approvals=approvals,
    )
    run = agent.prompt("go")
    event = await until(run, "approval_request")
    assert isinstance(event, ev.ApprovalRequest)
    assert event.rule == agent.state.pending_approvals[0].rule == "write:./src/**"
    assert approval_display(event).rule == "every tool to write everything below ./src (the rule `write:./src/**`)"
    shown = pending_text("ann", agent.state.pending_approvals[0])
    assert "`--always` allows every tool to write everything below ./src" in shown
    agent.decide(event.id, allow=True, remember=True, scope="all")
    await run
    assert [str(rule) for rule in approvals.policy.rules] == ["write:./src/**"]


def test_what_is_spelled_out_can_be_read_back_from_the_whole_text() -> None:
    args = {"command": "a\u202e\nb\u3164"}
    [(_, shown, _)] = approval_display(request(args, Effect("execute", args["command"]))).arguments
    assert literal(shown) == args["command"]
