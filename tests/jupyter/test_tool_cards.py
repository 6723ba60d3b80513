"""What the cell shows of calls besides their result: prints, durations, diffs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.node import LABEXTENSION

from planck_nb.agent import events as ev
from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.agent.effect import Effect
from planck_nb.ai.messages import AssistantMessage, TextPart, ToolCallPart, ToolResultMessage, ToolResultPart
from planck_nb.base import errors
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.display.error_titles import ERROR_TITLES
from planck_nb.jupyter.live.approval_display import approval_display
from planck_nb.jupyter.tool_prints import prints_in_calls
from planck_nb.jupyter.transcript.answer import transcript_of
from planck_nb.tools.files import text_diff

AT = ("a1", "s", 0, 0)


def events(
    result: str, printed: str = "", *, name: str = "load", error: bool = False, **args: str
) -> list[ev.AgentEvent]:
    reply = AssistantMessage((ToolCallPart("c1", name, dict(args)),), "tool_use")
    results = ToolResultMessage((ToolResultPart("c1", name, result, error),))
    answer = AssistantMessage((TextPart("Done."),))
    return [
        ev.TurnStart(*AT, 100.0, 0, "demo:x"),
        ev.MessageAppended(*AT, 101.0, 1, reply),
        ev.ToolStart(*AT, 102.0, "c1", name, dict(args)),
        *([ev.ToolProgress(*AT, 103.0, "c1", name, printed)] if printed else []),
        ev.ToolEnd(*AT, 104.5, "c1", name, result, error),
        ev.MessageAppended(*AT, 104.5, 2, results),
        ev.MessageAppended(*AT, 105.0, 3, answer),
    ]


def html(found: list[ev.AgentEvent], *, timed: bool = False) -> str:
    return transcript_of("ana", "demo:x", found, timed=timed).bundle()["text/html"]


async def test_what_a_tool_prints_goes_to_its_call_and_nothing_else_does(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    progress = ProgressReporter(shown.append)

    def tool() -> None:
        print("from the tool")
        print("and its warnings", file=sys.stderr)

    with prints_in_calls():
        print("from the cell")
        with progress.in_context():
            tool()
            await run_in_thread(tool)
            progress.close()
            print("after the call")
        with prints_in_calls():
            print("inner")
    print("outside")
    assert "".join(shown) == "from the tool\nand its warnings\n" * 2
    assert capsys.readouterr().out == "from the cell\nafter the call\ninner\noutside\n"


def test_prints_are_in_the_saved_call_and_bounded() -> None:
    saved = html(events("42", "".join(f"line {number}\n" for number in range(5_000))))
    assert "line 4999" in saved
    assert "line 4989" not in saved
    assert "[earlier lines are not shown]" in saved
    assert len(saved) < 5_000


def test_output_that_is_also_the_result_is_shown_once() -> None:
    assert html(events("hello\nworld", "hello\nworld\n")).count("world") == 1


def test_durations_are_saved_only_if_they_may_differ() -> None:
    assert "2.5 s" in html(events("42"), timed=True)
    assert "done · 5 s" in html(events("42"), timed=True)
    assert "2.5 s" not in html(events("42"))


def test_a_file_that_was_overwritten_is_shown_as_a_diff() -> None:
    result = "Written a.py.\n" + text_diff(b"one\ntwo\n", b"one\nthree\n", "a.py").text
    saved = html(events(result, name="write", path="a.py", content="one\nthree\n"))
    assert "overwrote the file" in saved
    assert "+1 −1" in saved  # noqa: RUF001 - a minus sign
    assert 'background-color:rgba(56,142,60,0.14)">+ three\n' in saved
    assert 'background-color:rgba(211,47,47,0.12)">− two\n' in saved  # noqa: RUF001
    assert "<p" in saved
    assert ">content</p>" not in saved


def test_a_failed_call_is_marked_in_the_saved_output() -> None:
    assert "border-left:2px solid #d32f2f" in html(events("Error: no", error=True))
    assert "border-left:2px solid #d32f2f" not in html(events("fine"))


@pytest.mark.parametrize(("content", "overwrites"), [("one\ntwo\n", True), (None, False), ("\0", True)])
def test_a_request_to_replace_a_file_shows_what_it_replaces(
    tmp_path: Path, content: str | None, *, overwrites: bool
) -> None:
    file = tmp_path / "a.py"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    args = {"path": "a.py", "content": "one\nthree\n"}
    request = ev.ApprovalRequest(
        *AT, 1.0, id="c1", name="write", args=args, touches=(Effect("write", str(file)),), reason="", deadline=2.0
    )
    display = approval_display(request)
    assert display.overwrites is overwrites
    if content == "one\ntwo\n":
        assert display.change == ((" ", "one"), ("-", "two"), ("+", "three"), (" ", ""))
        assert display.replaced == ("content",)
    else:
        assert display.change is None
    file.write_text("written meanwhile", encoding="utf-8")
    assert approval_display(request) == display, "another page shows another change"


def test_the_saved_error_has_a_title_and_a_sentence() -> None:
    saved = html([*events("42"), ev.Error(*AT, 106.0, "api.x.org answered 401.", "AuthenticationError")])
    sentence = "api.x.org answered 401. What was received is kept."
    assert f"<b>The provider does not accept the API key</b><br>{sentence}" in saved
    assert "AuthenticationError" not in saved


def test_both_views_have_the_same_titles_of_errors() -> None:
    source = (LABEXTENSION / "src/model/error-titles.ts").read_text(encoding="utf-8")
    assert dict(re.findall(r"^  (\w+): '(.*)',$", source, re.MULTILINE)) == ERROR_TITLES
    assert all(hasattr(errors, kind) for kind in ERROR_TITLES)
