from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.agent import events as ev
from planck_nb.agent.approval.effect import Effect
from planck_nb.ai.messages import AssistantMessage, ToolResultMessage, ToolResultPart, Usage, UserMessage
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.formatting import SHOWN_CHARACTERS
from planck_nb.jupyter.live import event_encoding as live_events
from planck_nb.jupyter.live.frames import FrameEncoder


def event(kind: Any, seq: int = 0, **payload: Any) -> ev.AgentEvent:
    made: ev.AgentEvent = kind("a", None, 0, seq, 100.0 + seq, **payload)
    return made


def joined(encoded: list[JsonObject]) -> list[tuple[str, str | None, str]]:
    """The deltas with adjacent ones of a kind joined, whatever frames they came in."""
    runs: list[tuple[str, str | None, str]] = []
    for entry in encoded:
        key = (entry["type"], entry.get("id"))
        if runs and runs[-1][:2] == key:
            runs[-1] = (*key, runs[-1][2] + entry["text"])
        else:
            runs.append((*key, entry["text"]))
    return runs


DELTAS = st.one_of(
    st.text(max_size=5).map(lambda text: event(ev.TextDelta, text=text)),
    st.text(max_size=5).map(lambda text: event(ev.ThinkingDelta, text=text)),
    st.tuples(st.sampled_from("12"), st.text(max_size=5)).map(
        lambda call: event(ev.ToolArgsDelta, id=call[0], name="t", text=call[1])
    ),
)


@given(st.lists(DELTAS, max_size=30), st.lists(st.integers(0, 30)))
def test_any_cut_into_frames_says_the_same(events: list[ev.AgentEvent], cuts: list[int]) -> None:
    framed: list[JsonObject] = []
    encoder = FrameEncoder()
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    for start, end in pairwise(edges):
        framed += encoder.encode(events[start:end])
    assert joined(framed) == joined(FrameEncoder().encode(events))


def test_adjacent_deltas_are_one() -> None:
    events = [event(ev.TextDelta, seq, text=text) for seq, text in enumerate("abc")]
    assert FrameEncoder().encode(events) == [{"type": "text", "t": 0.0, "text": "abc"}]
    pieces = [event(ev.ToolArgsDelta, id=call, name="t", text=call) for call in "1122"]
    assert [(entry["id"], entry["text"]) for entry in FrameEncoder().encode(pieces)] == [("1", "11"), ("2", "22")]


def test_arguments_are_bounded_as_a_whole_and_counted_in_full() -> None:
    encoder = FrameEncoder()
    piece = "x" * 9_000
    frames = [encoder.encode([event(ev.ToolArgsDelta, id="1", name="t", text=piece)]) for _ in range(4)]
    assert [len(entry["text"]) for [entry] in frames] == [9_000, 9_000, 2_000, 0]
    assert [entry["count"] for [entry] in frames] == [9_000, 18_000, 27_000, 36_000]


def test_results_and_arguments_keep_beginning_and_end() -> None:
    long = "begin" + "x" * 100_000 + "end"
    start, end = FrameEncoder().encode(
        [
            event(ev.ToolStart, id="1", name="t", args={"code": long, "n": [1]}),
            event(ev.ToolEnd, id="1", name="t", result=long, error=False),
        ]
    )
    [(name, shown), number] = start["args"]
    assert (name, number) == ("code", ("n", "[1]"))
    for text in (shown, end["text"]):
        assert text.startswith("begin")
        assert text.endswith("end")
        assert len(text) < SHOWN_CHARACTERS + 100
    assert start["key"] == long[:200]


def test_only_failures_of_results_are_told_twice() -> None:
    results = ToolResultMessage((ToolResultPart("1", "t", "fine"), ToolResultPart("2", "t", "bad JSON", is_error=True)))
    assert FrameEncoder().encode([event(ev.Message, id=1, message=results)]) == [
        {"type": "failures", "t": 0.0, "calls": [["2", "bad JSON"]]}
    ]


def test_what_is_not_shown_is_not_sent() -> None:
    started = ev.AgentStarted("a", None, 0, 0, 1.0, "name", "", "model", "a secret", ())
    assert FrameEncoder().encode([started]) == []


def test_times_count_from_the_first_event() -> None:
    encoder = FrameEncoder()
    encoder.encode([event(ev.TurnStart, 0, index=0, model="m")])
    [entry] = encoder.encode([event(ev.TurnEnd, 7, message=AssistantMessage(()), usage=Usage())])
    assert entry == {"type": "end", "t": 7.0}


PROGRESS = st.tuples(st.sampled_from("12"), st.text("ab\n\r", max_size=8)).map(
    lambda call: event(ev.ToolProgress, id=call[0], name="t", text=call[1])
)


@given(st.lists(PROGRESS, max_size=30), st.lists(st.integers(0, 30)))
def test_however_progress_is_framed_its_last_tail_is_the_same(events: list[ev.AgentEvent], cuts: list[int]) -> None:
    encoder = FrameEncoder()
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    framed: dict[str, JsonObject] = {}
    for start, end in pairwise(edges):
        framed |= {entry["id"]: entry for entry in encoder.encode(events[start:end])}
    assert framed == {entry["id"]: entry for entry in FrameEncoder().encode(events)}


