"""Write access by other users to files and their folders."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path

from planck_nb.base.text import printable

_ROOT = 0

FOREIGN_HINT = "copy it to a folder of your own, or set PLANCK_NB_TRUST=1."
"""The end of a sentence about another user's text."""


def foreign_reason(path: Path) -> str:
    """Return why a file or folder may be another user's work.

    A file is the user's own if it and all folders above it belong to the user or to root, and only they can write them.
    In a folder with the sticky bit, such as `/tmp`, others can add files but not replace the user's own. A group with
    the user as its only member does not count. Both links and their targets are checked.

    Args:
        path: The file or folder.

    Returns:
        The end of a sentence about it; empty if only the user and root can have written it, and always on Windows.

    Raises:
        OSError: The path does not exist, or cannot be examined.
    """
    if os.name != "posix":
        return ""
    link = Path(os.path.abspath(path))  # noqa: PTH100 - as link, with its links
    real = path.resolve(strict=True)
    for place in dict.fromkeys((link, *link.parents, real, *real.parents)):
        if reason := _reason(place, place.lstat()):
            return reason
    return ""


def foreign_sentence(path: Path, reason: str) -> str:
    """Return a sentence about an unused file, with the reason."""
    return f"{printable(path)} is not used because {printable(reason)}; {FOREIGN_HINT}"


def writable_by_others(status: os.stat_result) -> bool:
    """Return whether others than the owner can write a file.

    For a folder, writing means replacing the owner's files in it.
    """
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
    """Return whether a group has a member besides the user and root."""
    import grp  # noqa: PLC0415 - not on Windows
    import pwd  # noqa: PLC0415 - as above

    if group_id == _ROOT:
        return False
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = ""
    try:
        members = set(grp.getgrgid(group_id).gr_mem)
    except KeyError:
        members = set()
    # The members of a user's primary group are not listed with the group.
    primary = {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == group_id}
    return bool((members | primary) - {user, "root"})
