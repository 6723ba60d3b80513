"""A notebook's folder is copied without secrets, links to folders, and what no notebook reads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from planck_nb.base.errors import PlanckError
from planck_nb.jupyter.lab.folder_copy import MAX_BYTES, MAX_FILES, copy_folder, measure


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("data/a.csv", "work.ipynb", ".env", ".git/HEAD", ".planck/sessions/s.jsonl", ".planck/config.toml"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.csv").write_text("345")
    (folder / "linked.csv").symlink_to(tmp_path / "outside" / "b.csv")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to(folder)
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")
    return folder


def test_a_folder_is_copied(folder: Path, tmp_path: Path) -> None:
    sessions, copy = folder / ".planck" / "sessions", tmp_path / "copy"
    size = measure(folder, sessions)
    copy_folder(folder, copy, sessions, threading.Event())
    found = {str(path.relative_to(copy)): path.read_text() for path in copy.rglob("*") if path.is_file()}
    assert found == {"data/a.csv": "12", "work.ipynb": "12", ".planck/config.toml": "12", "linked.csv": "345"}
    assert (size.files, size.size, size.is_copied) == (4, 9, True)
    assert not (copy / "linked.csv").is_symlink()


def test_a_large_folder_is_not_copied(folder: Path, tmp_path: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(MAX_BYTES)
    assert not measure(folder, folder / ".planck").is_copied
    with pytest.raises(PlanckError, match="has become too large to copy; press Verify again"):
        copy_folder(folder, tmp_path / "copy", folder / ".planck", threading.Event())
    assert not (tmp_path / "copy" / "large").exists()


def test_many_files_are_counted_up_to_the_limit(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / str(number)).touch()
    size = measure(tmp_path, tmp_path / "sessions")
    assert (size.files, size.is_copied) == (MAX_FILES + 1, False)


def test_a_stopped_copy_ends(folder: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    copy_folder(folder, tmp_path / "copy", folder / ".planck", stopped)
    assert not (tmp_path / "copy").exists()