def test_of_progress_only_the_tail_is_sent_once_a_frame() -> None:
    encoder = FrameEncoder()
    lines = [event(ev.ToolProgress, id="1", name="bash", text=f"\x1b[32mline {at}\x1b[0m\n") for at in range(48)]
    [entry] = encoder.encode([*lines[:20], event(ev.TextDelta, text=""), *lines[20:]])[1:]
    assert entry == {
        "type": "progress",
        "t": 0.0,
        "id": "1",
        "text": "\n".join(f"line {at}" for at in range(38, 48)),
        "earlier": 38,
    }
    end = event(ev.ToolEnd, id="1", name="bash", result="\x1b[31mall\x1b[0m of it", error=False)
    [result] = encoder.encode([lines[0], end])
    assert (result["type"], result["text"]) == ("result", "all of it")


def test_what_steers_is_shown_and_prompts_are_not() -> None:
    def said(text: str) -> ev.AgentEvent:
        return event(ev.Message, id=1, message=UserMessage(text))

    steered = event(ev.Steered, prompt_id="q")
    encoded = FrameEncoder().encode([said("prompt"), steered, said("left"), said("correction"), steered, said("up")])
    assert [(entry["type"], entry.get("text")) for entry in encoded] == [
        ("unqueued", None),
        ("said", "left"),
        ("unqueued", None),
        ("said", "up"),
    ]


def test_a_prompt_that_is_too_long_to_be_shown_whole_says_so() -> None:
    short, long = (event(ev.Queued, prompt_id="q", text="x" * size, steer=True) for size in (10, 30_000))
    encoded = FrameEncoder().encode([short, long])
    assert [(entry["whole"], entry["steer"]) for entry in encoded] == [(True, True), (False, True)]


def test_every_event_that_is_not_a_secret_of_the_agent_is_shown_or_says_why_not() -> None:
    shown = {
        *live_events._ENCODERS,
        "approval_request",
        "tool_progress",
        "text_delta",
        "thinking_delta",
        "tool_args_delta",
    }
    every = {kind.__dataclass_fields__["type"].default for kind in ev.EventBase.__subclasses__()}
    assert every - shown == {"agent_started", "agent_changed", "agent_stopped"}


def ask(args: JsonObject, *touches: Effect, why: str = "why") -> JsonObject:
    request = event(ev.ApprovalRequest, id="1", name="edit", args=args, touches=touches, reason=why, deadline=400.0)
    [encoded] = FrameEncoder().encode([request])
    return encoded


def test_an_approval_shows_what_it_touches_and_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "sales" / "load.py"
    encoded = ask(
        {"path": "sales/load.py"}, Effect("write", str(target)), Effect("write", "/etc/x"), Effect("execute", "ls")
    )
    assert encoded["touches"] == [["write", "sales/load.py"], ["write", "/etc/x"], ["execute", "ls"]]
    assert encoded["deadline"] == 300.0
    assert encoded["folder"] == "/"
    assert ask({}, Effect("write", str(target)))["folder"] == "~/sales"
    assert (
        ask({}, Effect("write", str(target)), why=f"Writing {target} is new.")["reason"]
        == "Writing sales/load.py is new."
    )
    assert ask({}, Effect("write", "one"), Effect("write", "/two/x"))["folder"] == ""


def test_a_replacement_is_shown_as_what_changes() -> None:
    encoded = ask({"path": "p", "old_string": "a\nb\nc", "new_string": "a\nB\nC\nc"})
    assert encoded["change"] == [[" ", "a"], ["-", "b"], ["+", "B"], ["+", "C"], [" ", "c"]]
    assert encoded["replaced"] == ["old_string", "new_string"]
    assert ask({"command": "ls"})["change"] is None


def test_arguments_can_be_edited_as_what_they_are() -> None:
    args = {"command": "ls", "timeout": 60, "really": True, "env": {"a": 1}, "none": None, "long": "x" * 200_000}
    kinds = [(name, kind) for name, _, kind in ask(args)["args"]]
    assert kinds == [
        ("command", "text"),
        ("timeout", "number"),
        ("really", "choice"),
        ("env", "json"),
        ("none", "json"),
        ("long", "cut"),
    ]
    assert ask(args)["args"][2][1] == "true"


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_change_holds_both_texts(old: list[str], new: list[str]) -> None:
    change = ask({"old_string": "\n".join(old), "new_string": "\n".join(new)})["change"]
    assert "\n".join(line for sign, line in change if sign != "+") == "\n".join(old)
    assert "\n".join(line for sign, line in change if sign != "-") == "\n".join(new)


def test_what_utf_8_cannot_carry_is_replaced() -> None:
    [entry] = FrameEncoder().encode([event(ev.TextDelta, text="a\ud800b")])
    assert entry["text"] == "a?b"
