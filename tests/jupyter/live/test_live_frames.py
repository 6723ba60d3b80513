from __future__ import annotations

import json
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from fixtures.events import record
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.agent import events as ev
from planck_nb.agent.effect import Effect
from planck_nb.ai.messages import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live import browser_events, frames
from planck_nb.jupyter.live.frames import EARLIER_IMAGE, FrameEncoder
from planck_nb.rendering.formatting import SHOWN_CHARACTERS
from planck_nb.rendering.shown_images import IMAGE_CHARACTERS


def event(kind: Any, seq: int = 0, agent: str = "a", **payload: Any) -> ev.AgentEvent:
    made: ev.AgentEvent = kind(agent, None, 0, seq, 100.0 + seq, **payload)
    return made


def base(seq: int = 0, agent: str = "a") -> JsonObject:
    """What every encoded event has."""
    return {"agent_id": agent, "turn": 0, "seq": seq, "time": 100.0 + seq}


def joined(encoded: list[JsonObject]) -> list[tuple[str, str | None, str]]:
    """The deltas with adjacent ones of a kind joined, regardless of the frames that they came in."""
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


@pytest.mark.slow
@given(st.lists(DELTAS, max_size=30), st.lists(st.integers(0, 30)))
def test_any_division_into_frames_has_the_same_content(events: list[ev.AgentEvent], cuts: list[int]) -> None:
    framed: list[JsonObject] = []
    encoder = FrameEncoder()
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    for start, end in pairwise(edges):
        framed += encoder.encode(events[start:end])
    assert joined(framed) == joined(FrameEncoder().encode(events))


def test_adjacent_deltas_are_one() -> None:
    events = [event(ev.TextDelta, seq, text=text) for seq, text in enumerate("abc")]
    assert FrameEncoder().encode(events) == [{**base(), "type": "text_delta", "text": "abc"}]
    pieces = [event(ev.ToolArgsDelta, id=call, name="t", text=call) for call in "1122"]
    assert [(entry["id"], entry["text"]) for entry in FrameEncoder().encode(pieces)] == [("1", "11"), ("2", "22")]


def test_arguments_are_bounded_as_a_whole_and_counted_in_full() -> None:
    encoder = FrameEncoder()
    piece = "x" * 9_000
    frames = [encoder.encode([event(ev.ToolArgsDelta, id="1", name="t", text=piece)]) for _ in range(4)]
    assert [len(entry["text"]) for [entry] in frames] == [9_000, 9_000, 2_000, 0]
    lengths = [entry["display"]["characters"] for [entry] in frames]
    assert lengths == [9_000, 18_000, 27_000, 36_000]


def test_results_and_arguments_keep_beginning_and_end() -> None:
    long = "begin" + "x" * 100_000 + "end"
    start, end = FrameEncoder().encode(
        [
            event(ev.ToolStart, id="1", name="t", args={"code": long, "n": [1]}),
            event(ev.ToolEnd, id="1", name="t", result=long, error=False),
        ]
    )
    [(name, shown), number] = start["display"]["arguments"]
    assert (name, number) == ("code", ("n", "[1]"))
    for text in (shown, end["result"]):
        assert text.startswith("begin")
        assert text.endswith("end")
        assert len(text) < SHOWN_CHARACTERS + 100
    assert start["display"]["key"] == long[:200]
    assert "args" not in start


def test_only_failed_results_are_sent_twice() -> None:
    results = ToolResultMessage((ToolResultPart("1", "t", "fine"), ToolResultPart("2", "t", "bad JSON", is_error=True)))
    [encoded] = FrameEncoder().encode([event(ev.MessageAppended, id=1, message=results)])
    failed = {"id": "2", "name": "t", "text": "bad JSON", "is_error": True, "type": "tool_result"}
    assert encoded["message"] == {"content": [failed], "type": "tool_result"}


