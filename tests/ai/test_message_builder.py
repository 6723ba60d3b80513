"""Messages as they are built from a stream: parts, calls, usage and cost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb import ai
from planck_nb.ai.message_builder import MessageBuilder, call_id, parse_arguments, tool_name
from planck_nb.ai.message_history.portable_history import seal
from planck_nb.ai.messages import AssistantMessage, TextPart, ThinkingPart, ToolCallPart
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    StreamRetry,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
    UsageUpdate,
    joined,
)

MODEL = ai.Model(
    "openai",
    "m",
    "chat",
    pricing=ai.Pricing(input=1.0, output=10.0, steps=(ai.PriceStep(above=1000, input=2.0, output=20.0),)),
)


def built(*events: StreamEvent) -> MessageBuilder:
    builder = MessageBuilder(MODEL)
    builder.feed([*events])
    return builder


def call(index: int, text: str, *, given: str = "c", complete: bool = True) -> list[StreamEvent]:
    end: list[StreamEvent] = [PartEnd(index)] if complete else []
    return [ToolCallStart(index, given, "tool"), ToolArgsChunk(index, text), *end]


def test_interleaved_chunks_become_parts_in_the_order_of_their_indexes() -> None:
    message = built(
        ToolCallStart(2, "c", "tool"),
        TextChunk(1, "he"),
        ThinkingChunk(0, "hm"),
        ToolArgsChunk(2, '{"a":'),
        TextChunk(1, "llo"),
        ToolArgsChunk(2, "1}"),
        ThinkingChunk(0, "m"),
        PartEnd(2),
        Finish("tool_use"),
    ).build()
    assert message.content == (ThinkingPart("hmm"), TextPart("hello"), ToolCallPart("c", "tool", {"a": 1}))
    assert (message.provider, message.model, message.api) == (MODEL.provider, MODEL.id, MODEL.api)


def test_arguments_may_begin_before_their_call() -> None:
    message = built(ToolArgsChunk(0, "{}"), ToolCallStart(0, "c", "tool"), PartEnd(0)).build()
    assert message.content == (ToolCallPart("c", "tool", {}),)


def test_the_end_of_a_part_may_replace_its_text_and_brings_state() -> None:
    state = {"signature": "s", "rates": [1.5, float("inf"), {"x": float("nan")}]}
    message = built(TextChunk(0, "wrong"), PartEnd(0, state, text="right"), TextChunk(1, "kept"), PartEnd(1)).build()
    kept = {"signature": "s", "rates": [1.5, None, {"x": None}]}
    assert message.content == (TextPart("right", kept), TextPart("kept"))
    # A part with nothing but state stays; one with nothing does not.
    message = built(PartEnd(0, {"signature": "s"}), PartEnd(1), TextChunk(2, "")).build()
    assert message.content == (TextPart("", {"signature": "s"}),)


def test_signed_thinking_has_the_digest_of_its_request() -> None:
    builder = built(ThinkingChunk(0, "hm"), PartEnd(0, {"signature": "s"}), TextChunk(1, "yes"))
    content = builder.build().content
    builder.prefix = "digest"
    assert builder.build().content == seal(content, "digest") != content


@pytest.mark.parametrize("given", ["stop", "tool_use"])
def test_the_reason_says_if_there_are_calls(given: ai.StopReason) -> None:
    assert built(TextChunk(0, "x"), Finish(given)).build().stop_reason == "stop"
    assert built(*call(0, "{}"), Finish(given)).build().stop_reason == "tool_use"
    assert built(*call(0, "{}"), Finish("length")).build().stop_reason == "length"
    assert built(TextChunk(0, "x")).build().stop_reason == "stop"
    assert built(TextChunk(0, "x"), Finish(given)).build("aborted", "gone").stop_reason == "aborted"


def calls(message: AssistantMessage) -> list[tuple[str, object, str | None]]:
    return [(part.id, part.args, part.invalid) for part in message.content if part.type == "tool_call"]


@pytest.mark.parametrize("reason", ["aborted", "error"])
def test_an_interrupted_message_keeps_text_and_complete_calls(reason: ai.StopReason) -> None:
    builder = built(TextChunk(0, "text"), *call(1, "{}", given="a"), *call(2, '{"x', given="b", complete=False))
    message = builder.build(reason, "why")
    assert message.content == (TextPart("text"), ToolCallPart("a", "tool", {}))
    assert message.error == "why"
    assert len(builder.build("stop").content) == 3


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_a_last_call_without_arguments_may_have_lost_them(reason: ai.StopReason) -> None:
    events = [*call(0, "", given="a"), *call(1, " ", given="b")]
    assert calls(built(*events, Finish(reason)).build()) == [("a", {}, None), ("b", {}, " ")]
    assert calls(built(*events, Finish("stop")).build()) == [("a", {}, None), ("b", {}, None)]
    whole = built(*call(0, '{"a":1}'), Finish(reason)).build()
    assert calls(whole) == [("c", {"a": 1}, None)]


def test_ids_are_unique_and_depend_only_on_earlier_calls() -> None:
    given = ["", "x", "x", "", "call_4", "", "x"]
    events = [ToolCallStart(index, name, "tool") for index, name in enumerate(given)]
    builder = built(*events)
    ids = [event.id for event in events]
    assert ids == ["call_1", "x", "x_3", "call_4", "call_4_5", "call_6", "x_7"]
    assert [part[0] for part in calls(builder.build())] == ids


@pytest.mark.parametrize("given", [None, 3, "a\nb", "x" * 513, ""])
def test_an_id_that_cannot_be_used_is_left_out(given: object) -> None:
    assert call_id(given) == ""


def test_ids_and_names_that_can_be_used_stay() -> None:
    assert call_id("x" * 512) == "x" * 512
    assert tool_name("x" * 128) == "x" * 128
    assert tool_name("x" * 129) == "x" * 128
    assert tool_name("a\nb") == "a\ufffdb"
    assert tool_name(None) == ""


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a": [1.5, {"b": null}]}', {"a": [1.5, {"b": None}]}),
        ("[]", None),
        ("{", None),
        ('{"a": 1e999}', None),
        ('{"a": [{"b": -1e999}]}', None),
        ('{"a": NaN}', None),
        ('{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        ('{"a": "\ud83d"}', {"a": "\ufffd"}),
    ],
)
def test_arguments_are_a_json_object_or_invalid(text: str, args: object) -> None:
    assert parse_arguments(text) == args


def test_what_was_written_includes_incomplete_calls() -> None:
    builder = built(TextChunk(0, "a"), TextChunk(0, "b"), *call(1, '{"x', complete=False))
    assert builder.written_text() == 'ab\ntool{"x'


def test_the_latest_usage_counts_and_has_a_price() -> None:
    builder = built(UsageUpdate(ai.Usage(10, 1)), UsageUpdate(ai.Usage(100, 20)))
    message = builder.build()
    assert message.usage == ai.Usage(100, 20)
    assert message.cost == pytest.approx((100 * 1 + 20 * 10) / 1e6)
    builder.feed([StreamRetry(1, 0.0, "x")])
    assert builder.build().usage is None
    assert builder.build().cost is None


@pytest.mark.parametrize(
    ("reported", "known"),
    [
        (ai.Usage(-1, 2), None),
        (ai.Usage(10, 2, cache_read_tokens=8, cache_write_tokens=2), ai.Usage(10, 2, 8, 2)),
        (ai.Usage(10, 2, cache_read_tokens=8, cache_write_tokens=3), None),
    ],
)
def test_usage_that_cannot_be_right_is_not_believed(reported: ai.Usage, known: ai.Usage | None) -> None:
    assert built(UsageUpdate(reported)).build().usage != (reported if known is None else None)
    if known is not None:
        assert built(UsageUpdate(reported)).build().usage == known


def test_usage_of_another_package_may_be_unknown() -> None:
    builder = built(UsageUpdate(ai.Usage(10, 1)))
    builder.feed([UsageUpdate(ai.Usage(), is_known=False)])
    assert builder.build().usage is None


def test_a_resumed_message_shifts_parts_and_adds_usage_request_by_request() -> None:
    builder = built(TextChunk(0, "one"), PartEnd(0), TextChunk(3, "two"), UsageUpdate(ai.Usage(900, 10)))
    had_content = [builder.has_content]
    builder.resume()
    had_content.append(builder.has_content)
    events: list[StreamEvent] = [
        TextChunk(0, "three"),
        PartEnd(0),
        ThinkingChunk(1, "hm"),
        ToolCallStart(2, "c", "tool"),
        ToolArgsChunk(2, "{}"),
        PartEnd(2),
        UsageUpdate(ai.Usage(2000, 20)),
    ]
    builder.feed([*events])
    assert [*had_content, builder.has_content] == [True, False, True]
    assert [getattr(event, "index", None) for event in events] == [4, 4, 5, 6, 6, 6, None]
    message = builder.build()
    assert message.content == (
        TextPart("one"),
        TextPart("two"),
        TextPart("three"),
        ThinkingPart("hm"),
        ToolCallPart("c", "tool", {}),
    )
    assert message.usage == ai.Usage(2900, 30)
    # Rates depend on the length of each request: the sum of both would be in the higher step as a whole.
    assert message.cost == pytest.approx((900 * 1 + 10 * 10 + 2000 * 2 + 20 * 20) / 1e6)
    builder.feed([StreamRetry(1, 0.0, "x")])
    assert builder.build().usage == ai.Usage(900, 10)
    assert builder.build().cost is None


def test_the_cost_of_a_resumed_message_is_unknown_without_one_of_its_usages() -> None:
    first = built(TextChunk(0, "one"))
    first.resume()
    first.feed([TextChunk(0, "two"), UsageUpdate(ai.Usage(10, 1))])
    assert first.build().cost is None
    second = built(TextChunk(0, "one"), UsageUpdate(ai.Usage(10, 1)))
    second.resume()
    second.feed([TextChunk(0, "two"), UsageUpdate(ai.Usage(-5, 1))])
    assert second.build().cost is None


def test_a_message_without_content_resumes_at_the_beginning() -> None:
    builder = built(UsageUpdate(ai.Usage(10, 1)))
    builder.resume()
    builder.feed([TextChunk(0, "x")])
    assert builder.build().content == (TextPart("x"),)


def test_times_count_from_the_first_measured_request() -> None:
    builder = built(TextChunk(0, "x"))
    assert (builder.build().ttft_s, builder.build().latency_s) == (None, None)
    builder = MessageBuilder(MODEL)
    builder.sending(measured=False)
    assert builder.is_sent
    assert builder.build().latency_s is None
    builder.sending()
    assert builder.build().ttft_s is None
    builder.feed([TextChunk(0, "x")])
    first = builder.build()
    builder.sending()
    builder.feed([TextChunk(0, "y")])
    second = builder.build()
    assert first.ttft_s is not None
    assert first.latency_s is not None
    assert second.latency_s is not None
    assert 0 <= first.ttft_s <= first.latency_s <= second.latency_s
    assert second.ttft_s == first.ttft_s


# What the network brings at once is told at once.

DELTAS = (TextChunk, ThinkingChunk, ToolArgsChunk)
parts, texts = st.integers(0, 2), st.text()
events: st.SearchStrategy[list[StreamEvent]] = st.lists(
    st.one_of(
        st.builds(TextChunk, parts, texts),
        st.builds(ThinkingChunk, parts, texts),
        st.builds(ToolArgsChunk, parts, texts),
        st.builds(PartEnd, parts),
        st.just(Finish("stop")),
    )
)


def said(batch: list[StreamEvent]) -> list[tuple[str, int, str]]:
    """Every character with the part that it belongs to."""
    deltas = [event for event in batch if isinstance(event, DELTAS)]
    return [(event.type, event.index, character) for event in deltas for character in event.text]


def test_consecutive_deltas_of_one_part_are_joined() -> None:
    batch: list[StreamEvent] = [
        TextChunk(0, "a"),
        TextChunk(0, "b"),
        TextChunk(1, "c"),
        ThinkingChunk(1, "d"),
        TextChunk(1, "e"),
    ]
    assert joined(batch) == [TextChunk(0, "ab"), TextChunk(1, "c"), ThinkingChunk(1, "d"), TextChunk(1, "e")]
    assert batch[0] == TextChunk(0, "a")  # the builder holds the same events


@given(events)
def test_nothing_is_lost_or_reordered(batch: list[StreamEvent]) -> None:
    found = [*joined(batch)]
    assert said(found) == said(batch)
    assert [event for event in found if not isinstance(event, DELTAS)] == [
        event for event in batch if not isinstance(event, DELTAS)
    ]
    for one, other in pairwise(found):
        if isinstance(one, DELTAS) and isinstance(other, DELTAS):
            assert (one.type, one.index) != (other.type, other.index)
