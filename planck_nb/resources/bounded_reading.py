"""Reading files of unknown origin, bounded in size."""

from __future__ import annotations

from pathlib import Path

from planck_nb.tools.no_links import require_regular


def read_head(path: Path, size: int) -> bytes:
    """The first `size` bytes of a regular file. Raises OSError, also for a device or a pipe, which would never end."""
    require_regular(path.stat())
    with path.open("rb") as file:
        return file.read(size)


def describe_error(error: Exception) -> str:
    """What went wrong, as a part of a sentence."""
    return str(getattr(error, "strerror", None) or error)
