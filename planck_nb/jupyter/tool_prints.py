"""Shows what tools print in their calls, instead of below the view of the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from planck_nb.agent.calling.progress import running_call
from planck_nb.jupyter.routed_stream import RoutedStream

_STREAMS = ("stdout", "stderr")


_active = 0
_routed: dict[str, RoutedStream] = {}


@contextmanager
def prints_in_calls() -> Iterator[None]:
    """In this block, and while another one lasts, what tools print is output of their calls."""
    global _active  # noqa: PLW0603 - the streams of a process are global, too
    with ExitStack() as stack:
        _active += 1
        stack.callback(_leave)
        if _active == 1:
            for name in _STREAMS:
                _routed[name] = RoutedStream(getattr(sys, name), running_call)
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
