"""Bounded copies for a notebook's folder."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planck_nb.agent.approval.secret_files import is_secret_path
from planck_nb.base.errors import PlanckError

MAX_FILES = 5_000
MAX_BYTES = 200_000_000
"""The largest folder to copy."""

_LEFT_OUT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints", ".cache"})
"""Large folders which notebooks do not read, by name."""


@dataclass(frozen=True, slots=True)
class FolderSize:
    """The size a copy would have.

    Args:
        files: How many, counted up to one more than the limit.
        size: Their bytes, counted as far as the files.
    """

    files: int
    size: int

    @property
    def is_copied(self) -> bool:
        """Return whether the folder is small enough."""
        return self.files <= MAX_FILES and self.size <= MAX_BYTES


def measure(folder: Path, without: Path) -> FolderSize:
    """Count what a copy would have, up to the limits.

    Args:
        folder: The folder.
        without: A folder inside which is left out, such as the sessions' one.
    """
    files = size = 0
    for _, status in _files(folder, without):
        files, size = files + 1, size + status.st_size
        if files > MAX_FILES or size > MAX_BYTES:
            break
    return FolderSize(files, size)


def copy_folder(folder: Path, target: Path, without: Path, stop: threading.Event) -> None:
    """Copy regular files into an empty folder, without apparent secrets.

    Links to files are followed; links to folders are left out, because they may lead anywhere.

    Args:
        folder: The folder.
        target: The copy.
        without: A folder inside which is left out.
        stop: Set to end the copy early.

    Raises:
        PlanckError: The folder is too large by now.
        OSError: The disk is full, or a file cannot be written.
    """
    files = size = 0
    for path, status in _files(folder, without):
        if stop.is_set():
            return
        files, size = files + 1, size + status.st_size
        if files > MAX_FILES or size > MAX_BYTES:
            raise PlanckError(f"{folder} has become too large to copy; press Verify again.")
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copy2(path, copy)
        except (FileNotFoundError, PermissionError):
            continue  # deleted meanwhile, or not readable for the notebook either


def _files(folder: Path, without: Path) -> Iterator[tuple[Path, os.stat_result]]:
    exception = os.path.realpath(without)
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in _LEFT_OUT
            and not is_secret_path(Path(place, name))
            and os.path.realpath(Path(place, name)) != exception
        ]
        for name in names:
            path = Path(place, name)
            try:
                status = path.stat()
            except OSError:
                continue  # a broken link
            if stat.S_ISREG(status.st_mode) and not is_secret_path(path):
                yield path, status
