"""What the network brings at once is told at once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from planck_nb.ai.stream_events import Finish, PartEnd, StreamEvent, TextChunk, ThinkingChunk, ToolArgsChunk, joined

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
