"""What is wrong with the description of a team, by file, member and field."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from planck_nb.base.visible import visible


@dataclass(frozen=True, slots=True)
class TemplateProblem:
    """Something in a team template, or in the description of one agent, that is not used as it is written.

    Args:
        path: The file, None for a description that does not come from a file.
        member: The member, such as "member 2 (coder)"; empty if the problem concerns no single member.
        field: The field, such as "tools" or "opts.temperature"; empty if it concerns no single field.
        reason: What is wrong, as a part of a sentence.
        note: Whether this is not a mistake but a decision that readers should know of. `strict` accepts these.

    Example:
        >>> print(TemplateProblem(None, "member 2 (coder)", "tools", "must be a list of strings, not a number"))
        member 2 (coder), tools: must be a list of strings, not a number.
    """

    path: Path | None
    member: str
    field: str
    reason: str
    note: bool = False

    def __str__(self) -> str:
        path = "" if self.path is None else on_one_line(str(self.path))
        field = "" if self.field in self.reason else self.field
        where = ", ".join(filter(None, (path, self.member, field)))
        return as_sentence(f"{where}: {self.reason}" if where else self.reason)


def as_sentence(text: str) -> str:
    """The text with a full stop, unless it ends with another mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def on_one_line(text: str) -> str:
    """The text with invisible characters spelled out, line breaks included."""
    return visible(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")


def named(name: str) -> str:
    """A name as messages show it: on one line, with hidden characters spelled out, and not too long."""
    shown = on_one_line(name)
    return shown if len(shown) <= MAX_SHOWN_LENGTH else f"{shown[:MAX_SHOWN_LENGTH]}…"


MAX_SHOWN_LENGTH = 60
