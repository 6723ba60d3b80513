"""The names of what a sidecar offers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from planck_nb.base.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")
"""Shorter than the names of tools, because a prefix precedes it."""


def name_of(function: Callable[..., Any], given: str | None, kind: str) -> str:
    """Return the name of a compactor or an observer.

    Args:
        function: Its function.
        given: The name that the author has given, if any.
        kind: What it is, for the error message.

    Raises:
        UsageError: If the name has characters that names of tools cannot have.
    """
    name = str(given or getattr(function, "__name__", type(function).__name__))
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of {kind}: use up to 48 letters, digits, _ and -.")
    return name
