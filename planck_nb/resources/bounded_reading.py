"""Files that somebody else wrote: read within bounds, with names that a prompt can carry."""

from __future__ import annotations

import re
from pathlib import Path

from planck_nb.tools.file_access import require_regular

_UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line separators, and lone surrogates: how Python shows bytes of a name that are no UTF-8."""


def read_head(path: Path, size: int) -> bytes:
    """The first `size` bytes of a regular file. Raises OSError, also for a device or a pipe, which would never end."""
    require_regular(path.stat())
    with path.open("rb") as file:
        return file.read(size)


def is_showable(name: str) -> bool:
    """Whether the name stays on its line and can be sent to a model."""
    return _UNSHOWABLE.search(name) is None


def shown(text: object) -> str:
    """The text on one line, with single spaces, and without what `is_showable` refuses."""
    return " ".join(_UNSHOWABLE.sub(" ", str(text)).split())


def reason_of(error: Exception) -> str:
    """What went wrong, to stand in a sentence."""
    return str(getattr(error, "strerror", None) or error)
