"""What a run prints in a terminal, and how typed approvals are read."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable

import pytest
from fixtures.team import record

from planck_nb import Agent, Tool
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.run import Run
from planck_nb.jupyter.live.run_agents import RunAgents
from planck_nb.jupyter.terminal.approval_prompt import ApprovalPrompt, LineReader, TypedAnswer, read_answer
from planck_nb.jupyter.terminal.terminal_view import TerminalPrinter, TerminalView
from planck_nb.rendering.plain_output import PlainStream
from planck_nb.testing import Call, Reply, scripted_model

CALL = Call("wait", {"path": "a\x1b[2Jb"})


class Asked:
    """Answers one question after another, and keeps them."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def __call__(self, question: str) -> str:
        self.questions.append(question)
        if not self.answers:
            await asyncio.Event().wait()
        return self.answers.pop(0)


async def _wait(_args: dict[str, object]) -> str:
    return "waited"


def started(replies: Iterable[Reply | str], approvals: Approvals) -> tuple[Agent, Run]:
    agent = Agent(
        model=scripted_model(list(replies)),
        name="ann",
        tools=[Tool(name="wait", description="Wait.", execute_fn=_wait)],
        approvals=approvals,
    )
    return agent, agent.prompt("Go.")


async def printed(
    *replies: Reply | str,
    read: LineReader | None = None,
    ask: bool = False,
    deadline: float = 60.0,
    styles: bool = False,
) -> str:
    """What a terminal shows of a run."""
    output = io.StringIO()
    printer = TerminalPrinter(output, styles=styles)
    rules = (Rule.parse("ask", "wait"),) if ask else ()
    approvals = Approvals(Policy(rules), deadline, attendance=asyncio.Event())
    agent, run = started(replies, approvals)
    prompt = ApprovalPrompt(agent, approvals, run.events, read=read, write=printer.write)
    view = TerminalView(run.events, prompt, printer)
    await asyncio.wait_for(run, 20)
    view.finish()
    view.finish()
    return output.getvalue()


async def test_text_and_calls_stand_on_lines_of_their_own() -> None:
    text = "\n\nFirst I \x1b[31mwait\x1b]0;title\x07.\r\n\n"
    shown = await printed(Reply(text, calls=[CALL]), "Done \u202eand over.\n")
    call = "wait a⟨U+001B⟩[2Jb"
    assert shown == f"First I wait.\n[{call}]\n[{call}: done]\nDone and over.\n"


async def test_a_failed_call_says_why() -> None:
    shown = await printed(Reply(calls=[Call("nothing", {})]), "So.")
    assert "[nothing: failed: unknown tool: nothing." in shown


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        (["y"], "done"),
        (["a"], "done"),
        (["well", "no it is late"], "denied"),
    ],
)
async def test_an_approval_is_asked_for(answers: list[str], state: str) -> None:
    asked = Asked(*answers)
    shown = await printed(Reply(calls=[CALL]), "So.", read=asked, ask=True)
    assert f"[wait a⟨U+001B⟩[2Jb: {state}]" in shown
    assert "wait of ann waits for approval" in shown
    assert len(asked.questions) == len(answers)
    assert ("after n you can write why" in shown) == (len(answers) > 1)


async def test_nobody_to_ask_denies_at_once() -> None:
    began = asyncio.get_running_loop().time()
    shown = await printed(Reply(calls=[CALL]), "So.", ask=True)
    assert "nobody to ask" in shown
    assert asyncio.get_running_loop().time() - began < 20  # a third of the deadline


async def test_a_question_ends_when_it_is_decided_otherwise() -> None:
    shown = await printed(Reply(calls=[CALL]), "So.", read=Asked(), ask=True, deadline=0.2)
    assert "[Nobody approved wait within 0.2 s" in shown
    assert shown.endswith("So.\n")


async def test_a_second_question_waits_for_the_first() -> None:
    asked = Asked("y", "n")
    shown = await printed(
        Reply(calls=[Call("wait", {"path": "1"}), Call("wait", {"path": "2"})]), "So.", read=asked, ask=True
    )
    assert "[wait 1: done]" in shown
    assert "[wait 2: denied]" in shown


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", TypedAnswer(allow=True)),
        (" YES \n", TypedAnswer(allow=True)),
        ("a", TypedAnswer(allow=True, remember=True)),
        ("always", TypedAnswer(allow=True, remember=True)),
        ("n", TypedAnswer(allow=False)),
        ("No, use a copy", TypedAnswer(allow=False, reason="use a copy")),
        ("", None),
        ("yes but", None),
        ("maybe", None),
        ("yn", None),
    ],
)
def test_answers(line: str, answer: TypedAnswer | None) -> None:
    assert read_answer(line) == answer


@pytest.mark.parametrize(
    "command", ["\x1b[31m", "\x1b]0;a title\x07", "\x1b]52;c;aGk=\x1b\\", "\x1b(B", "\r", "\u202e"]
)
def test_commands_to_a_terminal_are_left_out_wherever_they_are_cut(command: str) -> None:
    text = f"a{command}b"
    for at in range(len(text) + 1):
        stream = PlainStream()
        assert stream.feed(text[:at]) + stream.feed(text[at:]) == "ab"


def test_a_terminal_without_all_characters() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    TerminalPrinter(output).write("größer\n")
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"


async def test_a_run_of_a_team_prints_the_lead_and_asks_about_the_calls_of_all() -> None:
    output = io.StringIO()
    agents = record.make_team()
    lead = agents[0]
    run = record.prompt(lead)
    read = Asked("y")
    printer = TerminalPrinter(output, agent=(lead.id, lead.name))
    approvals = Approvals(Policy(()), attendance=asyncio.Event())
    everybody = RunAgents(lead, run.events)
    prompt = ApprovalPrompt(lead, approvals, run.events, read=read, write=printer.write, agents=everybody)
    view = TerminalView(run.events, prompt, printer)
    await run.wait()
    view.finish()
    shown = output.getvalue()
    assert len(read.questions) == 1
    assert "builder" in shown
    for line in (
        "[lead → builder, task: Clean the March export. Both date formats.]",
        "[builder → critic, question: Is it right?]",
        "[critic → builder, answer: Yes, it is right.]",
        "[broken → lead, no answer: broken could not answer: the line broke]",
    ):
        assert line in shown.splitlines()
    assert "Let me ask." not in shown, "what workers write is not mixed into what the lead writes"
    assert shown.endswith(f"{record.REPORT}\n")
    assert [event.error for event in run.events.since(0) if event.type == "tool_end" and event.name == "edit"] == [
        False
    ]
    await lead.stop()


async def test_replies_are_styled_and_what_is_between_them_is_not() -> None:
    text = await printed(
        Reply(text="I **wait**.\n\n```python\nx\n```\n", calls=[Call("wait", {"path": "*a*"})]), "# Done", styles=True
    )
    assert text.replace("\x1b", "") == ("I [1mwait[0m.\n\n[36mx[0m\n[wait *a*]\n[wait *a*: done]\n[1m[4mDone[0m\n")


async def test_terminal_commands_in_a_reply_do_not_reach_the_terminal() -> None:
    assert await printed("`\x1b[31m`red \x1b]0;title\x07", styles=True) == "``red \n"
