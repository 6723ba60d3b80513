"""The files of a workspace's folder that need trust: lists them, and refuses to go on while some are not trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from planck_nb.base.errors import TrustError
from planck_nb.base.ownership import writable_by_others
from planck_nb.base.visible import visible
from planck_nb.config import FolderTrust, TrustItem

_SHOWN = 20


class TrustedFile(NamedTuple):
    """A file that can run code or redirect requests, and whether it is used.

    `status` is "trusted", "new", "changed" (since it was trusted), or "always" if everything in the folder is used.
    """

    item: TrustItem
    status: str


def listed(items: Iterable[TrustItem], trust: FolderTrust) -> tuple[TrustedFile, ...]:
    """The files with their status."""
    return tuple(TrustedFile(item, _status(item, trust)) for item in items)


def untrusted(folder: Path, files: Sequence[TrustedFile], trust: FolderTrust) -> TrustError:
    """The error about the files that are not trusted, which it lists."""
    waiting = [file for file in files if file.status in {"new", "changed"}]
    shown = [
        f"{_relative(item.path, folder)} ({'changed, ' if status == 'changed' else ''}{item.kind}: {item.summary})"
        for item, status in waiting[:_SHOWN]
    ]
    more = f" and {len(waiting) - _SHOWN:,} more" if len(waiting) > _SHOWN else ""
    problem = f" {trust.problem}" if trust.problem else ""
    return TrustError(
        f"Files in {visible(str(folder))} can run code or redirect requests and are not trusted yet: "
        f"{'; '.join(shown)}{more}. Look at them, then run `%planck trust` in a cell, "
        f"or set PLANCK_NB_TRUST=1.{problem}"
    )


def left_out_notice(folder: Path, items: Sequence[TrustItem]) -> str:
    """Return a sentence about unused tools and teams; empty without any."""
    if not items:
        return ""
    listing = ", ".join(f"{_relative(item.path, folder)} ({item.kind})" for item in items[:_SHOWN])
    more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
    return (
        f"Not used before you trust this folder: {listing}{more}. Look with `%planck trust --list`, then run "
        "`%planck trust`."
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
    return "changed" if trust.knows(item) else "new"


def _relative(path: Path, folder: Path) -> str:
    return visible(str(path.relative_to(folder) if path.is_relative_to(folder) else path))
