"""The key that signs the user's own sessions: created at first use, outside all projects."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from planck_nb.base.errors import ConfigError
from planck_nb.base.ownership import foreign_reason
from planck_nb.base.reading import read_bounded

KEY_FILE = "session.key"

_BYTES = 32
_HEX = re.compile(rb"[0-9a-f]{64}\n?")


def user_key(folder: Path) -> bytes:
    """Return the user's key, which is created if there is none.

    Two processes that create it at the same time get the same key.

    Args:
        folder: The user's folder for planck_nb, which is created if it does not exist.

    Returns:
        32 secret bytes.

    Raises:
        ConfigError: The key cannot be read or created, is damaged, or may be known to other users.
    """
    path = folder / KEY_FILE
    try:
        if not path.exists():
            _create(path)
        data, status = read_bounded(path, 1_000)
        reason = foreign_reason(path)
    except OSError as error:
        raise ConfigError(f"The key of your sessions, {path}, cannot be read or created ({error.strerror}).") from error
    if not reason and os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
        reason = "other users can read it"
    if not reason and not _HEX.fullmatch(data):
        reason = "it is damaged"
    if reason:
        raise ConfigError(
            f"The key of your sessions, {path}, is not used, because {reason}. Delete it to get a new one; "
            "sessions that were written with it then count as those of another person."
        )
    return bytes.fromhex(data.decode())


def _create(path: Path) -> None:
    """Create the key all at once: a link to a complete file fails if another process has created it meanwhile."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{KEY_FILE}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_hex(_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()
