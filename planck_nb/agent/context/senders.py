"""Messages of other agents, marked as such: a model must not read them as the user's words."""

from __future__ import annotations

from collections.abc import Sequence

from planck_nb.ai.messages import Purpose, TextPart, UserPart
from planck_nb.base.text import one_line


def with_sender(parts: Sequence[UserPart], name: str, purpose: Purpose | None) -> list[UserPart]:
    """The content of a message of another agent, with a header that says so.

    Ids are left out, so that a recorded conversation is the same in each run.

    Args:
        parts: The content.
        name: The name of the agent that sent it.
        purpose: What it was sent for.
    """
    header = f"{(purpose or 'message').capitalize()} from {one_line(name)}:"
    if parts and isinstance(parts[0], TextPart):
        return [TextPart(f"{header} {parts[0].text}"), *parts[1:]]
    return [TextPart(header), *parts]
