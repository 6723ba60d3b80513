"""Reading and writing whole files, with one writer at a time."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

from planck_nb.agent.approval.paths import MAX_PATH_LENGTH
from planck_nb.base.atomic import write_atomically
from planck_nb.tools.no_links import SUPPORTED, open_folder, require_no_links, require_regular, status_of

_LOCKS = tuple(threading.Lock() for _ in range(64))


def lock_of(path: Path) -> threading.Lock:
    """Return the lock of a resolved path. Some paths share one, so no caller may hold two."""
    return _LOCKS[hash(path) % len(_LOCKS)]


def resolve(path: str, cwd: Path | None) -> Path:
    """Return the path, `~` expanded and links followed, relative to `cwd` or else the process's. Raises OSError."""
    if len(path) > MAX_PATH_LENGTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    base = Path.cwd() if cwd is None else cwd.expanduser()
    try:
        return (base / Path(path).expanduser()).resolve()
    except (ValueError, RuntimeError) as error:  # a NUL byte; a loop of links; no home
        raise OSError(0, str(error)) from error


def write_file(path: Path, content: bytes) -> None:
    """Replace the file of a resolved path atomically, or create it with the folders above it. Raises OSError."""
    if not SUPPORTED:
        require_no_links(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            require_regular(path.stat())
        write_atomically(path, content)
        return
    with open_folder(path.parent, create=True) as folder:
        found = status_of(path.name, folder, path) if path.name else path.stat()
        if found is not None:
            require_regular(found)
        write_atomically(path, content, folder=folder)


def remove_file(path: Path) -> None:
    """Remove the file of a resolved path. Raises OSError."""
    if not SUPPORTED:
        require_no_links(path)
        path.unlink()
        return
    with open_folder(path.parent) as folder:
        status_of(path.name, folder, path)
        os.unlink(path.name, dir_fd=folder)


def exists(path: Path) -> bool:
    """Return whether there is anything at a resolved path, a link included. Raises OSError if that is unknown."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
