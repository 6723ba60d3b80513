"""The file of a cassette: whole lines, whoever writes and whatever happened to it."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planck_nb.ai.cassettes.cassette_file import VERSION, CassetteEntry, append, read_entries
from planck_nb.base.errors import CassetteError

REQUEST = {"model": "openai:m", "messages": []}


def entry(
    key: str = "k", occurrence: int = 0, chunks: tuple[tuple[float, bytes], ...] = ((1.5, b"data"),)
) -> CassetteEntry:
    return CassetteEntry(
        key, occurrence, "openai", "chat", "m", REQUEST, 200, {"content-type": "x"}, chunks, "eof", "", 0.2, True
    )


@example([(0.0, b"\xff")], "\ud800 \u2028 \x85")
@given(st.lists(st.tuples(st.floats(0, 1e6), st.binary()), max_size=4), st.text(st.characters(codec=None)))
def test_what_is_written_is_read(chunks: list[tuple[float, bytes]], key: str) -> None:
    written = entry(key, chunks=tuple(chunks))
    assert written.line().count(b"\n") == 1
    folder = Path(os.environ["HOME"])
    (folder / "tape").write_bytes(written.line())
    assert list(read_entries(folder / "tape")) == [written]


def test_a_torn_last_line_is_left_out_and_then_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    append(path, entry("one").line())
    with path.open("ab") as file:
        file.write(entry("torn", chunks=((0, b"x" * 200_000),)).line()[:-7])
    assert [each.key for each in read_entries(path)] == ["one"]
    append(path, entry("two").line())
    assert [each.key for each in read_entries(path)] == ["one", "two"]


def test_a_file_that_is_torn_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(b"x" * 100_000)
    assert list(read_entries(path)) == []
    append(path, entry("one").line())
    assert [each.key for each in read_entries(path)] == ["one"]


def spoiled(**changes: object) -> bytes:
    return json.dumps({**json.loads(entry().line()), **changes}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"junk",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"v": 1}',
        b"<<<<<<< HEAD",
        spoiled(key=5),
        spoiled(chunks=[[1]]),
        spoiled(chunks=[[1, {"base64": "%%"}]]),
        spoiled(end="sometime"),
        spoiled(status=None),
        spoiled(v="one"),
    ],
)
def test_a_line_that_is_not_an_entry_is_named(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(entry().line() + line + b"\n" + entry("two").line())
    with pytest.raises(CassetteError, match=r"^Line 2 of the cassette .*tape\.jsonl is not a recorded answer; remove"):
        list(read_entries(path))


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(json.dumps({"v": VERSION + 1, "anything": "else"}).encode() + b"\n")
    with pytest.raises(CassetteError, match=r"written by a newer planck_nb \(version 2, line 1; this one reads 1\)"):
        list(read_entries(path))


def test_empty_lines_and_a_missing_file_are_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    assert list(read_entries(path)) == []
    path.write_bytes(b"\n" + entry().line() + b"\n\n")
    assert len(list(read_entries(path))) == 1


def test_a_file_is_made_for_its_owner_and_keeps_the_mode_it_has(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tape.jsonl"
    append(path, entry().line())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    append(path, entry().line())
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_path_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="cannot be written: Is a directory; check the path"):
        append(tmp_path, entry().line())
    with pytest.raises(CassetteError, match="cannot be read: Is a directory; check the path"):
        list(read_entries(tmp_path))


def test_writers_in_many_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    start = threading.Barrier(8)

    def write(name: str) -> None:
        start.wait()
        for number in range(50):
            append(path, entry(name, number, ((0, b"x" * 20_000),)).line())

    threads = [threading.Thread(target=write, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [(each.key, each.occurrence) for each in read_entries(path)]
    assert sorted(found) == sorted((str(name), number) for name in range(8) for number in range(50))
