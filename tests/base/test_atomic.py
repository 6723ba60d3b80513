"""Atomic replacement: old content or new content, never a part, and nothing left beside it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from planck_nb.base.atomic import replacing, write_atomically


def test_a_new_file_gets_the_mode_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"one", mode=0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"one", 0o600)
    path.chmod(0o640)
    write_atomically(path, b"two", mode=0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o640)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_an_exception_in_the_block_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_directory_at_the_path_is_an_error_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomically(path, b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_directory_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no" / "file", b"x")


@pytest.mark.skipif(os.name != "posix", reason="directories are synced on POSIX only")
def test_the_content_is_synced_before_the_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    steps: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        steps.append(f"{kind}, {'renamed' if path.exists() else 'temporary'}")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"x")
    assert steps == ["file, temporary", "directory, renamed"]


def test_a_reader_sees_the_whole_of_either_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    write_atomically(path, contents[0])
    done = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(40):
        write_atomically(path, contents[turn % 2])
    done.set()
    reader.join()
    assert seen <= set(contents)
