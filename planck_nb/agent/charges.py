"""What a reply costs that was stopped, or broke off, before its provider had counted its tokens."""

from __future__ import annotations

from dataclasses import replace

from planck_nb.agent.limits import CHARACTERS_PER_TOKEN
from planck_nb.agent.tokens import estimate_text
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import AssistantMessage, Usage


def charged(stream: Stream, request: Usage) -> AssistantMessage:
    """The message of a stream with its usage so far.

    A provider reports what a reply wrote only at its end, and most of them what it read too; both are paid for even if
    the reply is stopped.

    Args:
        stream: A stream that is not read any more.
        request: The estimated tokens of its request.

    Returns:
        The message. If its provider did not finish it, its usage is what was reported, estimated for the rest, and it
        is marked as `estimated`; if no server can have begun to answer, it has no usage.
    """
    message = stream.message
    if stream.is_finished or not stream.is_sent:
        return message
    known = message.usage or request
    text = stream.written_text()
    written = max(known.output_tokens, estimate_text(text), len(text) // CHARACTERS_PER_TOKEN)
    usage = replace(known, output_tokens=written)
    return replace(message, usage=usage, cost=stream.model.cost(usage), estimated=True)
