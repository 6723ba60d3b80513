"""Journal files: their padding, what is on disk, their end, and files that are gone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError
from planck_nb.sessions.journal.codec import Header, encode_message_line, encode_record, parse_line
from planck_nb.sessions.journal.journal_file import JournalFile, find_end, read_lines, readable_end

HEADER = Header("00ff00ff", "mine", datetime(2026, 1, 2, tzinfo=UTC))
PADDED = 64 * 4096


def line(row_id: int, text: str = "x") -> bytes:
    return encode_message_line(row_id, "a1", UserMessage(text), turn=0, time=1.75e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.journal.jsonl"


def test_a_journal_is_padded_while_it_is_open(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    header = journal.size
    first = path.stat().st_size
    assert first == header + PADDED
    assert path.stat().st_mode & 0o777 == 0o600
    journal.append(line(1), sync=False)
    assert path.stat().st_size == first  # the line is written over the padding
    assert path.read_bytes()[: journal.size].endswith(line(1))
    journal.append(line(2, "x" * PADDED), sync=False)
    assert path.stat().st_size == journal.size + PADDED
    journal.close()
    assert path.stat().st_size == journal.size
    with pytest.raises(SessionError, match="unknown state"):
        journal.append(line(3), sync=True)


def test_only_what_was_synced_is_durable(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    assert journal.durable == 0
    journal.append(line(1), sync=False)
    assert journal.durable == 0
    journal.append(b"", sync=True)
    assert journal.durable == journal.size
    journal.append(line(2), sync=False)
    assert journal.durable == journal.size - len(line(2))
    journal.append(line(3), sync=True)
    assert journal.durable == journal.size
    journal.append(b"", sync=False)
    assert journal.durable == journal.size
    journal.close()


def test_a_journal_that_cannot_be_written_says_so(path: Path) -> None:
    with pytest.raises(SessionError, match="could not be written"):
        JournalFile.create(path / "x", HEADER)
    with pytest.raises(SessionError, match="could not be written"):
        JournalFile.open(path)
    JournalFile.create(path, HEADER).close()
    with pytest.raises(SessionError, match="could not be written"):
        JournalFile.create(path, HEADER)


def test_a_journal_is_open_once(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    with pytest.raises(SessionLockedError):
        JournalFile.open(path)
    journal.close()
    JournalFile.open(path).close()


def test_half_a_line_at_the_end_is_removed(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    journal.append(line(1) + line(2), sync=True)
    journal.close()
    whole = path.read_bytes()
    for end in (b"", b"\n", b" " * 5000 + b"\n", line(3)[:-1], line(3)[:20], b"nonsense\n", b"\0" * 10):
        path.write_bytes(whole + end)
        assert readable_end(path) == (len(whole), 2)
        again = JournalFile.open(path)
        assert (again.size, again.last_id, again.segment) == (len(whole), 2, 1)
        again.close()
        assert path.read_bytes() == whole


def test_a_journal_without_a_line_or_of_a_newer_version_is_not_opened(path: Path) -> None:
    for content in (b"", b"nonsense\n", b" " * 100_000):
        path.write_bytes(content)
        with pytest.raises(SessionFormatError):
            JournalFile.open(path)
    journal = path.with_name("t.journal.jsonl")
    JournalFile.create(journal, HEADER).close()
    newer = encode_record({**(parse_line(line(1)) or {}), "v": 2})
    journal.write_bytes(journal.read_bytes() + newer)
    with pytest.raises(SessionFormatError, match="newer"):
        JournalFile.open(journal)
    assert journal.read_bytes().endswith(newer)


def test_a_deleted_journal_is_written_again_and_another_file_is_set_aside(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    journal.append(line(1), sync=True)
    for number, others in enumerate(([], ["mine"], ["yours"])):
        path.unlink()
        for content in others:
            path.write_text(content)
        journal.append(line(2 + number), sync=True)
        assert path.read_bytes()[: journal.size].endswith(line(2 + number))
        assert path.stat().st_mode & 0o777 == 0o600
        assert journal.durable == journal.size
    aside = sorted(path.parent.glob("*.replaced-*"))
    assert [file.name for file in aside] == [f"{path.name}.replaced-1", f"{path.name}.replaced-2"]
    assert [file.read_text() for file in aside] == ["mine", "yours"]
    journal.close()
    assert readable_end(path)[1] == 4


def test_a_copy_for_a_fork_has_all_lines_at_once(path: Path) -> None:
    journal = JournalFile.create_with_content(path, HEADER, [line(1), line(2)])
    assert journal.last_id == 2
    assert path.stat().st_mode & 0o777 == 0o600
    journal.close()
    with path.open("rb") as file:
        [(lines, end)] = read_lines(file)
        assert lines[1:] == [line(1), line(2)]
        assert find_end(file) == (end, 2)


def test_a_forgotten_journal_leaves_its_file_alone(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    before = path.stat().st_size
    journal.forget()
    assert path.stat().st_size == before
    with pytest.raises(SessionError, match="unknown state"):
        journal.append(line(1), sync=False)


@pytest.mark.parametrize("end", [0, 1, 200, 10**9])
def test_lines_up_to_an_offset_are_complete(path: Path, end: int) -> None:
    path.write_bytes(line(1) + line(2) + line(3))
    with path.open("rb") as file:
        found = [each for lines, _ in read_lines(file, end=end) for each in lines]
        assert found == [line(number) for number in (1, 2, 3) if len(line(1)) * number <= end]
        assert [each for lines, _ in read_lines(file, start=len(line(1))) for each in lines] == [line(2), line(3)]
