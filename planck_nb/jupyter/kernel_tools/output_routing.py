"""Sends what a call prints and displays to the call, and leaves the output of all other code where it was.

The call is found by a context variable, so that tasks and threads that were started with a copy of the call's context
belong to it, and the other tasks of the event loop do not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.agent.calling.previews import table_preview
from planck_nb.jupyter.kernel_tools.captured_output import CapturedOutput
from planck_nb.jupyter.routed_stream import RoutedStream

_output: ContextVar[CapturedOutput | None] = ContextVar("planck_nb_call_output", default=None)


def capture_in_context(output: CapturedOutput) -> None:
    """From now on, what the current context prints and displays is the output of a call."""
    _output.set(output)


def _current() -> CapturedOutput | None:
    output = _output.get()
    return None if output is None or output.closed else output


class _CallStream(RoutedStream):
    """A stream whose text goes to calls; others may stand in its place."""


def _writer() -> Callable[[str], None] | None:
    output = _current()
    return None if output is None else output.write


class OutputRouting:
    """Routes the output of a shell while calls run.

    Args:
        shell: The shell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._active = 0
        self._undo: list[Callable[[], None]] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        """Route output until the block, and all other such blocks, have ended."""
        if not self._active:
            self._undo = [_route("stdout"), _route("stderr"), self._route_displays(), self._route_formats()]
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            if not self._active:
                for undo in self._undo:
                    undo()

    def _route_displays(self) -> Callable[[], None]:
        publisher: Any = self._shell.display_pub
        before = {name: vars(publisher).get(name) for name in ("publish", "clear_output")}
        publish, clear = publisher.publish, publisher.clear_output

        def publish_routed(data: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as the publisher's
            output = _current()
            if output is None:
                return publish(data, *args, **options)
            transient = options.get("transient") or {}
            output.display(data, str(transient.get("display_id", "")), update=bool(options.get("update")))
            return None

        def clear_routed(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            output = _current()
            return clear(*args, **options) if output is None else output.clear()

        publisher.publish, publisher.clear_output = publish_routed, clear_routed
        return lambda: _restore(publisher, before)

    def _route_formats(self) -> Callable[[], None]:
        """Note the tables of data frames, which are no longer known when their representations are displayed."""
        formatter: Any = self._shell.display_formatter
        before = {"format": vars(formatter).get("format")}
        format_object = formatter.format

        def format_routed(value: object, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as the formatter's
            formatted = format_object(value, *args, **options)
            output = _current()
            if output is not None and formatted[0] and (table := table_preview(value, "")) is not None:
                output.note_table(formatted[0], table)
            return formatted

        formatter.format = format_routed
        return lambda: _restore(formatter, before)


def _restore(owner: object, methods: Mapping[str, object]) -> None:
    """Give an object the attributes that it had itself; None for one that only its class has."""
    for name, method in methods.items():
        if method is not None:
            setattr(owner, name, method)
        elif name in vars(owner):
            delattr(owner, name)


def _route(name: str) -> Callable[[], None]:
    original = getattr(sys, name)
    if isinstance(original, _CallStream):  # code that ran meanwhile has put it back
        return lambda: None
    routed = _CallStream(original, _writer)
    setattr(sys, name, routed)

    def undo() -> None:
        if getattr(sys, name) is routed:
            setattr(sys, name, original)

    return undo
