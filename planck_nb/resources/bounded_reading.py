"""Reading files of unknown origin: bounded in size, with names that are safe in a prompt."""

from __future__ import annotations

import re
from pathlib import Path

from planck_nb.tools.no_links import require_regular

FOREIGN_HINT = "copy it to a folder of your own, or set PLANCK_NB_TRUST=1."
"""The end of a sentence about a text that another user may have written."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line separators, and lone surrogates, which stand for bytes of a name that are not UTF-8."""


def read_head(path: Path, size: int) -> bytes:
    """The first `size` bytes of a regular file. Raises OSError, also for a device or a pipe, which would never end."""
    require_regular(path.stat())
    with path.open("rb") as file:
        return file.read(size)


def is_printable(name: str) -> bool:
    """Whether the name is on one line and can be sent to a model."""
    return _UNPRINTABLE.search(name) is None


def printable(text: object) -> str:
    """The text on one line, with single spaces, and without the characters that `is_printable` rejects."""
    return " ".join(_UNPRINTABLE.sub(" ", str(text)).split())


def describe_error(error: Exception) -> str:
    """What went wrong, as a part of a sentence."""
    return str(getattr(error, "strerror", None) or error)


def foreign_sentence(path: Path, reason: str) -> str:
    """A sentence about a text that is not used for this reason."""
    return f"{printable(path)} is not used because {printable(reason)}; {FOREIGN_HINT}"
