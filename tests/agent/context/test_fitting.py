"""What is shortened first if no summary makes a conversation short enough, and what never is."""

from __future__ import annotations

import pytest

from planck_nb.agent.context.conversation import cuts
from planck_nb.agent.context.fitting import EXCERPT, LAST_EXCERPT, fitted, newest_prompts, size
from planck_nb.ai.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    SummaryMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
    VideoPart,
)

LONG = "word " * 2_000


def said(text: str) -> AssistantMessage:
    return AssistantMessage((TextPart(text),))


def called(call: str, output: str) -> list[Message]:
    return [
        AssistantMessage((ToolCallPart(call, "read", {}),), "tool_use"),
        ToolResultMessage((ToolResultPart(call, "read", output),)),
    ]


def test_what_fits_is_unchanged() -> None:
    messages: list[Message] = [UserMessage("a"), said("b"), UserMessage("c")]
    assert fitted(messages, size(messages)) == messages


def test_media_of_earlier_prompts_become_notes_and_those_of_the_newest_stay() -> None:
    parts = (TextPart(LONG), ImagePart(b"png"), VideoPart(b"mp4"), FilePart(b"pdf", name="a.pdf"))
    newest = UserMessage((TextPart("now"), ImagePart(b"png")))
    short = fitted([UserMessage(parts), said("b"), newest], 2_000)
    first = short[0]
    assert first.type == "user"
    assert [part.type for part in first.content] == ["text"] * 4
    assert len(first.text) < EXCERPT + 400
    assert all(word in first.text for word in ("[An image was", "[A video was", "[The file a.pdf was"))
    assert short[1:] == [said("b"), newest]


def test_whole_messages_go_only_if_excerpts_are_not_enough_and_the_summary_stays() -> None:
    summary = SummaryMessage("So far.", ())
    old: list[Message] = [each for number in range(20) for each in (UserMessage(f"{number}"), said(LONG))]
    short = fitted([summary, *old, UserMessage("now")], 5_000)
    assert short[0] == summary
    assert short[1] == UserMessage("[36 earlier messages were left out here to make room.]")
    assert short[2:] == [UserMessage("18"), said(LONG), UserMessage("19"), said(LONG), UserMessage("now")]
    assert size(short) <= 5_000


def test_one_message_is_counted_in_the_singular() -> None:
    short = fitted([UserMessage("a"), said(LONG), UserMessage("now")], 300)
    assert short[-1] == UserMessage("now")
    assert "earlier messages were" in str(short[0])
    short = fitted([said(LONG), UserMessage("now")], 300)
    assert short == [UserMessage("[1 earlier message was left out here to make room.]"), UserMessage("now")]


@pytest.mark.parametrize("tokens", [0, 50, 200, 1_000, 4_000])
def test_the_newest_prompt_stays_and_calls_keep_their_results(tokens: int) -> None:
    prompt = UserMessage("Do it. " * 200)  # longer than the excerpts of earlier prompts
    turn = [each for number in range(5) for each in called(f"c{number}", LONG)]
    short = fitted([SummaryMessage(LONG, ()), UserMessage(LONG), said(LONG), prompt, *turn], tokens)
    assert prompt in short
    calls = [call.id for message in short if message.type == "assistant" for call in message.tool_calls]
    results = [part for message in short if message.type == "tool_result" for part in message.content]
    assert calls == [part.id for part in results]
    assert calls[-1] == "c4"
    assert cuts(short)[-1] == len(short)
    if tokens < 1_000:
        assert len(results[-1].text) < LAST_EXCERPT + 200
        assert len(short[0].text if short[0].type == "summary" else "") < EXCERPT + 200


def test_the_newest_prompts_are_those_without_another_message_between() -> None:
    a, b, c = UserMessage("a"), UserMessage("b"), said("c")
    assert newest_prompts([a, c, a, b, c]) == (2, 4)
    assert newest_prompts([c]) == (1, 1)
    assert newest_prompts([]) == (0, 0)
