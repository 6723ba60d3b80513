"""The files of a workspace's folder that need trust: lists them, and refuses to go on while some are not trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from planck_nb.base.errors import TrustError
from planck_nb.base.ownership import writable_by_others
from planck_nb.base.visible import visible
from planck_nb.config import FolderTrust, Trusted, TrustItem


class TrustedFile(NamedTuple):
    """A file that can run code or redirect requests, and whether it is used.

    `status` is "trusted", "new", "changed" (since it was trusted), or "always" if everything in the folder is used.
    `before` is what was trusted under this path before, None for a new one.
    """

    item: TrustItem
    status: str
    before: Trusted | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether it is not used before it is trusted."""
        return self.status in {"new", "changed"}


def listed(items: Iterable[TrustItem], trust: FolderTrust) -> tuple[TrustedFile, ...]:
    """Return the files with their status."""
    return tuple(TrustedFile(item, _status(item, trust), trust.trusted(item)) for item in items)


def untrusted(folder: Path, files: Sequence[TrustedFile], trust: FolderTrust) -> TrustError:
    """The error about the files that are not trusted, which it lists."""
    waiting = [
        f"{_relative(item.path, folder)} ({'changed ' if status == 'changed' else ''}{item.title})"
        for item, status, _ in files
        if status in {"new", "changed"}
    ]
    problem = f" {trust.problem}" if trust.problem else ""
    return TrustError(
        f"Files in {visible(str(folder))} can run code or redirect requests and are not trusted yet: "
        f"{', '.join(waiting)}. Look at them with `%planck trust --list`, then run `%planck trust`, "
        f"or set PLANCK_NB_TRUST=1.{problem}"
    )


def left_out_notice(folder: Path, items: Sequence[TrustItem]) -> str:
    """Return a sentence about unused tools and teams; empty without any."""
    if not items:
        return ""
    listing = ", ".join(f"{_relative(item.path, folder)} ({item.title})" for item in items)
    return (
        f"Not used before you trust this folder: {listing}. Look with `%planck trust --list`, then run `%planck trust`."
    )


def directory_notice(sessions_dir: Path) -> str:
    """A sentence if other users can change the sessions in a directory, else empty."""
    try:
        shared = writable_by_others(sessions_dir.stat())
    except OSError:
        return ""
    if not shared:
        return ""
    return (
        f"Other users can write the sessions folder {visible(str(sessions_dir))}; make it your own with "
        f"`chmod 700`, or choose another one with PLANCK_NB_SESSIONS_DIR."
    )


def _status(item: TrustItem, trust: FolderTrust) -> str:
    if trust.always:
        return "always"
    if trust.accepts(item):
        return "trusted"
    return "new" if trust.trusted(item) is None else "changed"


def _relative(path: Path, folder: Path) -> str:
    return visible(str(path.relative_to(folder) if path.is_relative_to(folder) else path))
