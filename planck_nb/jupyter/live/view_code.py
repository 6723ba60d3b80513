"""The live view's code, which a page gets once.

Each view contains only a loader which requests it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parents[1] / "static"
_DIGEST_CHARACTERS = 12

LOADER = _STATIC / "loader.js"
"""Every view's anywidget module."""


@cache
def code_of(file: str) -> bytes | None:
    """Return the file which the loader, or the code itself, requests.

    Args:
        file: The file's name and digest, as `labextension/build.py` writes them into the requesting files.

    Returns:
        An ES module; None for an unknown file or another version.
    """
    name, _, digest = file.rpartition("-")
    path = _STATIC / f"{name}.js"
    if path not in _STATIC.glob("*.js"):  # a message from the browser, so it may be anything
        return None
    code = _read(path)
    return code if hashlib.sha256(code).hexdigest()[:_DIGEST_CHARACTERS] == digest else None


class FirstCode:
    """The views' code, for the kernel's first view.

    That view brings it along, because the kernel may soon be busy.
    """

    def __init__(self) -> None:
        self._taken = False

    def take(self) -> bytes:
        """Return the code the first time, and later an empty one."""
        first, self._taken = not self._taken, True
        return _read(_STATIC / "live.js") if first else b""


def _read(path: Path) -> bytes:
    """Return the built file, whatever line endings a checkout has."""
    return path.read_bytes().replace(b"\r\n", b"\n")
