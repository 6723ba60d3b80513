"""Appended lines: complete ones stay, an incomplete last one is ignored and then removed."""

from __future__ import annotations

import io
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.base.jsonl import after_last_newline, append_line, read_lines


def test_lines_are_appended_and_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert list(read_lines(path)) == []
    append_line(path, b'{"a": "\xe2\x80\xa8"}\n')
    append_line(path, b"two\nthree\n", durable=True)
    assert list(read_lines(path)) == [b'{"a": "\xe2\x80\xa8"}', b"two", b"three"]


@pytest.mark.parametrize("kept", [b"", b"one\n", b"one\n" * 40_000])
@pytest.mark.parametrize("torn", [b"x", b"x" * 200_000])
def test_an_incomplete_last_line_is_ignored_and_then_removed(kept: bytes, torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(kept + torn)
    assert list(read_lines(path)) == kept.split(b"\n")[:-1]
    append_line(path, b"two\n")
    assert path.read_bytes() == kept + b"two\n"


def test_a_new_file_gets_the_mode_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_line(path, b"one\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    append_line(path, b"two\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_durable_line_is_synced_with_all_of_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    append_line(path, b"one\n")
    append_line(path, b"two\n", durable=True)
    assert synced == [8]


def test_threads_append_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    start = threading.Barrier(6)

    def write(letter: bytes) -> None:
        start.wait()
        for _ in range(30):
            append_line(path, letter * 20_000 + b"\n")

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c", b"d", b"e", b"f")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_lines(path)) == sorted(letter * 20_000 for letter in (b"a", b"b", b"c", b"d", b"e", b"f") * 30)


@given(st.lists(st.sampled_from([b"\n", b"a", b"b" * 70_000]), max_size=6), st.data())
def test_the_offset_after_the_last_newline(pieces: list[bytes], data: st.DataObject) -> None:
    content = b"".join(pieces)
    end = data.draw(st.integers(0, len(content)))
    assert after_last_newline(io.BytesIO(content), end) == content[:end].rfind(b"\n") + 1