def test_system_prompt_tools_and_options_are_not_sent() -> None:
    started = event(
        ev.AgentStarted,
        name="name",
        agent_type="worker",
        model="m",
        system_prompt="a secret",
        tools=("a secret",),
        options={"a": "a secret"},
    )
    [encoded] = FrameEncoder().encode([started])
    assert "a secret" not in json.dumps(encoded)
    assert (encoded["name"], encoded["agent_type"], encoded["model"]) == ("name", "worker", "m")


def test_a_reply_is_not_sent_a_second_time() -> None:
    reply = AssistantMessage((TextPart("the reply"),), usage=Usage(1, 1))
    message, end = FrameEncoder().encode(
        [event(ev.MessageAppended, id=1, message=reply), event(ev.TurnEnd, 7, message=reply, usage=Usage())]
    )
    assert message == {**base(), "id": 1, "message": {"stop_reason": "stop", "type": "assistant"}, "type": "message"}
    assert "message" not in end
    assert end["time"] == 107.0


def test_deltas_of_several_agents_are_joined_per_agent() -> None:
    texts = [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")]
    events = [event(ev.TextDelta, at, agent=agent, text=text) for at, (agent, text) in enumerate(texts)]
    end = event(ev.Aborted, 4)
    encoded = FrameEncoder().encode([*events, end, event(ev.TextDelta, 5, agent="b", text="5")])
    assert [(entry["agent_id"], entry.get("text")) for entry in encoded] == [("a", "13"), ("b", "245"), ("a", None)]


def test_calls_of_several_agents_may_have_the_same_id() -> None:
    pieces = [event(ev.ToolArgsDelta, agent=agent, id="1", name="t", text="x") for agent in "ab"]
    output = [event(ev.ToolProgress, agent=agent, id="1", name="t", text=agent) for agent in "ab"]
    encoded = FrameEncoder().encode([*pieces, *output])
    assert [entry["display"] for entry in encoded] == [
        {"characters": 1},
        {"characters": 1},
        {"tail": "a", "earlier_lines": 0},
        {"tail": "b", "earlier_lines": 0},
    ]


def golden() -> list[ev.AgentEvent]:
    return [ev.decode_event(line) for line in record.read(record.EVENTS)]


def test_every_event_is_sent_with_the_fields_that_its_type_lists() -> None:
    tags = {kind.__dataclass_fields__["type"].default: kind for kind in record.KINDS}
    for found in golden():
        [encoded] = FrameEncoder().encode([found])
        kind = tags[encoded["type"]]
        omitted = browser_events.OMITTED.get(kind, frozenset()) | browser_events.OMITTED[ev.EventBase]
        sent = {field.name for field in fields(kind)} - omitted
        display = {"display"} if "display" in encoded else set()
        assert set(encoded) == sent | display
        assert not display or kind in browser_events.DISPLAYS
        json.dumps(encoded)


@pytest.mark.parametrize("kind", record.KINDS)
def test_no_event_is_sent_with_an_unbounded_object(kind: type[ev.EventBase]) -> None:
    hints = get_type_hints(kind)
    sent = {field.name for field in fields(kind)} - browser_events.OMITTED.get(kind, frozenset())
    unbounded = [name for name in sent if "dict" in str(hints[name])]
    assert unbounded == [], f"Add these fields to OMITTED in live/browser_events.py: {unbounded}"


def test_long_texts_of_any_event_are_cut() -> None:
    warned, failed = FrameEncoder().encode(
        [event(ev.Warned, text="x" * 10_000), ev.Error("a", None, 0, 0, 1.0, reason="x" * 10_000, kind="E")]
    )
    assert len(warned["text"]) < 600
    assert len(failed["reason"]) < 2_100


PROGRESS = st.tuples(st.sampled_from("12"), st.text("ab\n\r", max_size=8)).map(
    lambda call: event(ev.ToolProgress, id=call[0], name="t", text=call[1])
)


@pytest.mark.slow
@given(st.lists(PROGRESS, max_size=30), st.lists(st.integers(0, 30)))
def test_the_last_lines_of_output_do_not_depend_on_the_frames(events: list[ev.AgentEvent], cuts: list[int]) -> None:
    encoder = FrameEncoder()
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    framed: dict[str, JsonObject] = {}
    for start, end in pairwise(edges):
        framed |= {entry["id"]: entry for entry in encoder.encode(events[start:end])}
    assert framed == {entry["id"]: entry for entry in FrameEncoder().encode(events)}


def test_only_the_last_lines_of_output_are_sent_once_a_frame() -> None:
    encoder = FrameEncoder()
    lines = [event(ev.ToolProgress, id="1", name="bash", text=f"\x1b[32mline {at}\x1b[0m\n") for at in range(48)]
    [entry] = encoder.encode([*lines[:20], event(ev.TextDelta, text=""), *lines[20:]])[1:]
    assert entry["display"] == {"tail": "\n".join(f"line {at}" for at in range(38, 48)), "earlier_lines": 38}
    assert "text" not in entry
    end = event(ev.ToolEnd, id="1", name="bash", result="\x1b[31mall\x1b[0m of it", error=False)
    [result] = encoder.encode([lines[0], end])
    assert (result["type"], result["result"]) == ("tool_end", "all of it")


def test_messages_that_steer_are_sent_and_prompts_are_not() -> None:
    def user(text: str) -> ev.AgentEvent:
        return event(ev.MessageAppended, id=1, message=UserMessage(text))

    steered = event(ev.Steered, prompt_id="q")
    events = [user("prompt"), steered, steered, user("left"), user("up"), user("correction"), steered, user("down")]
    sent = [entry["message"].get("content") for entry in FrameEncoder().encode(events) if entry["type"] == "message"]
    assert [parts and parts[0]["text"] for parts in sent] == [None, "left", "up", None, "down"]


def test_messages_of_other_agents_are_sent() -> None:
    message = UserMessage("done", sender_id="b", sender_name="helper")
    [encoded] = FrameEncoder().encode([event(ev.MessageAppended, id=1, message=message)])
    assert encoded["message"]["content"][0]["text"] == "done"
    assert encoded["message"]["sender_name"] == "helper"


def test_a_queued_prompt_that_was_cut_is_marked_as_such() -> None:
    short, long = (event(ev.Queued, prompt_id="q", text="x" * size, steer=True) for size in (10, 30_000))
    encoded = FrameEncoder().encode([short, long])
    assert [(entry["display"]["complete"], entry["steer"]) for entry in encoded] == [(True, True), (False, True)]


def request(args: JsonObject, *effects: Effect, why: str = "why") -> JsonObject:
    """The display of an approval request."""
    pending = event(ev.ApprovalRequest, id="1", name="edit", args=args, touches=effects, reason=why, deadline=400.0)
    [encoded] = FrameEncoder().encode([pending])
    assert encoded["deadline"] == 400.0
    assert not {"args", "touches", "reason"} & set(encoded)
    display: JsonObject = json.loads(json.dumps(encoded["display"]))
    return display


def test_an_approval_shows_its_effects_and_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "sales" / "load.py"
    encoded = request(
        {"path": "sales/load.py"}, Effect("write", str(target)), Effect("write", "/etc/x"), Effect("execute", "ls")
    )
    assert encoded["effects"] == [["write", "sales/load.py"], ["write", "/etc/x"], ["execute", "ls"]]
    assert encoded["folder"] == "/"
    assert request({}, Effect("write", str(target)))["folder"] == "~/sales"
    assert (
        request({}, Effect("write", str(target)), why=f"Writing {target} is new.")["reason"]
        == "Writing sales/load.py is new."
    )
    assert request({}, Effect("write", "one"), Effect("write", "/two/x"))["folder"] == ""


def test_a_replacement_is_shown_as_what_changes() -> None:
    encoded = request({"path": "p", "old_string": "a\nb\nc", "new_string": "a\nB\nC\nc"})
    assert encoded["change"] == [[" ", "a"], ["-", "b"], ["+", "B"], ["+", "C"], [" ", "c"]]
    assert encoded["replaced"] == ["old_string", "new_string"]
    assert request({"command": "ls"})["change"] is None


def test_arguments_can_be_edited_as_what_they_are() -> None:
    args = {"command": "ls", "timeout": 60, "really": True, "env": {"a": 1}, "none": None, "long": "x" * 200_000}
    kinds = [(name, kind) for name, _, kind in request(args)["arguments"]]
    assert kinds == [
        ("command", "text"),
        ("timeout", "number"),
        ("really", "boolean"),
        ("env", "json"),
        ("none", "json"),
        ("long", "cut"),
    ]
    assert request(args)["arguments"][2][1] == "true"


@pytest.mark.slow
@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_change_contains_both_texts(old: list[str], new: list[str]) -> None:
    change = request({"old_string": "\n".join(old), "new_string": "\n".join(new)})["change"]
    assert "\n".join(line for sign, line in change if sign != "+") == "\n".join(old)
    assert "\n".join(line for sign, line in change if sign != "-") == "\n".join(new)


def test_lone_surrogates_are_replaced() -> None:
    [entry] = FrameEncoder().encode([event(ev.TextDelta, text="a\ud800b")])
    assert entry["text"] == "a?b"


# Images that calls return, as the browser is sent them: bounded, and nothing that it would have to load.


def results(seq: int, *parts: tuple[str, ImagePart]) -> ev.AgentEvent:
    message = ToolResultMessage(tuple(ToolResultPart(call, "draw", "drawn", images=(image,)) for call, image in parts))
    return ev.MessageAppended("a", None, 0, seq, 100.0, seq, message)


def shown(*events: ev.AgentEvent) -> list[tuple[str, bool, str]]:
    encoded = FrameEncoder().encode(events)
    return [
        (image["call"], image["source"] != "", image["notice"])
        for event in encoded
        for image in event.get("display", {}).get("images", ())
    ]


def test_an_image_is_sent_once_with_its_call_and_not_in_the_message() -> None:
    [encoded] = FrameEncoder().encode([results(1, ("7", ImagePart(b"png")))])
    assert encoded["display"] == {
        "images": ({"call": "7", "source": "data:image/png;base64,cG5n", "notice": EARLIER_IMAGE},)
    }
    assert encoded["message"]["content"] == []
    plain = ToolResultMessage((ToolResultPart("8", "read", "text"),))
    [without] = FrameEncoder().encode([ev.MessageAppended("a", None, 0, 2, 100.0, 2, plain)])
    assert "display" not in without


@pytest.mark.parametrize(
    "image",
    [
        ImagePart(url="https://example.org/x.png"),
        ImagePart(b"<svg onload=alert(1)>", mime="image/svg+xml"),
        ImagePart('x" onerror="alert(1)'),
        ImagePart("A" * (IMAGE_CHARACTERS + 4)),
    ],
)
def test_what_would_be_loaded_or_run_or_is_too_large_is_a_sentence(image: ImagePart) -> None:
    [(call, has_source, notice)] = shown(results(1, ("1", image)))
    assert (call, has_source) == ("1", False)
    assert notice.startswith("[image")


def test_of_many_images_the_newest_are_sent() -> None:
    image = ImagePart("A" * IMAGE_CHARACTERS)
    assert 3 * IMAGE_CHARACTERS < frames.IMAGES_CHARACTERS <= 4 * IMAGE_CHARACTERS
    events: list[Any] = [results(at, (f"{at}-1", image), (f"{at}-2", image)) for at in (1, 2)]
    assert [found[:2] for found in shown(*events)] == [("1-1", False), ("1-2", True), ("2-1", True), ("2-2", True)]
    assert [found[1] for found in shown(events[0])] == [True, True]
