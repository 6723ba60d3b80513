"""The open files of this process, as Linux lists them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def open_files(folder: Path) -> list[str]:
    """Return the open files in a folder, with deleted ones."""
    targets: list[str] = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            targets.append(str(entry.readlink()).removesuffix(" (deleted)"))
    return sorted(target for target in targets if target.startswith(str(folder)))
