from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.hostile_session import previews, turn
from support.payloads import Findings, payloads

from planck_nb.agent import events as ev
from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.preview_types import HtmlPreview
from planck_nb.ai.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.base.markdown import code_span, fenced, to_html, to_markdown
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.transcript.answer import transcript_of
from planck_nb.jupyter.transcript.transcript import RENDER_IN_THREAD_FROM, Outcome, Transcript
from planck_nb.rendering.blocks import Decision, Execution, Notice, TranscriptEntry
from planck_nb.rendering.formatting import TEXT_CHARACTERS, count, dollars, key_argument, shown_arguments

HOSTILE = """<script>alert(1)</script> <img src=x onerror=alert(1)> `<b>code</b>`
[a](javascript:alert(1)) [b](/lab?reset) [c](java&#115;cript:alert(1)) [d](https://e.invalid/d)
![p](https://e.invalid/p.png)

```html
<script>kept as code</script>
```

[ref]: javascript:alert(1)
"""
ALLOWED = {
    *("div p b span details summary pre code table thead tbody tr th td ul ol li a strong em s br hr".split()),
    *("blockquote h1 h2 h3 h4 h5 h6 img sup section".split()),
}

LEFT_ALONE = "tex2jax_ignore mathjax_ignore"
"""The class of text that must not be typeset as a formula."""


