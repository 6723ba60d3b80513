"""Shortens what a model is sent, marked as such, if no summary made the conversation short enough.

The history keeps everything. Oldest first, and only as far as needed: outputs of tools, prompts of earlier turns, then
whole messages; finally the newest outputs, and the summary. The newest prompt is never shortened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from planck_nb.agent.context.conversation import cuts, without_old_outputs
from planck_nb.agent.tokens import estimate
from planck_nb.ai.messages import Message, SummaryMessage, TextPart, UserMessage, UserPart
from planck_nb.base.text import head_and_tail

EXCERPT = 400
"""How many characters are kept of each text of an earlier prompt, and of a summary."""

LAST_EXCERPT = 200
"""How many characters are kept of each of the newest tool outputs, if nothing else is left to shorten."""


def size(messages: Sequence[Message]) -> int:
    """The estimated tokens of the messages."""
    return sum(map(estimate, messages))


def newest_prompts(messages: Sequence[Message]) -> tuple[int, int]:
    """Where the newest prompts begin and end: the last run of consecutive user messages.

    Both are the number of messages if there is no prompt.
    """
    end = len(messages)
    while end and messages[end - 1].type != "user":
        end -= 1
    if not end:
        return len(messages), len(messages)
    start = end
    while start and messages[start - 1].type == "user":
        start -= 1
    return start, end


def fitted(messages: Sequence[Message], tokens: int) -> list[Message]:
    """The messages, shortened until they fit into an estimated number of tokens, or as far as they can be.

    Calls and results stay paired.

    Args:
        messages: The messages as they would be sent.
        tokens: How many tokens they may have.
    """
    if size(messages) <= tokens:
        return list(messages)
    short = without_old_outputs(messages, tokens)
    short = _with_short_prompts(short, tokens)
    short = _without_old_messages(short, tokens)
    if size(short) > tokens:
        short = [_with_short_outputs(message) for message in short]
    if size(short) > tokens:
        short = [_with_short_summary(message) for message in short]
    return short


def _with_short_prompts(messages: list[Message], tokens: int) -> list[Message]:
    excess = size(messages) - tokens
    first, _ = newest_prompts(messages)
    short = list(messages)
    for index, message in enumerate(messages[:first]):
        if excess <= 0:
            break
        if message.type == "user":
            short[index] = replace(message, content=tuple(map(_short_part, message.content)))
            excess -= estimate(message) - estimate(short[index])
    return short


def _short_part(part: UserPart) -> UserPart:
    match part.type:
        case "text":
            return replace(part, text=head_and_tail(part.text, characters=EXCERPT))
        case "image":
            return TextPart("[An image was left out to make room.]")
        case "video":
            return TextPart("[A video was left out to make room.]")
        case "file":
            return TextPart(f"[The file {part.name} was left out to make room.]")


def _without_old_messages(messages: list[Message], tokens: int) -> list[Message]:
    """The messages with a note instead of the oldest ones: first those of earlier turns, then of this one."""
    if size(messages) <= tokens:
        return messages
    head, rest = (messages[:1], messages[1:]) if messages and messages[0].type == "summary" else ([], messages)
    first, end = newest_prompts(rest)
    boundaries = [index for index in cuts(rest) if index < len(rest)]
    earlier = [index for index in boundaries if 0 < index <= first]
    left = [*accumulate(map(estimate, reversed(rest)), initial=0)][::-1]
    """The tokens from each message on."""
    room = tokens - size(head)
    for index in earlier:
        if estimate(_note(index)) + left[index] <= room:
            return [*head, _note(index), *rest[index:]]
    before, prompts = ([_note(first)] if first else []), rest[first:end]
    room -= size(before) + left[first] - left[end]
    later = [index for index in boundaries if index > end]
    for index in later:
        if estimate(_note(index - end)) + left[index] <= room:
            return [*head, *before, *prompts, _note(index - end), *rest[index:]]
    if later:
        return [*head, *before, *prompts, _note(later[-1] - end), *rest[later[-1] :]]
    return [*head, _note(earlier[-1]), *rest[earlier[-1] :]] if earlier else messages


def _note(left_out: int) -> Message:
    what = "1 earlier message was" if left_out == 1 else f"{left_out:,} earlier messages were"
    return UserMessage(f"[{what} left out here to make room.]")


def _with_short_outputs(message: Message) -> Message:
    if message.type != "tool_result":
        return message
    parts = (
        replace(part, text=head_and_tail(part.text, characters=LAST_EXCERPT), images=()) for part in message.content
    )
    return replace(message, content=tuple(parts))


def _with_short_summary(message: Message) -> Message:
    if message.type != "summary":
        return message
    return SummaryMessage(head_and_tail(message.text, characters=EXCERPT), message.kept)
