"""Names for a sidecar's offers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from planck_nb.base.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")
"""Shorter than tool names, because a prefix precedes it."""


def name_of(function: Callable[..., Any], given: str | None, kind: str) -> str:
    """Return a compactor's or an observer's name.

    Args:
        function: Its function.
        given: The author's name for it, if any.
        kind: Its kind, for the error message.

    Raises:
        UsageError: If the name has characters which tool names cannot have.
    """
    name = str(given or getattr(function, "__name__", type(function).__name__))
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of {kind}: use up to 48 letters, digits, _ and -.")
    return name
