"""Whether other users of the system may have written a file, or can put another one in its place."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path

from planck_nb.base.text import printable

_ROOT = 0

FOREIGN_HINT = "copy it to a folder of your own, or set PLANCK_NB_TRUST=1."
"""The end of a sentence about a text that another user may have written."""


def foreign_reason(path: Path) -> str:
    """Return why a file or folder may be another user's work, as the end of a sentence about it.

    A file is the user's own if it and all folders above it belong to the user or to root, and no one else can write
    them. In a folder with the sticky bit, such as `/tmp`, others can add files but not replace the user's own. A group
    that only the user belongs to does not count. Both links and their targets are checked.

    Args:
        path: The file or folder.

    Returns:
        The end of a sentence; empty if only the user and root can have written it, and always on Windows.

    Raises:
        OSError: The path does not exist, or cannot be examined.
    """
    if os.name != "posix":
        return ""
    written = Path(os.path.abspath(path))  # noqa: PTH100 - as written, with its links
    real = path.resolve(strict=True)
    for each in dict.fromkeys((written, *written.parents, real, *real.parents)):
        if reason := _reason(each, each.lstat()):
            return reason
    return ""


def foreign_sentence(path: Path, reason: str) -> str:
    """A sentence about a file that is not used for this reason."""
    return f"{printable(path)} is not used because {printable(reason)}; {FOREIGN_HINT}"


def writable_by_others(status: os.stat_result) -> bool:
    """Return whether users other than the owner can write a file, or replace the owner's files in a folder."""
    mode = status.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return False
    return bool(mode & stat.S_IWOTH) or (bool(mode & stat.S_IWGRP) and _has_other_members(status.st_gid))


def _reason(path: Path, status: os.stat_result) -> str:
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"{path} belongs to another user"
    return f"other users can write {path}" if writable_by_others(status) else ""


@lru_cache(maxsize=64)
def _has_other_members(group_id: int) -> bool:
    """Whether a group has a member besides the user and root."""
    import grp  # noqa: PLC0415 - not on Windows
    import pwd  # noqa: PLC0415 - as above

    if group_id == _ROOT:
        return False
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = ""
    try:
        named = set(grp.getgrgid(group_id).gr_mem)
    except KeyError:
        named = set()
    # The members of a user's primary group are not listed with the group.
    primary = {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == group_id}
    return bool((named | primary) - {user, "root"})
