"""Checks of whole journals, which read only what was added since the last one."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.journal.codec import Header, encode_message_line
from planck_nb.sessions.journal.journal_check import JournalCheck, check_journal, known_check
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import (
    compress_segment,
    journal_bytes,
    journal_end,
    old_segments,
    start_segment,
)

HEADER = Header("00ff00ff", "mine", datetime(2026, 1, 2, tzinfo=UTC))


def line(row_id: int, text: str = "x" * 50) -> bytes:
    return encode_message_line(row_id, "a1", UserMessage(text), turn=0, time=1.75e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of two segments with three rows each."""
    path = tmp_path / "s.journal.jsonl"
    journal = JournalFile.create(path, HEADER)
    journal.append(line(1) + line(2) + line(3), sync=True)
    journal = start_segment(journal)
    journal.append(line(4) + line(5) + line(6), sync=True)
    journal.close()
    return path


def append(path: Path, data: bytes) -> None:
    """Append as another program would, with a later time of change."""
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes() + data)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def checked(path: Path) -> JournalCheck:
    found = check_journal(path)
    assert found is not None
    return found


def counts(found: JournalCheck) -> tuple[int, int, bool, int, int]:
    return found.damaged, found.repeated, found.ascending, found.highest, found.unreadable


def test_what_readers_skip_is_counted_up_to_the_end(path: Path) -> None:
    assert known_check(path) is None
    found = checked(path)
    assert counts(found) == (0, 0, True, 6, 0)
    assert found.end == journal_end(path)
    assert known_check(path) == found
    append(path, line(7) + line(5) + b"nonsense\n" + line(8).replace(b'"user"', b'"nobody"') + line(9))
    found = checked(path)
    assert counts(found) == (1, 1, False, 9, 1)
    assert found.end == journal_end(path)
    assert known_check(path) == checked(path) == found


def test_only_what_was_added_is_read(path: Path) -> None:
    most = len(line(7))
    assert check_journal(path, max_bytes=most) is None
    assert known_check(path) is None
    assert check_journal(path, max_bytes=journal_bytes(path)) is not None
    append(path, line(7))
    # The first segment is among what may have to be read.
    first = old_segments(path)[0].stat().st_size
    assert check_journal(path, max_bytes=first + most - 1) is None
    found = check_journal(path, max_bytes=first + most)
    assert found is not None
    assert found.highest == 7


def test_a_new_segment_is_growth(path: Path) -> None:
    assert checked(path).highest == 6
    journal = start_segment(JournalFile.open(path))
    journal.append(line(7), sync=True)
    journal.close()
    assert check_journal(path, max_bytes=journal_bytes(path) - 1) is None
    assert counts(checked(path)) == (0, 0, True, 7, 0)


def test_a_change_elsewhere_is_found(path: Path) -> None:
    assert checked(path).damaged == 0
    [old] = old_segments(path)
    data = old.read_bytes()
    old.write_bytes(data.replace(b'"id":2', b'"id":x'))
    os.utime(old, (1, 1))
    append(path, line(7))
    assert counts(checked(path)) == (1, 0, True, 7, 0)
    old.write_bytes(data)
    os.utime(old, (2, 2))
    assert counts(checked(path)) == (0, 0, True, 7, 0)


def test_a_journal_that_is_another_one_is_read_from_the_beginning(path: Path) -> None:
    assert checked(path).highest == 6
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(header + line(14) + line(15) + line(16) + line(17))
    os.utime(path, (1, 1))
    assert counts(checked(path)) == (0, 0, True, 17, 0)
    path.write_bytes(header + line(4))  # and shorter
    os.utime(path, (2, 2))
    assert counts(checked(path)) == (0, 0, True, 4, 0)


def test_compressing_a_segment_changes_nothing(path: Path) -> None:
    before = checked(path)
    compress_segment(old_segments(path)[0])
    assert checked(path) == before


def test_a_missing_segment_is_an_error(path: Path) -> None:
    checked(path)
    old_segments(path)[0].unlink()
    append(path, line(7))
    with pytest.raises(FileNotFoundError):
        check_journal(path)
    path.write_bytes(b"nonsense\n")
    with pytest.raises(SessionFormatError):
        check_journal(path)
