"""The cost of a reply that was stopped or broke off before its provider counted its tokens.

A reply outside the conversation, such as a summary, is also read here, so that the limits hold while it is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from planck_nb.agent.limits import CHARACTERS_PER_TOKEN, CHECKED_CHARACTERS, estimated_so_far
from planck_nb.agent.tokens import estimate_text
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import AssistantMessage, Usage


class LimitCheck(Protocol):
    """Says whether a limit is reached."""

    def __call__(self, tokens: int = 0, cost: float = 0.0) -> str:
        """A sentence if a limit is reached, else an empty text.

        Args:
            tokens: What a running request that is not counted yet has taken so far.
            cost: Its US dollars so far.
        """


def unlimited(tokens: int = 0, cost: float = 0.0) -> str:  # noqa: ARG001 - as `LimitCheck` has it
    """No limit is reached."""
    return ""


async def read_within_limits(stream: Stream, request: Usage, limit: LimitCheck) -> str:
    """Read a stream to its end, or until a limit is reached.

    Args:
        stream: The stream; only its message is kept.
        request: The estimated tokens of its request.
        limit: Says whether a limit is reached; asked when the provider first reports what it has read, and then about
            every 400 characters.

    Returns:
        The sentence about the limit that ended it, empty if it is complete.

    Raises:
        ProviderError: The server, or the connection to it, failed.
        ModelError: The model cannot be used as asked.
    """
    written = unchecked = 0
    is_reported = False
    async for batch in stream.batches():
        for event in batch:
            if event.type in ("text_delta", "thinking_delta", "tool_args_delta"):
                unchecked += len(event.text)
        first = stream.usage is not None and not is_reported
        if (unchecked < CHECKED_CHARACTERS and not first) or stream.is_finished:
            continue  # a message that is complete is paid for as it is
        is_reported = stream.usage is not None
        written, unchecked = written + unchecked, 0
        usage = estimated_so_far(stream.usage or request, written)
        if reason := limit(usage.total_tokens, stream.model.cost(usage) or 0.0):
            return reason
    return ""


def charged(stream: Stream, request: Usage, *, unreported: bool = False) -> AssistantMessage:
    """The message of a stream with its usage so far.

    Providers report output tokens only at the end of a reply, and most of them input tokens, too. Both are charged even
    if the reply is stopped.

    Args:
        stream: A stream that is not read any more.
        request: The estimated tokens of its request.
        unreported: Whether to estimate the usage of a complete message, too, if its provider has reported none.

    Returns:
        The message. If its provider did not finish it, its usage is what was reported, estimated for the rest, and it
        is marked as `estimated`; if no server can have begun to answer, it has no usage.
    """
    message = stream.message
    if not stream.is_sent or (stream.is_finished and not (unreported and message.usage is None)):
        return message
    known = message.usage or request
    text = stream.written_text()
    written = max(known.output_tokens, estimate_text(text), len(text) // CHARACTERS_PER_TOKEN)
    usage = replace(known, output_tokens=written)
    return replace(message, usage=usage, cost=stream.model.cost(usage), estimated=True)
