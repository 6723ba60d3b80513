"""Cost accounting for model requests, also without a provider's count.

A reply may be stopped, break off, or come without its usage. One outside the conversation, such as a summary, is also
read here, so that the limits hold while it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

from planck_nb.agent.events import ChargePurpose
from planck_nb.agent.limits import CHARACTERS_PER_TOKEN, CHECKED_CHARACTERS, estimated_so_far
from planck_nb.agent.tokens import estimate_text
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import AssistantMessage, Usage


@dataclass(frozen=True, slots=True)
class Charge:
    """One request's cost and purpose.

    Args:
        purpose: What it was for.
        usage: Its tokens.
        cost: Its US dollars, None if the price is unknown.
        model: The model, `provider:model`.
        estimated: Whether its provider has not counted everything.
    """

    purpose: ChargePurpose
    usage: Usage
    cost: float | None
    model: str
    estimated: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether it failed before any cost."""
        return self.purpose != "reply" and self.usage == Usage() and not self.cost

    @classmethod
    def of(cls, purpose: ChargePurpose, reply: AssistantMessage) -> Self:
        """The charge for a reply."""
        model = f"{reply.provider}:{reply.model}"
        return cls(purpose, reply.usage or Usage(), reply.cost, model, bool(reply.estimated))


class Spend(Protocol):
    """Counter for a compaction's requests."""

    def __call__(self, usage: Usage, cost: float | None, /, model: str = "", *, estimated: bool = False) -> None:
        """Count a request to a model.

        Args:
            usage: Its tokens.
            cost: Its US dollars, None if the price is unknown.
            model: The model, `provider:model`; by default the agent's.
            estimated: Whether its provider has not counted everything.
        """


class LimitCheck(Protocol):
    """Says whether a limit is reached."""

    def __call__(self, tokens: int = 0, cost: float | None = 0.0) -> str:
        """A sentence if a limit is reached, else an empty text.

        Args:
            tokens: What a running request that is not counted yet has taken so far.
            cost: Its US dollars so far, None if the price is unknown.
        """


def unlimited(tokens: int = 0, cost: float | None = 0.0) -> str:  # noqa: ARG001 - as `LimitCheck` has it
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
        if reason := limit(usage.total_tokens, stream.model.cost(usage)):
            return reason
    return ""


def charged(stream: Stream, request: Usage) -> AssistantMessage:
    """The message of a stream with its usage so far.

    Providers report output tokens only at the end of a reply, and most of them input tokens, too. Some report neither.
    Both are charged even if the reply is stopped.

    Args:
        stream: A stream that is not read any more.
        request: The estimated tokens of its request.

    Returns:
        The message. If its provider did not finish it or reported no usage, its usage is what was reported, estimated
        for the rest, and it is marked as `estimated`; if no server can have begun to answer, it has no usage.
    """
    message = stream.message
    text = stream.written_text()
    # Servers that count nothing report zeros.
    reported = message.usage if message.usage is not None and (message.usage.total_tokens or not text) else None
    if not stream.is_sent or (stream.is_finished and reported is not None):
        return message
    known = reported or request
    written = max(known.output_tokens, estimate_text(text), len(text) // CHARACTERS_PER_TOKEN)
    usage = replace(known, output_tokens=written)
    return replace(message, usage=usage, cost=stream.model.cost(usage), estimated=True)
