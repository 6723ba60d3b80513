"""Shows what tools print in their calls, instead of below the view of the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from planck_nb.agent.calling.progress import running_call

_STREAMS = ("stdout", "stderr")


class _Stream:
    """A stream that passes what a tool writes to its call, and everything else to the stream in whose place it is."""

    def __init__(self, original: TextIO) -> None:
        self.original = original

    def write(self, text: str) -> int:
        call = running_call()
        if call is None or not isinstance(text, str):
            return self.original.write(text)
        call(str(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the stream
        return getattr(self.original, name)


_active = 0
_routed: dict[str, _Stream] = {}


@contextmanager
def prints_in_calls() -> Iterator[None]:
    """In this block, and while another one lasts, what tools print is output of their calls."""
    global _active  # noqa: PLW0603 - the streams of a process are global, too
    with ExitStack() as stack:
        _active += 1
        stack.callback(_leave)
        if _active == 1:
            for name in _STREAMS:
                _routed[name] = _Stream(getattr(sys, name))
                setattr(sys, name, _routed[name])
        yield


def _leave() -> None:
    global _active  # noqa: PLW0603
    _active -= 1
    if _active:
        return
    for name, stream in _routed.items():
        if getattr(sys, name) is stream:  # else other code has put its own there, which may use this one
            setattr(sys, name, stream.original)
    _routed.clear()
