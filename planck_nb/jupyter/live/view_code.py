"""The code of the live view, which a page gets once: each view contains only a loader that requests it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parents[1] / "static"
_DIGEST_CHARACTERS = 12

LOADER = _STATIC / "loader.js"
"""The anywidget module of every view."""


@cache
def code_of(file: str) -> bytes | None:
    """Return the file that the loader, or the code itself, requests.

    Args:
        file: The name of the file and the digest of its contents, as `labextension/build.py` writes them into the
            files that request it.

    Returns:
        An ES module; None if there is no such file, or another version of it.
    """
    name, _, digest = file.rpartition("-")
    path = _STATIC / f"{name}.js"
    if path not in _STATIC.glob("*.js"):  # a message of the browser, so it may be anything
        return None
    code = _read(path)
    return code if hashlib.sha256(code).hexdigest()[:_DIGEST_CHARACTERS] == digest else None


class FirstCode:
    """The code of the views, once: the first view of a kernel brings it along, because the kernel may soon be busy."""

    def __init__(self) -> None:
        self._taken = False

    def take(self) -> bytes:
        """Return the code the first time, and nothing from then on."""
        first, self._taken = not self._taken, True
        return _read(_STATIC / "live.js") if first else b""


def _read(path: Path) -> bytes:
    """The contents as they were built, whatever ends the lines of a checkout."""
    return path.read_bytes().replace(b"\r\n", b"\n")
