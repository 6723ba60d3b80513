"""The writer's thread: what is gathered, what is acknowledged, and what a full disk leaves."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions.journal.codec import Header, encode_message_line, parse_line
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.journal_writer import Writer
from planck_nb.sessions.journal.segments import Position, old_segments, read_rows

HEADER = Header("00ff00ff", "mine", datetime(2026, 1, 2, tzinfo=UTC))
LONG = "x" * 300_000
"""More than the padding of a journal."""


def line(row_id: int, text: str = "x") -> bytes:
    return encode_message_line(row_id, "a1", UserMessage(text), turn=0, time=1.75e9)


def ids(path: Path) -> list[int]:
    rows = (parse_line(each) for lines, _ in read_rows(path) for each in lines)
    return [row["id"] for row in rows if row is not None and row["kind"] == "message"]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Done:
    """Waits until the writer has called back."""

    def __init__(self) -> None:
        self.errors: list[SessionError | None] = []
        self._called = threading.Event()

    def __call__(self, error: SessionError | None) -> None:
        self.errors.append(error)
        self._called.set()

    def result(self) -> SessionError | None:
        assert self._called.wait(20)
        [error] = self.errors
        return error


class Written:
    """Notes how many lines each write had."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.some = threading.Event()

    def __call__(self, count: int) -> None:
        self.counts.append(count)
        self.some.set()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.journal.jsonl"


def test_lines_with_a_callback_are_durable_when_it_is_called(path: Path) -> None:
    journal, written, done = JournalFile.create(path, HEADER), Written(), Done()
    writer = Writer(journal, written)
    writer.put(line(1), done)
    assert done.result() is None
    assert journal.durable == journal.size
    done = Done()
    writer.put(line(2), done, sync=False)
    assert done.result() is None
    assert journal.durable == journal.size - len(line(2))
    assert writer.write() == Position(1, journal.size)
    assert journal.durable < journal.size
    assert writer.sync() == Position(1, journal.size)
    assert journal.durable == journal.size
    writer.close()
    assert ids(path) == [1, 2]
    assert written.counts == [1, 1]


def test_lines_without_a_callback_wait_for_others(path: Path) -> None:
    written, done = Written(), Done()
    writer = Writer(JournalFile.create(path, HEADER), written, gather_seconds=1000)
    for number in (1, 2, 3):
        writer.put(line(number))
    writer.put(line(4), done)
    assert done.result() is None
    writer.close()
    assert ids(path) == [1, 2, 3, 4]
    assert written.counts == [4]


def test_a_line_without_a_callback_is_written_soon_and_not_synced(path: Path) -> None:
    journal, written = JournalFile.create(path, HEADER), Written()
    writer = Writer(journal, written, gather_seconds=0.001)
    writer.put(line(1))
    assert written.some.wait(20)
    assert journal.durable == 0
    writer.close()
    assert ids(path) == [1]


def test_what_waits_is_written_at_the_end(path: Path) -> None:
    written = Written()
    writer = Writer(JournalFile.create(path, HEADER), written, gather_seconds=1000)
    writer.put(line(1))
    writer.put(line(2))
    writer.close()
    assert ids(path) == [1, 2]
    assert sum(written.counts) == 2
    with pytest.raises(SessionError, match="is closed"):
        writer.put(line(3))
    with pytest.raises(SessionError, match="is closed"):
        writer.sync()


def test_after_a_full_disk_only_what_was_acknowledged_or_has_no_callback_is_there(path: Path) -> None:
    written, first, refused, last = Written(), Done(), Done(), Done()
    journal = JournalFile.create(path, HEADER)
    writer = Writer(journal, written, gather_seconds=1000)
    writer.put(line(1), first)
    assert first.result() is None
    with full_disk(path.stat().st_size):
        writer.put(line(2, LONG))
        writer.put(line(3, LONG), refused)
        assert "could not be written" in str(refused.result())
        end = journal.size
        assert writer.write().offset == end  # what is there can be read
        with pytest.raises(SessionError, match="File too large"):
            writer.sync()
    writer.put(line(4), last)
    assert last.result() is None
    writer.close()
    assert ids(path) == [1, 2, 4]
    assert written.counts == [1, 2]


def test_a_long_segment_is_followed_by_another(path: Path) -> None:
    journal = JournalFile.create(path, HEADER)
    writer = Writer(journal, lambda _: None, max_segment=10_000)
    for number in range(1, 8):
        writer.put(line(number, "x" * 4_000))
        writer.write()
    position = writer.sync()
    writer.start_segment()
    assert writer.write().segment == position.segment + 1
    writer.close()
    assert ids(path) == list(range(1, 8))
    assert len(old_segments(path)) == position.segment
    assert all(10_000 <= file.stat().st_size < 20_000 for file in old_segments(path)[:-1])


def test_a_segment_that_ended_meanwhile_is_written_again(path: Path) -> None:
    writer = Writer(JournalFile.create(path, HEADER), lambda _: None)
    writer.start_segment()
    [segment] = old_segments(path)
    content = segment.read_bytes()
    segment.unlink()
    writer.write()
    assert segment.read_bytes() == content
    writer.close()


def test_an_error_of_a_call_is_raised_where_it_was_asked_for(path: Path) -> None:
    writer = Writer(JournalFile.create(path, HEADER), lambda _: None)
    with pytest.raises(ZeroDivisionError):
        writer._call(lambda: 1 // 0, sync=False)
    assert writer.write().segment == 1
    writer.close()
