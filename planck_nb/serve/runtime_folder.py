"""The user's folder with open kernel sockets.

Each socket has a file beside it, with its token and what it belongs to.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from planck_nb.base.errors import ConfigError

_OTHER_USERS = 0o077
_MAX_PATH_BYTES = 100
"""Longest socket path in bytes; the strictest systems allow 104."""

_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class KernelAddress:
    """A running kernel's place and token.

    Args:
        socket: The socket's path.
        token: The token for clients.
        pid: The kernel's process id.
        folder: The agents' working directory.
        sessions_dir: The sessions directory.
        started: When the socket was opened, in seconds since the epoch.
        owner: The kernel's program, such as a notebook name; may be empty.
    """

    socket: Path
    token: str
    pid: int
    folder: str
    sessions_dir: str
    started: float
    owner: str = ""

    def __repr__(self) -> str:
        return f"<KernelAddress {self.socket}>"  # without the token

    @property
    def file(self) -> Path:
        """Return the file with the token."""
        return self.socket.with_suffix(".json")

    def write(self) -> None:
        """Write the file beside the socket, for its user alone.

        Raises OSError.
        """
        fields = {name: value for name, value in asdict(self).items() if name != "socket"}
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(fields, file)

    def remove(self) -> None:
        """Remove the socket and the file beside it."""
        for path in (self.file, self.socket):
            with suppress(OSError):
                path.unlink()


def new_socket_path(folder: Path) -> Path:
    """Choose a new socket's path, and make its folder if missing.

    Raises:
        ConfigError: The folder cannot be made, belongs to another user, others may enter it, or its path is too long.
    """
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be created ({error.strerror}); set XDG_RUNTIME_DIR to a folder of yours."
        ) from error
    check_folder(folder)
    # The file with the token is then `kernel-*.json`, which agents may not read: see approval/secret_files.py.
    path = folder / f"kernel-{os.getpid()}-{secrets.token_hex(4)}.sock"
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise ConfigError(f"The path {path} is too long for a socket; set XDG_RUNTIME_DIR to a shorter folder.")
    return path


def check_folder(folder: Path) -> None:
    """Raise ConfigError unless this is a real folder, for this user alone.

    A link is refused.
    """
    try:
        status = folder.lstat()
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read ({error.strerror}); make it readable.") from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{folder} is not a folder; remove it, or set XDG_RUNTIME_DIR to another folder.")
    if status.st_uid != os.getuid():
        raise ConfigError(f"{folder} belongs to another user; set XDG_RUNTIME_DIR to a folder of yours.")
    if status.st_mode & _OTHER_USERS:
        raise ConfigError(f"Other users can enter {folder}; run `chmod 700 {folder}`.")


def open_kernels(folder: Path) -> list[KernelAddress]:
    """List kernels with an open socket, the newest first.

    Files from dead kernels are removed.

    Raises:
        ConfigError: The folder is not safe; see `check_folder`.
    """
    if not os.path.lexists(folder):
        return []
    check_folder(folder)
    return sorted(_addresses(folder), key=lambda address: address.started, reverse=True)


def _addresses(folder: Path) -> Iterator[KernelAddress]:
    for file in folder.glob("*.json"):
        address = _read(file)
        if address is None:
            continue
        if _is_running(address.pid):
            yield address
        else:
            address.remove()


def _read(file: Path) -> KernelAddress | None:
    """Read the file beside a socket; None if unsafe or damaged.

    It and the socket must belong to this user alone.
    """
    socket = file.with_suffix(".sock")  # whatever the file says, the socket is the one beside it
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as content:
            status, beside = os.fstat(content.fileno()), socket.lstat()
            if not (stat.S_ISREG(status.st_mode) and stat.S_ISSOCK(beside.st_mode)):
                return None
            if any(item.st_uid != os.getuid() or item.st_mode & _OTHER_USERS for item in (status, beside)):
                return None
            data = json.loads(content.read(_MAX_BYTES))
        return KernelAddress(
            socket,
            str(data["token"]),
            int(data["pid"]),
            str(data["folder"]),
            str(data["sessions_dir"]),
            float(data["started"]),
            str(data.get("owner", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_running(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