class Tags(HTMLParser):
    """Every tag with its attributes; checks that what opens closes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"br", "hr", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_safe(html: str) -> None:
    for tag, attributes in Tags(html).found:
        assert tag in ALLOWED
        assert set(attributes) <= {"style", "href", "rel", "title", "start", "class", "role", "aria-label"} | (
            {"src", "alt"} if tag == "img" else set()
        )
        assert re.match(r"data:image/(png|jpeg|gif|webp);base64,", attributes.get("src") or "data:image/png;base64,")
        assert re.fullmatch(rf"{LEFT_ALONE}|language-[\w+#.-]+", attributes.get("class") or LEFT_ALONE)
        style = attributes.get("style") or ""
        assert "var(" not in style
        assert not re.search(r"(?<!-)\bcolor:", style)
        assert re.match(r"https?:|mailto:", attributes.get("href") or "https:")


def transcript(*messages: TranscriptEntry, outcome: Outcome = "done", error: str | None = None) -> Transcript:
    return Transcript("ana", "demo:x", outcome, messages, Usage(18_000, 400), 0.063, error, 41.2)


def run(answer: str, result: str = "42", *, error: bool = False) -> tuple[Message, ...]:
    call = ToolCallPart("c1", "run_python", {"code": "6 * 7\n", "options": {"a": 1}})
    return (
        AssistantMessage((ThinkingPart("Let me see."), call), "tool_use"),
        ToolResultMessage((ToolResultPart("c1", "run_python", result, error),)),
        AssistantMessage((TextPart(answer),)),
    )


def test_the_forms_tell_the_whole_run() -> None:
    bundle = transcript(*run("The answer is **42**.")).bundle()
    assert bundle["text/plain"] == "[run_python 6 * 7]\nThe answer is **42**."
    assert bundle["text/markdown"] == (
        "**ana** · done · 18.4k tokens · $0.063 · demo:x\n\n> *Thinking*\n>\n> Let me see.\n\n"
        "- `run_python 6 * 7`\n\n  `code`\n  ```text\n  6 * 7\n  ```\n\n"
        '  `options`\n  ```text\n  {"a": 1}\n  ```\n\n  ```text\n  42\n  ```\n\nThe answer is **42**.\n'
    )
    html = bundle["text/html"]
    check_safe(html)
    for part in (
        "<b>ana</b>",
        "18.4k tokens",
        "Let me see.",
        "<b>run_python</b> 6 * 7",
        ">42</pre>",
        "<strong>42</strong>",
    ):
        assert part in html


def test_nothing_in_the_bundle_differs_between_executions() -> None:
    one, other = (Transcript("ana", "m", "done", run("x"), None, None, None, seconds) for seconds in (1.0, 7.7))
    assert one.bundle() == other.bundle()
    assert "c1" not in "".join(one.bundle().values())


@pytest.mark.parametrize(
    ("outcome", "error", "said"),
    [
        ("stopped", None, "Stopped."),
        ("failed", "No key & no luck.", "No key & no luck."),
        ("cut off", "The connection closed early.", "The connection closed early."),
    ],
)
def test_a_run_that_did_not_end_by_itself_says_so_everywhere(outcome: Outcome, error: str | None, said: str) -> None:
    call = AssistantMessage((TextPart("Half"), ToolCallPart("1", "bash", {"command": "ls"})))
    bundle = transcript(call, outcome=outcome, error=error).bundle()
    check_safe(bundle["text/html"])
    unfinished = "stopped" if outcome == "stopped" else "not finished"
    assert bundle["text/plain"] == f"Half\n[bash ls: {unfinished}]\n[{said}]"
    assert said in bundle["text/markdown"]
    assert said.replace("&", "&amp;") in bundle["text/html"]
    assert f"<b>{unfinished}</b>" in bundle["text/html"]


def test_failed_and_invalid_calls_are_marked() -> None:
    assert "<b>failed</b>" in transcript(*run("x", "boom", error=True)).bundle()["text/html"]
    invalid = AssistantMessage((ToolCallPart("1", "bash", {}, invalid='{"command": '),))
    result = ToolResultMessage((ToolResultPart("1", "bash", "not a JSON object", is_error=True),))
    html = transcript(invalid, result).bundle()["text/html"]
    assert "{&quot;command&quot;: </pre>" in html
    assert "not a JSON object" in html


def test_hostile_text_is_only_text() -> None:
    bundle = transcript(*run(HOSTILE, HOSTILE)).bundle()
    check_safe(bundle["text/html"])
    links = [attributes.get("href") for tag, attributes in Tags(bundle["text/html"]).found if tag == "a"]
    assert links == ["https://e.invalid/d", "https://e.invalid/p.png"]


def test_hostile_names_are_only_text() -> None:
    call = ToolCallPart("1", "<img src=x>", {"path": "<script>1</script>", "<b onclick=1>": HOSTILE})
    result = ToolResultMessage((ToolResultPart("1", "<img src=x>", "</pre><script>2</script>"),))
    hostile = Transcript("<a href=x>", "<u>", "failed", (AssistantMessage((call,)), result), None, None, "<i>", 0)
    check_safe(hostile.bundle()["text/html"])


def test_disarmed_markdown_is_harmless_to_a_renderer_that_trusts_it() -> None:
    trusting = MarkdownIt("commonmark", {"html": True})
    trusting.validateLink = bool  # type: ignore[method-assign,assignment]
    html = trusting.render(to_markdown(HOSTILE))
    assert "<script>" not in html
    assert "<img" not in html
    assert re.findall(r'href="([^"]*)"', html) == ["https://e.invalid/d", "https://e.invalid/p.png"]
    assert "<code>&lt;b&gt;code&lt;/b&gt;</code>" in html
    assert "&lt;script&gt;kept as code" in html


SCRAPS = st.lists(
    st.sampled_from(
        [
            "<b onclick=1>",
            "`",
            "``",
            "\\",
            "\n",
            "\n\n",
            "- ",
            "> ",
            "| a | b |\n|--|--|\n",
            " ",
            "```\n",
            "x",
            "![p](u)",
        ]
    ),
    max_size=25,
).map("".join)


@pytest.mark.slow
@given(SCRAPS)
def test_no_arrangement_of_marks_lets_anything_through(text: str) -> None:
    trusting = MarkdownIt("commonmark", {"html": True}).enable("table")
    trusting.validateLink = bool  # type: ignore[method-assign,assignment]
    for token in trusting.parse(to_markdown(text)):
        assert token.type != "html_block"
        kinds = {child.type for child in token.children or ()}
        assert not kinds & {"html_inline", "image", "link_open"}
    check_safe(f"<div>{to_html(text)}</div>")


@given(st.text(alphabet="`x\n ", max_size=40))
def test_fences_and_spans_hold_any_backticks(text: str) -> None:
    [block] = MarkdownIt("commonmark").parse(fenced(text))
    assert block.content.rstrip() == text.rstrip()
    if text.strip():
        [inline] = [token for token in MarkdownIt("commonmark").parse(code_span(text)) if token.type == "inline"]
        assert [child.content.strip() for child in inline.children or ()] == [" ".join(text.split())]


def test_a_long_result_keeps_its_ends() -> None:
    html = transcript(*run("x", "begin" + "y" * 200_000 + "end")).bundle()["text/html"]
    assert len(html) < 30_000
    assert "begin" in html
    assert "end</pre>" in html


def test_what_varies_is_metadata() -> None:
    assert transcript().metadata() == {"planck_nb": {"agent": "ana", "outcome": "done", "seconds": 41.2}}


def test_a_run_that_said_nothing_still_shows() -> None:
    bundle = Transcript("ana", "demo:x", "done", (), None, None, None, 0).bundle()
    assert bundle["text/plain"] == "[done]"
    assert "done · demo:x" in bundle["text/html"]


def test_key_arguments_tell_calls_apart() -> None:
    assert key_argument({"content": "long", "path": "a.py"}) == "a.py"
    assert key_argument({"code": "\n\n  x = 1\ny = 2"}) == "x = 1"
    assert key_argument({"city": "Zürich"}) == "Zürich"
    assert key_argument({"n": 3, "deep": {"a": 1}}) == "3"
    assert key_argument({"deep": {"a": 1}}) == ""
    assert key_argument({"a": 20, "b": 22, "note": ""}) == "20, 22"
    assert key_argument({"city": "Rome", "note": "x" * 50}) == "Rome"


def test_many_arguments_are_bounded() -> None:
    shown = shown_arguments({f"a{at}": "x" * 10_000 for at in range(1_000)})
    assert shown[-1] == ("…", "950 more arguments")
    assert sum(len(text) for _, text in shown) < 25_000


def test_figures_are_short() -> None:
    assert [count(n) for n in (0, 999, 1000, 999_949, 999_950, 18_432)] == [
        "0",
        "999",
        "1.0k",
        "999.9k",
        "1.0M",
        "18.4k",
    ]
    assert [dollars(cost) for cost in (0, 0.0001, 0.063, 1.2)] == ["$0", "<$0.001", "$0.063", "$1.20"]


def test_warnings_stand_before_the_answer_and_show_once() -> None:
    said = "demo:x takes no temperature; it was <left> out."
    transcript = Transcript(
        "ana", "demo:x", "done", (AssistantMessage((TextPart("Hello."),)),), None, None, None, 0.0, (said, said)
    )
    bundle = transcript.bundle()
    assert bundle["text/plain"] == f"[{said}]\nHello."
    assert bundle["text/html"].count("it was &lt;left&gt; out.") == 1
    assert bundle["text/markdown"].index("takes no temperature") < bundle["text/markdown"].index("Hello.")


def reply(*calls: ToolCallPart, text: str = "") -> AssistantMessage:
    return AssistantMessage((TextPart(text), *calls), "tool_use")


def test_what_was_said_into_the_run_stands_where_it_entered() -> None:
    said = UserMessage("Only March,\n<b>please</b>.")
    bundle = transcript(*run("First."), said, AssistantMessage((TextPart("Second."),))).bundle()
    check_safe(bundle["text/html"])
    assert bundle["text/plain"].endswith("First.\n> You: Only March,\n> <b>please</b>.\nSecond.")
    assert "First.\n\n> **You:** Only March,\n> &lt;b>please&lt;/b>.\n\nSecond." in bundle["text/markdown"]
    assert "<b>You:</b> Only March,\n&lt;b&gt;please&lt;/b&gt;.</blockquote>" in bundle["text/html"]
    assert transcript(said).messages == (said,)


def test_denied_and_edited_calls_are_marked() -> None:
    calls = tuple(ToolCallPart(name, "bash", {"command": f"run {name}"}) for name in ("a", "b", "c"))
    results = ToolResultMessage((
        ToolResultPart("a", "bash", "The user denied this call.", is_error=True),
        ToolResultPart("b", "bash", "ok"),
        ToolResultPart("c", "bash", "boom", is_error=True),
    ))  # fmt: skip
    decisions = (
        Decision("a", denied=True),
        Decision("b", args={"command": "ls"}),
        Decision("c", args={"command": "x"}),
    )
    bundle = transcript(reply(*calls), *decisions, results).bundle()
    check_safe(bundle["text/html"])
    assert bundle["text/plain"] == "[bash run a: denied]\n[bash ls: edited by you]\n[bash x: edited by you, failed]"
    for word in ("denied", "edited by you", "edited by you, failed"):
        assert f"<b>{word}</b>" in bundle["text/html"]
        assert f" **{word}**" in bundle["text/markdown"]
    assert "run b" not in bundle["text/html"]


def test_a_decision_counts_for_its_own_reply_only() -> None:
    first = (reply(ToolCallPart("1", "bash", {})), Decision("1", denied=True), ToolResultMessage(()))
    later = (reply(ToolCallPart("1", "bash", {})), ToolResultMessage((ToolResultPart("1", "bash", "ok"),)))
    assert transcript(*first, *later).bundle()["text/plain"] == "[bash: denied]\n[bash]"
    lost = reply(ToolCallPart("1", "bash", {}))
    assert transcript(lost, *later).bundle()["text/plain"] == "[bash: not finished]\n[bash]"


def test_what_happened_is_one_line_each() -> None:
    bundle = transcript(Notice("The <turn> was\ntoo long."), AssistantMessage((TextPart("Hello."),))).bundle()
    check_safe(bundle["text/html"])
    assert bundle["text/plain"] == "[The <turn> was too long.]\nHello."
    assert "> The &lt;turn> was too long.\n\nHello." in bundle["text/markdown"]
    assert "The &lt;turn&gt; was too long.</p>" in bundle["text/html"]


PIXEL = b"\x89PNG not really"


def imaged(*images: ImagePart) -> dict[str, str]:
    result = ToolResultMessage((ToolResultPart("1", "plot", "drawn", images=images),))
    bundle = transcript(reply(ToolCallPart("1", "plot", {"name": "march"})), result).bundle()
    check_safe(bundle["text/html"])
    return bundle


def test_images_of_tools_are_in_the_notebook() -> None:
    bundle = imaged(ImagePart(PIXEL), ImagePart(PIXEL, "image/webp"))
    assert bundle["text/plain"] == "[plot march] [image] [image]"
    assert bundle["text/markdown"].count("\\[image\\]") == 2
    assert re.findall(r'<img src="(data:image/\w+);base64,', bundle["text/html"]) == [
        "data:image/png",
        "data:image/webp",
    ]


@pytest.mark.parametrize(
    "image",
    [
        ImagePart(b"<svg onload=alert(1)>", "image/svg+xml"),
        ImagePart('" onerror="alert(1)', "image/png"),
        ImagePart(b"x" * 2_000_000, "image/png"),
        ImagePart(url="https://e.invalid/p.png"),
        ImagePart(PIXEL, 'image/png" onerror="alert(1)'),
    ],
    ids=["svg", "not base64", "too large", "elsewhere", "strange type"],
)
def test_other_images_are_only_named(image: ImagePart) -> None:
    html = imaged(image)["text/html"]
    assert "<img" not in html
    assert "[image" in html


def test_many_calls_of_a_reply_are_one_line_that_holds_them() -> None:
    calls = tuple(ToolCallPart(str(at), "read" if at % 4 else "ls", {"path": f"p{at}"}) for at in range(9))
    results = ToolResultMessage(tuple(ToolResultPart(str(at), "read", "x", at == 3) for at in range(9)))
    bundle = transcript(reply(*calls), results, AssistantMessage((TextPart("Done."),))).bundle()
    check_safe(bundle["text/html"])
    assert bundle["text/plain"] == "[9 calls: ls 3, read 6, 1 failed]\nDone."
    assert bundle["text/html"].count("<details") == 10
    assert bundle["text/markdown"].count("\n  - `") == 9
    assert "- **9 calls** `ls 3, read 6` **1 failed**" in bundle["text/markdown"]
    few = transcript(reply(*calls[:8]), results).bundle()
    assert few["text/html"].count("<details") == 8


def test_colours_of_a_terminal_are_left_out() -> None:
    html = transcript(*run("x", "\x1b[31mred\x1b[0m")).bundle()["text/html"]
    assert ">red</pre>" in html


def event(kind: Any, **payload: Any) -> ev.AgentEvent:
    made: ev.AgentEvent = kind("a", None, 0, 0, 100.0, **payload)
    return made


def test_the_events_of_a_run_become_its_transcript() -> None:
    def message(content: Message) -> ev.AgentEvent:
        return event(ev.MessageAppended, id=1, message=content)

    call = ToolCallPart("1", "bash", {"command": "ls"})
    decided = {"id": "1", "name": "bash", "by": "user"}
    events = [
        message(UserMessage("the prompt")),
        message(reply(call)),
        event(ev.ApprovalDecision, allowed=True, args={"command": "pwd"}, **decided),
        event(ev.ApprovalDecision, allowed=True, **{**decided, "by": "rule", "id": "2"}),
        message(ToolResultMessage((ToolResultPart("1", "bash", "/"),))),
        event(ev.Steered, prompt_id="q"),
        message(UserMessage("left")),
        message(UserMessage("a correction of ours")),
        event(ev.Compacted, summary_id=1, tokens_before=90_100, tokens_after=8_200),
        event(ev.Compacted, summary_id=None, tokens_before=1, tokens_after=1, reason="The model said no."),
        event(ev.Fallback, failed="a:b", model="c:d", reason="Busy."),
        event(ev.LimitReached, limit="rounds", reason="The turn has used up its 3 rounds."),
    ]
    assert transcript_of("ana", "demo:x", events).bundle()["text/plain"].splitlines() == [
        "[bash pwd: edited by you]",
        "> You: left",
        "[What was said before was summarised: 90.1k tokens became 8.2k.]",
        "[The conversation was not shortened. The model said no.]",
        "[a:b could not answer, so c:d is asked. Busy.]",
        "[The turn has used up its 3 rounds.]",
    ]


def test_a_cost_that_is_partly_estimated_is_the_least_that_the_run_took() -> None:
    def used(*, estimated: bool) -> ev.AgentEvent:
        usage = Usage(10, 2)
        return event(ev.UsageDelta, delta=usage, total=usage, cost=0.05, total_cost=0.05, estimated=estimated)

    said = event(ev.MessageAppended, id=1, message=AssistantMessage((TextPart("hi"),)))
    for estimated in (True, False):
        events = [said, used(estimated=estimated), used(estimated=False)]
        bundle = transcript_of("ana", "m", events).bundle()
        for shown in (bundle["text/html"], bundle["text/markdown"]):
            assert ("24 tokens · at least " if estimated else "24 tokens · ") in shown
            assert ("at least" in shown) == estimated


def test_a_call_that_was_stopped_while_it_waited_was_not_denied() -> None:
    stopped = event(ev.ApprovalDecision, id="1", name="bash", allowed=False, by="stop")
    events = [event(ev.MessageAppended, id=1, message=reply(ToolCallPart("1", "bash", {}))), stopped, event(ev.Aborted)]
    assert transcript_of("ana", "m", events).bundle()["text/plain"] == "[bash: stopped]\n[Stopped.]"


def test_a_call_that_was_stopped_did_not_fail() -> None:
    result = ToolResultMessage((ToolResultPart("1", "bash", STOPPED, is_error=True),))
    events = [
        event(ev.MessageAppended, id=1, message=reply(ToolCallPart("1", "bash", {}))),
        event(ev.MessageAppended, id=2, message=result),
        event(ev.Aborted),
    ]
    assert transcript_of("ana", "m", events).bundle()["text/plain"] == "[bash: stopped]\n[Stopped.]"


# Large answers: rendered in a thread, once, and bounded in the notebook.


def answered(text: str) -> Transcript:
    return Transcript("ana", "demo:x", "done", (AssistantMessage((TextPart(text),)),), None, None, None, 0.0)


def test_only_large_transcripts_are_rendered_in_a_thread() -> None:
    assert not answered("x" * RENDER_IN_THREAD_FROM).is_large
    assert answered("x" * (RENDER_IN_THREAD_FROM + 1)).is_large


def test_html_of_calls_counts_for_the_size() -> None:
    document = HtmlPreview("", "x" * (RENDER_IN_THREAD_FROM + 1))
    small = answered("x")
    assert replace(small, entries=(*small.entries, Execution("1", previews=(document,)))).is_large


def test_ten_megabytes_are_bounded_in_the_notebook_and_complete_in_the_answer() -> None:
    transcript = answered("first " + "](<" * 3_333_333 + " last")
    bundle = transcript.bundle()
    assert all(len(value) < 5 * TEXT_CHARACTERS for value in bundle.values())
    for value in bundle.values():
        assert "first" in value
        assert "last" in value
        assert "characters left out" in value
    [message] = transcript.messages
    assert len(message.content[0].text) == 10_000_010  # type: ignore[union-attr]


def test_a_transcript_is_rendered_once() -> None:
    transcript = answered("x")
    bundle = transcript.bundle()
    bundle["text/plain"] = "changed"
    assert transcript.bundle()["text/plain"] == "x"
    assert transcript.bundle()["text/html"] is bundle["text/html"]


@pytest.mark.slow
async def test_the_loop_goes_on_while_a_large_transcript_is_rendered() -> None:
    transcript = answered("- **a** [b](https://x.test)\n" * 1_000)
    rendering = asyncio.ensure_future(run_in_thread(transcript.bundle))
    steps = 0
    while not rendering.done():
        await asyncio.sleep(0)
        steps += 1
    assert steps > 10


def test_no_place_in_a_transcript_runs_what_others_wrote() -> None:
    render = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
    for text in payloads():
        messages = turn(text)
        entries = (Notice(text), *messages[1:3], Execution("1", previews=previews(text)), *messages[3:])
        ends: list[tuple[Outcome, str | None]] = [("failed", text), ("cut off", None)]
        for outcome, error in ends:
            run = Transcript(text, text, outcome, entries, None, None, error, 0.0, (text,), text, (text,))
            bundle = run.bundle()
            assert Findings(render(bundle["text/markdown"])).found == [], text
            assert Findings(bundle["text/html"]).found == [], text
