"""Temporary folders of this process, and removing those that killed processes left.

The name of a folder says which process it belongs to: its number, when it began, and the namespace of its number.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "planck-nb-"
_NAME = re.compile(rf"{_PREFIX}(?P<process>\d+)-(?P<start>\d+)-(?P<namespace>\d+)-\w+")

_STARTED = 19
"""The index, after the name of the program, of the start time in /proc/PID/stat."""


def make_private_folder() -> Path:
    """Create a folder that only this user can read, and that is removed when this process ends."""
    process = os.getpid()
    prefix = f"{_PREFIX}{process}-{_start_time(process)}-{_namespace()}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(_remove, folder, process)
    return folder


def remove_stale_folders() -> None:
    """Remove the folders of processes that have ended. Those of other users, and links, are left alone."""
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            found = _NAME.fullmatch(entry.name)
            if found is not None and int(found["namespace"]) == _namespace() and _is_ours(entry.path):
                process, start = int(found["process"]), int(found["start"])
                if _start_time(process) != start:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_ours(path: str) -> bool:
    """Whether this is a folder, not a link to one, that belongs to this user and that nobody else can change."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _start_time(process: int) -> int:
    """When a process began, -1 if there is none. Without /proc it is 0 for all processes that run."""
    try:
        if not Path("/proc/self/stat").exists():
            os.kill(process, 0)
            return 0
        return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[_STARTED])
    except PermissionError:
        return 0
    except (OSError, ValueError, IndexError):
        return -1


def _namespace() -> int:
    """The namespace of process numbers: containers that share a temporary folder have different ones."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # else this is a fork of the process that it belongs to
        shutil.rmtree(folder, ignore_errors=True)
