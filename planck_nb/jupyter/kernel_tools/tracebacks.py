"""Tracebacks for a model: without the frames of this package and of IPython, without colours, of limited size."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import IPython

from planck_nb.base.secrets import around_secret
from planck_nb.base.text import head_and_tail

MAX_CHARACTERS = 8_000
MAX_LINES = 120

_PACKAGE = Path(__file__).parents[2]
_HIDDEN = tuple(f"{folder}{os.sep}" for folder in (_PACKAGE, Path(IPython.__file__).parent))


def error_text(error: BaseException) -> str:
    """Return the class of an error and what it says. It runs the error's own code."""
    return "".join(traceback.TracebackException(type(error), error, None).format_exception_only()).rstrip()


def short_traceback(error: BaseException, name_of: Callable[[str], str] = str) -> str:
    """Return the traceback of an error and of those that it comes from. It runs the error's own code.

    Args:
        error: The error.
        name_of: Returns the name to show for the file of a cell.

    Returns:
        The traceback. Of a long one the beginning and the end are kept.
    """
    whole = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    for part in _parts(whole):
        frames = [frame for frame in part.stack if not frame.filename.startswith(_HIDDEN)]
        for frame in frames:
            frame.filename = name_of(frame.filename)
        part.stack = traceback.StackSummary.from_list(frames)
        if getattr(part, "filename", None):  # a syntax error's own file, which is in no frame
            part.filename = name_of(part.filename)
    return head_and_tail(
        "".join(whole.format()).rstrip(), characters=MAX_CHARACTERS, lines=MAX_LINES, around=around_secret
    )


def _parts(whole: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting, seen = [whole], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        inner = (part.__cause__, part.__context__, *(part.exceptions or ()))
        waiting += [each for each in inner if each is not None]
