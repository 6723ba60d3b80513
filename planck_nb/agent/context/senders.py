"""Messages of other agents, marked as such: a model must not read them as the user's words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planck_nb.ai.messages import Purpose, TextPart, UserPart
from planck_nb.base.text import one_line


def with_sender(parts: Sequence[UserPart], name: str, purpose: Purpose | None) -> list[UserPart]:
    """The content of a message of another agent, with a header that says so.

    Ids are left out, so that a recorded conversation is the same in each run. A line of the text that looks like such a
    header is quoted, so that no agent can speak for another one.

    Args:
        parts: The content.
        name: The name of the agent that sent it.
        purpose: What it was sent for.
    """
    header = f"{(purpose or 'message').capitalize()} from {one_line(name)}:"
    if parts and isinstance(parts[0], TextPart):
        return [TextPart(f"{header} {_quoted(parts[0].text)}"), *map(_quoted_part, parts[1:])]
    return [TextPart(header), *map(_quoted_part, parts)]


_HEADER = re.compile(
    r"(?:^|(?<=[\r\v\f\x85\u2028\u2029]))(?=[^\S\n]*(?:question|task|response|message)\s+from\s+[^\n:]*:)",
    re.IGNORECASE | re.MULTILINE,
)


def _quoted(text: str) -> str:
    return _HEADER.sub("> ", text)


def _quoted_part(part: UserPart) -> UserPart:
    return TextPart(_quoted(part.text)) if isinstance(part, TextPart) else part
