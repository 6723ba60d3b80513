"""Finds what readers of a journal skip: damaged lines, and rows that repeat an earlier id."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from planck_nb.base.errors import SessionError
from planck_nb.base.text import counted
from planck_nb.sessions.journal.journal_check import check_journal, known_check
from planck_nb.sessions.journal.segments import missing_segments

_log = logging.getLogger(__name__)
_said: set[Path] = set()


@dataclass(frozen=True, slots=True)
class Damage:
    """What readers skip of a session's journal.

    Args:
        session: The name of the session.
        lines: The number of damaged lines.
        repeated: The number of rows with the id of an earlier row.
        missing: The number of segments that are missing; then nothing else is counted.
        unreadable: The number of rows whose message or event cannot be decoded. SQL shows what columns they have.
    """

    session: str
    lines: int = 0
    repeated: int = 0
    missing: int = 0
    unreadable: int = 0

    def __str__(self) -> str:
        """Return a sentence for users, empty if nothing is skipped."""
        if self.missing:
            parts = "an earlier part" if self.missing == 1 else f"{self.missing} earlier parts"
            return f"The journal of {self.session} is damaged: {parts} of it cannot be found; restore it from a backup."
        kinds = (
            (self.lines, "line", "that cannot be read"),
            (self.repeated, "row", "with the id of an earlier row"),
            (self.unreadable, "row", "whose content cannot be decoded"),
        )
        skipped = [f"{counted(number, noun)} {what}" for number, noun, what in kinds if number]
        if not skipped:
            return ""
        *first, last = skipped
        joined = f"{', '.join(first)} and {last}" if first else last
        are = "is" if self.lines + self.repeated + self.unreadable == 1 else "are"
        return (
            f"The journal of {self.session} is damaged: {joined} {are} left out; "
            "restore the file from a backup if you can."
        )


class _Journal(Protocol):
    """A session as `list_sessions` returns it."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def segment(self) -> int: ...


def read_damage(session: _Journal) -> Damage:
    """Count what is skipped of a session, in all segments of its journal.

    The first call reads the whole journal, and later calls in the same process only what was added since.

    Args:
        session: The session.

    Returns:
        The counts.

    Raises:
        SessionError: The journal cannot be read.
    """
    try:
        missing = missing_segments(session.path)
        if missing:
            return Damage(session.name, missing=missing)
        check = check_journal(session.path)
    except OSError as error:
        raise SessionError(f"Session {session.name!r} cannot be read ({error.strerror}); was it deleted?") from error
    if check is None:
        return Damage(session.name)
    return Damage(session.name, check.damaged, check.repeated, unreadable=check.unreadable)


def known_damage(session: _Journal) -> Damage:
    """Return what this process knows to be skipped of a session, without reading its journal.

    Args:
        session: The session.

    Returns:
        The counts; 0 if the journal was not checked.

    Raises:
        SessionError: A journal with several segments cannot be read.
    """
    try:
        missing = missing_segments(session.path) if session.segment > 1 else 0
    except OSError as error:
        raise SessionError(f"Session {session.name!r} cannot be read ({error.strerror}); was it deleted?") from error
    check = known_check(session.path)
    if missing or check is None:
        return Damage(session.name, missing=missing)
    return Damage(session.name, check.damaged, check.repeated, unreadable=check.unreadable)


def say_once(journal: Path, damage: Damage) -> None:
    """Log the damage of a session as a warning, which a notebook shows, once in each process."""
    sentence = str(damage)
    if sentence and journal not in _said:
        _said.add(journal)
        _log.warning("%s", sentence)
