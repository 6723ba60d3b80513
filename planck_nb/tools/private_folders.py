"""Folders for this user alone: temporary ones for this process, and the one with the sockets of open kernels.

Temporary folders that killed processes left are removed.

The name of a folder says which process it belongs to: its PID, when it began, and its PID namespace.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from planck_nb.base.processes import process_namespace, start_time

_SOCKETS = "planck-nb"
_PREFIX = "planck-nb-"
_NAME = re.compile(rf"{_PREFIX}(?P<process>\d+)-(?P<start>\d+)-(?P<namespace>\d+)-\w+")


def runtime_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return this user's folder for sockets.

    It is in `XDG_RUNTIME_DIR`, else in the system's temporary folder.
    """
    variables = os.environ if environment is None else environment
    runtime = variables.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):  # noqa: PTH112, PTH117 - a text that may be anything
        return Path(runtime) / _SOCKETS
    return Path(tempfile.gettempdir()) / f"{_SOCKETS}-{os.getuid()}"


def make_private_folder() -> Path:
    """Create a folder that only this user can read, and that is removed when this process ends."""
    process = os.getpid()
    prefix = f"{_PREFIX}{process}-{start_time(process)}-{process_namespace()}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(_remove, folder, process)
    return folder


def remove_stale_folders() -> None:
    """Remove the folders of processes that have ended. Those of other users, and links, are left alone."""
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            found = _NAME.fullmatch(entry.name)
            if found is not None and int(found["namespace"]) == process_namespace() and _is_ours(entry.path):
                process, start = int(found["process"]), int(found["start"])
                if start_time(process) != start:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_ours(path: str) -> bool:
    """Whether this is a folder, not a link to one, that belongs to this user and that nobody else can change."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # else this is a fork of the process that it belongs to
        shutil.rmtree(folder, ignore_errors=True)
