"""A call as it was approved, which is how it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from planck_nb.agent.effect import Effect
from planck_nb.base.json_types import JsonObject

FileVersion: TypeAlias = tuple[int, int, int]
"""The modification time in nanoseconds, the size and the inode of a file."""


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """What was approved.

    Args:
        args: The arguments, perhaps edited.
        touches: The effects that were approved, with the paths resolved; None if nothing was checked.
        versions: The files that it would change, as they were when a person was asked, by resolved path; None for a
            file that did not exist. Empty if no person was asked.
    """

    args: JsonObject
    touches: tuple[Effect, ...] | None = None
    versions: Mapping[str, FileVersion | None] = field(default_factory=dict)


def file_version(path: Path) -> FileVersion | None:
    """Return the version of a file, or of a link itself rather than its target; None if there is nothing."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    return version_of(status)


def version_of(status: os.stat_result) -> FileVersion:
    """Return the version of a file with this status."""
    return status.st_mtime_ns, status.st_size, status.st_ino
