from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb.agent import events
from planck_nb.ai.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    StopReason,
    SummaryMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.ai.numbers import MAX_DOLLARS, MAX_TOKENS, MAX_TOKENS_TOGETHER
from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.branch import hidden_ranges, is_hidden

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
counts = st.integers(0, 2**40)
times = st.floats(0, 4e9)
tokens = st.integers(0, MAX_TOKENS)


@st.composite
def usage_up_to(draw: st.DrawFn, most: int) -> Usage:
    """All counts that are decoded as they are: the tokens read from and written to a cache are a part of the input."""
    total, output, thinking = (draw(st.integers(0, most)) for _ in range(3))
    read = draw(st.integers(0, total))
    return Usage(total, output, read, draw(st.integers(0, total - read)), thinking)


usages = usage_up_to(MAX_TOKENS)
totals = usage_up_to(MAX_TOKENS_TOGETHER)
costs = st.none() | st.floats(0, MAX_DOLLARS)
texts = st.builds(TextPart, st.text(), st.none() | objects)
calls = st.builds(ToolCallPart, st.text(), st.text(), objects, st.none() | st.text(), st.none() | objects)
media = st.builds(ImagePart, st.none() | st.binary(), st.text(), st.none() | st.text()) | st.builds(
    FilePart, st.none() | st.binary(), st.text(), st.text(), st.none() | st.text()
)
user_messages = st.builds(UserMessage, st.lists(texts | media, max_size=3).map(tuple))
assistant_messages = st.builds(
    AssistantMessage,
    st.lists(texts | calls | st.builds(ThinkingPart, st.text(), st.none() | objects), max_size=4).map(tuple),
    st.sampled_from(get_args(StopReason)),
    st.none() | usages,
    costs,
    st.text(),
    st.text(),
    st.none() | st.text(),
)
tool_results = st.builds(
    ToolResultMessage,
    st.lists(st.builds(ToolResultPart, st.text(), st.text(), st.text(), st.booleans()), max_size=3).map(tuple),
)
summaries = st.builds(SummaryMessage, st.lists(texts, max_size=2).map(tuple), st.lists(counts).map(tuple))
messages: st.SearchStrategy[Message] = user_messages | assistant_messages | tool_results | summaries

st.register_type_strategy(Usage, totals)
st.register_type_strategy(AssistantMessage, assistant_messages)
st.register_type_strategy(UserMessage, user_messages)
st.register_type_strategy(ToolResultMessage, tool_results)

STORED = [
    kind
    for kind in get_args(events.AgentEvent)
    if kind.__dataclass_fields__["type"].default not in events.TRANSIENT | {"message"}
]


def event_strategy(kind: type[Any]) -> st.SearchStrategy[Any]:
    known = {
        "turn": st.integers(0, 2**31 - 1),
        "seq": st.integers(0, 2**40),
        "time": times,
        "cost": costs,
        "total_cost": costs,
        "delay": times,
        "deadline": times,
        "args": objects,
        "tools": st.lists(st.text()).map(tuple),
        "cases": st.lists(objects, max_size=3).map(tuple),
        **dict.fromkeys(("tokens", "tokens_before", "tokens_after", "context_tokens"), tokens),
    }
    fields = kind.__dataclass_fields__
    return st.builds(kind, **{name: known[name] for name in fields if name in known})


@pytest.mark.slow
@settings(deadline=None)  # the first message loads pydantic
@given(message=messages, time=times, row_id=st.integers(1, 2**60), turn=st.integers(0, 2**31 - 1))
def test_every_message_comes_back_as_it_was(message: Message, time: float, row_id: int, turn: int) -> None:
    line = codec.encode_message_line(row_id, "a", message, turn=turn, time=time)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    event = codec.event_of(codec.decode_line(line), session_id="s", seq=3)
    assert event == events.MessageAppended("a", "s", turn, 3, time, id=row_id, message=message)


@pytest.mark.parametrize("kind", STORED)
@settings(max_examples=30)
@given(data=st.data())
def test_every_stored_event_comes_back_as_it_was(kind: type[Any], data: st.DataObject) -> None:
    event = data.draw(event_strategy(kind))
    record = codec.decode_line(codec.encode_event_line(9, event))
    assert record["type"] == event.type
    back = codec.event_of(record, session_id="other", seq=event.seq)
    assert events.encode_event(back) | {"session_id": 0} == events.encode_event(event) | {"session_id": 0}
    assert type(back) is kind


@given(messages)
def test_a_line_is_a_row(message: Message) -> None:
    record = codec.decode_line(codec.encode_message_line(4, "a", message, turn=2, time=1.0000004))
    assert (record["id"], record["kind"], record["agent_id"], record["turn"]) == (4, "message", "a", 2)
    assert record["ts"] == "1970-01-01T00:00:01.000000Z"
    assert record["role"] == message.type
    if message.type == "assistant":
        assert record["stop_reason"] == message.stop_reason
        assert record["cost_usd"] == message.cost
        assert record.get("output_tokens") == (message.usage.output_tokens if message.usage else None)


@settings(deadline=None)
@given(message=messages, time=times)
def test_a_message_that_was_encoded_beforehand_has_the_same_line(message: Message, time: float) -> None:
    fields = codec.encode_message_fields(message, time=time)
    whole = codec.encode_message_line(4, "a", message, turn=2, time=time)
    assert codec.encode_message_line(4, "a", message, turn=2, time=time, fields=fields) == whole


def test_a_lone_surrogate_does_not_keep_a_message_from_being_stored() -> None:
    line = codec.encode_message_line(1, "a", UserMessage("a\ud83db"), turn=0, time=0)
    assert codec.message_of(codec.decode_line(line)) == UserMessage("a?b")


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{}\n", b"[1]\n", b'{"v":1,"id":1}', b'{"v":1,"id":"1"}\n', b'{"v":1,"id":1\n', b"\xff\n", b"1\n"],
)
def test_what_is_not_a_line_is_told_apart(line: bytes) -> None:
    assert codec.parse_line(line) is None
    with pytest.raises(SessionFormatError):
        codec.decode_line(line)


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(SessionFormatError, match="newer"):
        codec.decode_line(b'{"v":2,"id":1}\n')


@given(st.lists(st.integers(0, 30), max_size=12))
def test_going_back_gives_what_there_was_before_the_row(choices: list[int]) -> None:
    """A choice of 0 writes a row; any other goes back to before an id that was written."""
    states: list[list[int]] = []  # states[n - 1] is what there was before id n was written
    visible: list[int] = []
    rewinds: list[tuple[int, int]] = []
    for choice in [0, *choices]:
        new_id = len(states) + 1
        states.append(visible)
        if choice == 0 or new_id == 1:
            visible = [*visible, new_id]
        else:
            before = choice % (new_id - 1) + 1
            visible = states[before - 1]
            rewinds.append((new_id, before))
    hidden = hidden_ranges(rewinds)
    rows = set(range(1, len(states) + 1)) - {rewind_id for rewind_id, _ in rewinds}
    assert [row for row in sorted(rows) if not is_hidden(row, hidden)] == visible
