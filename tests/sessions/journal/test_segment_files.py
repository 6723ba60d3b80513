"""The files of a journal's segments: positions in them, their lines, lengths and compression."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.journal.codec import Header, decode_header, encode_message_line, parse_line
from planck_nb.sessions.journal.journal_file import JournalFile, read_first_line
from planck_nb.sessions.journal.segments import (
    START,
    Position,
    compress_segment,
    is_compressed,
    journal_bytes,
    journal_end,
    missing_segments,
    old_segments,
    read_before,
    read_last_lines,
    read_rows,
    start_segment,
)

HEADER = Header("00ff00ff", "mine", datetime(2026, 1, 2, tzinfo=UTC))


def line(row_id: int) -> bytes:
    return encode_message_line(row_id, "a1", UserMessage("x" * row_id), turn=0, time=1.75e9)


@pytest.fixture(params=["plain", "compressed"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A journal of three segments with three rows each, whose old segments may be compressed."""
    path = tmp_path / "s.journal.jsonl"
    writer = JournalFile.create(path, HEADER)
    for segment in range(3):
        writer.append(b"".join(line(3 * segment + number) for number in (1, 2, 3)), sync=True)
        if segment < 2:
            writer = start_segment(writer)
    writer.close()
    if request.param == "compressed":
        for old in old_segments(path):
            compress_segment(old)
    return path


def contents(journal: Path) -> dict[int, bytes]:
    """The content of each segment, by number."""
    found = {}
    for file in (*old_segments(journal), journal):
        data = gzip.decompress(file.read_bytes()) if is_compressed(file) else file.read_bytes()
        found[decode_header(data.splitlines(keepends=True)[0]).segment] = data
    return found


def ids_between(journal: Path, start: Position = START, end: Position | None = None) -> list[int]:
    rows = (line for lines, _ in read_rows(journal, start=start, end=end) for line in lines)
    return [row["id"] for row in map(parse_line, rows) if row is not None and row["kind"] == "message"]


def positions(journal: Path) -> list[Position]:
    """The position after each row, and at the beginning those of the headers' ends."""
    found = []
    for number, data in sorted(contents(journal).items()):
        offset = 0
        for each in data.splitlines(keepends=True):
            offset += len(each)
            found.append(Position(number, offset))
    return found


def test_a_new_segment_goes_on_where_the_one_before_ended(journal: Path) -> None:
    headers = [decode_header(data.splitlines(keepends=True)[0]) for _, data in sorted(contents(journal).items())]
    assert [(header.segment, header.last_id) for header in headers] == [(1, 0), (2, 3), (3, 6)]
    assert {(header.session_id, header.name, header.created) for header in headers} == {
        (HEADER.session_id, HEADER.name, HEADER.created)
    }
    assert ids_between(journal) == list(range(1, 10))
    assert not list(journal.parent.glob("*.next"))


def test_rows_between_any_two_positions(journal: Path) -> None:
    places = [START, *positions(journal)]
    # A header has no row; each position comes with the number of rows before it.
    rows_before = [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9]
    assert len(places) == len(rows_before)
    for begin, start in enumerate(places):
        assert ids_between(journal, start) == list(range(rows_before[begin] + 1, 10))
        for finish in range(begin, len(places)):
            expected = list(range(rows_before[begin] + 1, rows_before[finish] + 1))
            assert ids_between(journal, start, places[finish]) == expected


def test_the_end_of_the_part_read_comes_with_its_lines(journal: Path) -> None:
    last = [positions for _, positions in read_rows(journal)]
    assert last == positions(journal)[3::4]
    assert journal_end(journal) == last[-1]


@pytest.mark.parametrize("size", [1, 150, 300, 700, 1400, 2000, 100_000])
def test_last_lines_are_complete(journal: Path, size: int) -> None:
    lines, is_all = read_last_lines(journal, journal_end(journal), size)
    ids = [row["id"] for row in map(parse_line, lines) if row is not None and row["kind"] == "message"]
    plain = not any(map(is_compressed, old_segments(journal)))
    newest = len(contents(journal)[3])
    everything = b"".join(data for _, data in sorted(contents(journal).items()))
    readable = everything if plain else contents(journal)[3]
    assert is_all is (plain and size >= len(everything))
    assert ids == list(range(10 - len(ids), 10))
    assert sum(map(len, lines)) <= size
    if size >= len(readable):
        assert b"".join(lines) == readable
    elif size < newest:
        whole = readable[-size:].split(b"\n", 1)[1]
        assert b"".join(lines) == whole


@pytest.mark.parametrize("segment", [1, 2, 3])
def test_bytes_before_a_position(journal: Path, segment: int) -> None:
    data = contents(journal)[segment]
    end = Position(segment, len(data))
    assert read_before(journal, end, 10, max_bytes=100) == data[-10:]
    assert read_before(journal, end, 100, max_bytes=10) == data[-100:-90]
    assert read_before(journal, end, len(data), max_bytes=len(data)) == data
    assert read_before(journal, end, len(data) + 1, max_bytes=len(data)) == b""


def test_a_missing_segment_is_counted_and_not_read_around(journal: Path) -> None:
    assert missing_segments(journal) == 0
    assert journal_bytes(journal) == sum(map(len, contents(journal).values()))
    old_segments(journal)[0].unlink()
    assert missing_segments(journal) == 1
    assert len(old_segments(journal)) == 1
    with pytest.raises(FileNotFoundError):
        journal_bytes(journal)
    with pytest.raises(FileNotFoundError):
        ids_between(journal)
    assert ids_between(journal, Position(2, 0)) == list(range(4, 10))
    old_segments(journal)[0].unlink()
    assert missing_segments(journal) == 2


def test_compressing_keeps_the_content_and_only_one_file(tmp_path: Path) -> None:
    segment = tmp_path / "s.journal.1.jsonl"
    data = b"".join(map(line, range(1, 200)))
    segment.write_bytes(data)
    assert not is_compressed(segment)
    compress_segment(segment)
    [packed] = tmp_path.iterdir()
    assert is_compressed(packed)
    assert packed.stat().st_mode & 0o777 == 0o600
    assert gzip.decompress(packed.read_bytes()) == data
    before = packed.read_bytes()
    compress_segment(packed)
    assert packed.read_bytes() == before
    assert list(tmp_path.iterdir()) == [packed]


def test_a_journal_without_a_header_has_no_segments(tmp_path: Path) -> None:
    path = tmp_path / "s.journal.jsonl"
    path.write_bytes(line(1))
    for function in (old_segments, missing_segments, journal_bytes, journal_end, ids_between):
        with pytest.raises(SessionFormatError):
            function(path)


def test_a_first_line_is_read_alone(journal: Path) -> None:
    assert read_first_line(journal) == contents(journal)[3].splitlines(keepends=True)[0]
