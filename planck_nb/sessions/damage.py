"""Finds what readers of a journal skip: damaged lines, and rows whose id an earlier row has."""

from __future__ import annotations

from dataclasses import dataclass

from planck_nb.base.errors import SessionError
from planck_nb.sessions.codec import parse_line
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.segments import Position, journal_end, read_rows


@dataclass(frozen=True, slots=True)
class Damage:
    """What is skipped of a session's active segment, which has at most about 64 MiB.

    Args:
        session: The name of the session.
        lines: The number of damaged lines.
        repeated: The number of rows with the id of an earlier row.
    """

    session: str
    lines: int = 0
    repeated: int = 0

    def __str__(self) -> str:
        """Return a sentence for people, empty if nothing is skipped."""
        parts = [
            _count(self.lines, "line", "that cannot be read"),
            _count(self.repeated, "row", "with the id of an earlier row"),
        ]
        if not any(parts):
            return ""
        return (
            f"The journal of {self.session} is damaged: {' and '.join(filter(None, parts))} "
            f"{'is' if self.lines + self.repeated == 1 else 'are'} left out; restore the file from a backup if you can."
        )


def read_damage(session: SessionInfo) -> Damage:
    """Count what is skipped of the active segment of a session.

    Args:
        session: The session.

    Returns:
        The counts.

    Raises:
        SessionError: The journal cannot be read.
    """
    damaged = repeated = 0
    ids: set[int] = set()
    try:
        end = journal_end(session.path)
        for lines, _ in read_rows(session.path, start=Position(end.segment, 0), end=end):
            for line in lines:
                record = parse_line(line)
                if record is None:
                    damaged += not line.isspace()
                elif record.get("kind") != "session":
                    repeated += record["id"] in ids
                    ids.add(record["id"])
    except OSError as error:
        raise SessionError(f"Session {session.name!r} cannot be read ({error.strerror}); was it deleted?") from error
    return Damage(session.name, damaged, repeated)


def _count(number: int, noun: str, what: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'} {what}" if number else ""
