from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planck_nb.agent import events as ev
from planck_nb.ai.messages import AssistantMessage, ToolResultMessage, ToolResultPart, Usage
from planck_nb.base.json import JsonObject
from planck_nb.jupyter.live_frames import FrameEncoder
from planck_nb.jupyter.transcript_text import SHOWN_CHARACTERS


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


def test_what_utf_8_cannot_carry_is_replaced() -> None:
    [entry] = FrameEncoder().encode([event(ev.TextDelta, text="a\ud800b")])
    assert entry["text"] == "a?b"
