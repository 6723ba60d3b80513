"""A project's files behind commands and sidecars."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from planck_nb.base.errors import ConfigError

_MAX_FILES = 5_000
_MAX_NAMES = 500
_MAX_NAME = 1_000
_CHUNK = 1_048_576
_SEPARATORS = re.compile(r"""[\s'"=,;:&|()<>`]+""")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MODULE_ENDS = (".py", "/__init__.py", "/__main__.py")
_DATABASES = {
    ".db": b"SQLite format 3\0",
    ".sqlite": b"SQLite format 3\0",
    ".sqlite3": b"SQLite format 3\0",
    ".duckdb": b"",
}
"""Name endings and first bytes for databases."""

_LEFT_OUT = {
    "__pycache__",
    "node_modules",
    ".venv",
    ".venv.lock",
    ".git",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
}
"""An environment and caches."""


class NamedFile(NamedTuple):
    """A file in the project.

    Args:
        name: Its path below the project's folder.
        size: Its size in bytes.
        digest: The SHA-256 digest for its content; empty for a database, whose content is data.
    """

    name: str
    size: int
    digest: str

    @property
    def line(self) -> str:
        """Return a line for a person."""
        return f"{self.name} ({self.size:,} bytes{'' if self.digest else ', a database: its content may change'})"


def find_named_files(
    words: Sequence[str], *, root: Path, folder: Path, search_path: str | None = None
) -> tuple[NamedFile, ...]:
    """Find the project's files whose names occur in a command.

    A name may be a whole argument, or a part such as in `--config=server.json` and `sh -c "python server.py"`. It may
    be relative to the working directory, to the project, or to a folder which the command names, too; it may be a
    Python module's. The program is looked up like a shell does. What such a file imports is not found.

    Args:
        words: The command and its arguments.
        root: The project's folder.
        folder: The command's working directory.
        search_path: The variable PATH for the program, None for no lookup.

    Returns:
        The files in alphabetical order.
    """
    parts = (part for word in words for part in (word, *_SEPARATORS.split(word)))
    names = [part for part in dict.fromkeys(parts) if part and "\0" not in part and len(part) <= _MAX_NAME][:_MAX_NAMES]
    bases = [folder, root]
    bases += [path for name in names if _is_below(path := folder / name, root) and os.path.isdir(path)]  # noqa: PTH112 - raises nothing
    names += [f"{name.replace('.', '/')}{end}" for name in names if _MODULE.fullmatch(name) for end in _MODULE_ENDS]
    paths = {Path(os.path.normpath(base / name)) for base in bases for name in names}
    if words and search_path and (program := shutil.which(words[0], path=search_path)):
        paths.add(Path(os.path.abspath(program)))  # noqa: PTH100 - a link stays: it is part of the project
    return tuple(_described(sorted(path for path in paths if _is_below(path, root)), root))


def find_source_files(folder: Path, root: Path) -> tuple[NamedFile, ...]:
    """Find all files in a sidecar's folder, without its environment and caches.

    Args:
        folder: The folder.
        root: The project's folder.

    Returns:
        The files in alphabetical order.

    Raises:
        ConfigError: There are more than 5,000.
    """
    paths: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.endswith(".egg-info")]
        links = [name for name in folders if Path(place, name).is_symlink()]
        paths += [Path(place, name) for name in (*files, *links) if name not in _LEFT_OUT]
        if len(paths) > _MAX_FILES:
            raise ConfigError(f"{folder} has more than {_MAX_FILES:,} files; move data elsewhere.")
    return tuple(_described(sorted(paths), root))


def covered(files: Iterable[NamedFile]) -> bytes:
    """Return the files' names and contents as bytes for a digest."""
    return b"".join(os.fsencode(f"\0{file.name}\0{file.digest}") for file in files)


def _described(paths: Iterable[Path], root: Path) -> Iterator[NamedFile]:
    for path in paths:
        with suppress(OSError, ValueError):
            name = os.path.relpath(path, root)
            if path.is_symlink() and path.is_dir():
                target = str(path.readlink())
                yield NamedFile(f"{name} -> {target}", 0, hashlib.sha256(os.fsencode(target)).hexdigest())
            elif path.is_file():
                status = path.stat()
                version = (status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
                yield NamedFile(name, status.st_size, _digest(str(path), version))


@lru_cache(maxsize=4 * _MAX_FILES)
def _digest(path: str, _version: tuple[int, ...]) -> str:
    """Return the content's digest, computed again once the file's state has changed."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        chunk = file.read(_CHUNK)
        if (mark := _DATABASES.get(Path(path).suffix)) is not None and chunk.startswith(mark):
            return ""
        while chunk:
            digest.update(chunk)
            chunk = file.read(_CHUNK)
    return digest.hexdigest()


def _is_below(path: Path, root: Path) -> bool:
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(root))  # noqa: PTH100 - links stay
