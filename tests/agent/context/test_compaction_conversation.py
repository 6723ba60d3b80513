"""What of a conversation is sent, and where it may be cut."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb.agent.context.conversation import EXCERPT, cuts, pairs, places, sent, without_old_outputs
from planck_nb.agent.state import Entry
from planck_nb.agent.tokens import estimate
from planck_nb.ai.message_history.portable_history import INTERRUPTED, prepare
from planck_nb.ai.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    SummaryMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
    text_of,
)
from planck_nb.testing import scripted_model

MODEL = scripted_model([])


def called(*ids: str) -> AssistantMessage:
    return AssistantMessage(tuple(ToolCallPart(name, "read", {}) for name in ids))


def answered(*ids: str, text: str = "done") -> ToolResultMessage:
    return ToolResultMessage(tuple(ToolResultPart(name, "read", text) for name in ids))


def said(text: str) -> AssistantMessage:
    return AssistantMessage((TextPart(text),))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns of any number of rounds; calls answered in one message or in several, with steering between, or never."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(0, 4))):
        messages += [UserMessage(f"prompt {turn}")] * draw(st.integers(1, 2))
        for step in range(draw(st.integers(0, 4))):
            ids = [f"call_{turn}_{step}_{call}" for call in range(draw(st.integers(1, 3)))]
            messages.append(called(*ids))
            how = draw(st.sampled_from(["together", "apart", "steered", "never"]))
            if how == "together":
                messages.append(answered(*ids))
            elif how == "apart":
                messages += [answered(name) for name in ids]
            elif how == "steered":
                messages += [UserMessage("quickly"), answered(*ids)]
        if draw(st.booleans()):
            messages.append(said(f"answer {turn}"))
    return messages


@settings(deadline=None)
@given(conversations())
def test_no_cut_separates_a_call_from_its_result(messages: list[Message]) -> None:
    for place in cuts(messages):
        kept = messages[place:]
        assert not kept or kept[0].type != "tool_result"
        assert all((call < place) == (result < place) for call, result in pairs(messages))
        before = {part.id for part in _results(messages[:place])} | {part.id for part in _results(kept)}
        sent_apart = [*prepare(messages[:place], MODEL), *prepare(kept, MODEL)]
        assert {part.id for part in _results(sent_apart) if part.text != INTERRUPTED} == before


def _results(messages: Sequence[Message]) -> list[ToolResultPart]:
    return [part for message in messages if message.type == "tool_result" for part in message.content]


def test_a_long_turn_can_be_cut_inside() -> None:
    rounds = [message for name in "abc" for message in (called(name), answered(name))]
    assert cuts([UserMessage("go"), *rounds, said("done")]) == [0, 1, 3, 5, 7, 8]


def test_a_reply_is_not_cut_off_from_results_that_are_to_come() -> None:
    assert cuts([UserMessage("go"), called("a"), answered("a"), called("b", "c"), answered("b")]) == [0, 1, 3]


def test_calls_that_never_had_a_result_hold_nothing_together() -> None:
    assert cuts([UserMessage("go"), called("a"), said("stopped"), UserMessage("again")]) == [0, 1, 2, 3, 4]


def test_a_conversation_is_not_cut_before_a_result_whose_call_is_over() -> None:
    assert cuts([UserMessage("go"), called("a"), said("stopped"), answered("a")]) == [0, 1, 2, 4]


def numbered(*messages: Message) -> list[Entry]:
    return [Entry(10 * number, message) for number, message in enumerate(messages, 1)]


def test_without_a_summary_everything_is_sent() -> None:
    entries = numbered(UserMessage("a"), said("b"))
    assert sent(entries) == entries
    assert sent([]) == []


def test_from_the_latest_summary_on_with_what_it_keeps() -> None:
    entries = numbered(
        UserMessage("a"),  # 10
        said("b"),  # 20
        SummaryMessage("first", kept=[20]),  # 30
        UserMessage("c"),  # 40
        said("d"),  # 50
        SummaryMessage("second", kept=[50, 20]),  # 60
        UserMessage("e"),  # 70
    )
    assert [entry.id for entry in sent(entries)] == [60, 20, 50, 70]
    assert [entry.id for entry in sent(entries[:5])] == [30, 20, 40, 50]


def test_a_kept_message_that_is_gone_is_missing_and_nothing_else() -> None:
    assert [entry.id for entry in sent(numbered(said("b"), SummaryMessage("s", kept=[5, 10])))] == [20, 10]


def test_the_very_same_messages_are_found_before_equal_ones() -> None:
    yes, other_yes, no = UserMessage("yes"), UserMessage("yes"), said("no")
    assert places([yes], [yes, no, other_yes]) == [0]
    assert places([UserMessage("yes")], [yes, no, other_yes]) == [2]
    assert places([yes, no, yes], [yes, no, yes]) == [0, 1, 2]
    assert places([no, yes], [yes, no]) is None
    assert places([], [yes]) == []
    assert places([UserMessage("never said")], [yes]) is None


def long_turn() -> list[Message]:
    rounds = [
        message
        for number, name in enumerate("abcd")
        for message in (called(name), answered(name, text=f"line {number}\n" * 3_000))
    ]
    return [UserMessage("go"), *rounds]


def size(messages: Sequence[Message]) -> int:
    return sum(map(estimate, messages))


def test_what_fits_stays_as_it_is() -> None:
    messages = long_turn()
    assert without_old_outputs(messages, size(messages)) == messages


def test_the_oldest_outputs_go_first_and_no_more_than_needed() -> None:
    messages = long_turn()
    one_less = without_old_outputs(messages, size(messages) - 1)
    assert "left out" in _results(one_less)[0].text
    assert "read, 21,000 characters" in _results(one_less)[0].text
    assert _results(one_less)[1:] == _results(messages)[1:]
    some = without_old_outputs(messages, size(messages) * 6 // 10)
    assert size(some) <= size(messages) * 6 // 10
    assert [part.text == old.text for part, old in zip(_results(some), _results(messages), strict=True)] == [
        False, False, True, True,
    ]  # fmt: skip


def test_the_newest_outputs_keep_their_beginning_and_end() -> None:
    newest = _results(without_old_outputs(long_turn(), 0))[-1].text
    assert newest.startswith("line 3\nline 3\n")
    assert newest.endswith("line 3\n")
    assert len(newest) < EXCERPT + 100


def test_images_of_old_outputs_go_too() -> None:
    seen = ToolResultMessage((ToolResultPart("a", "plot", "", images=(ImagePart(b"png"),)),))
    messages: list[Message] = [called("a"), seen, called("b"), answered("b")]
    assert not _results(without_old_outputs(messages, 100))[0].images


@settings(deadline=None)
@given(conversations(), st.integers(0, 500))
def test_leaving_outputs_out_keeps_calls_and_results_paired(messages: list[Message], tokens: int) -> None:
    less = without_old_outputs(messages, tokens)
    assert [message.type for message in less] == [message.type for message in messages]
    assert pairs(less) == pairs(messages)
    assert size(less) <= size(messages)
    assert less == messages if size(messages) <= tokens else True


def test_a_summary_is_sent_as_a_user_says_it() -> None:
    entries = numbered(UserMessage("a"), SummaryMessage("what was said", kept=[]), UserMessage("b"))
    read = prepare([entry.message for entry in sent(entries)], MODEL)
    assert [message.type for message in read] == ["user", "user"]
    assert "what was said" in text_of(read[0].content)
