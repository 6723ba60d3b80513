"""The state of the kernel around the code of one call: what the code changes for itself does not stay.

The block must not await. What the code is to find again after an await, such as a stream instead of `sys.stdout`,
is put in place again in the next block.
"""

from __future__ import annotations

import builtins
import getpass
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn, TypeVar

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.agent.calling.images import image_of
from planck_nb.ai.messages import ImagePart
from planck_nb.jupyter.kernel_tools.captured_output import CapturedOutput
from planck_nb.jupyter.kernel_tools.name_changes import NameTracker
from planck_nb.jupyter.kernel_tools.tracebacks import short_traceback

T = TypeVar("T")

NO_INPUT = "input() cannot be used in run_python, because nobody is asked; write the value into the code."
NO_HIDDEN_INPUT = "getpass() cannot be used in run_python, because nobody is asked; let the user assign the value."
NO_DEBUGGER = "breakpoint() cannot be used in run_python, because nobody is asked; print what you need."
NO_CELL = "A cell cannot be run inside of run_python; write its code into the call."
NO_MAGIC = "%planck cannot be used in run_python; use the tools for agents instead."
NO_RESET = "The namespace cannot be reset in run_python; use `del` for single names."
NO_EXIT = "exit() does nothing in run_python; the kernel goes on."

_FIGURES = "matplotlib._pylab_helpers"
_INLINE = "matplotlib_inline.backend_inline"


class Surroundings:
    """What the code of one call finds around it.

    Args:
        shell: The shell.
        output: Gets what is shown.
        names: Notes which variables change.
    """

    def __init__(self, shell: InteractiveShell, output: CapturedOutput, names: NameTracker) -> None:
        self._shell = shell
        self._output = output
        self._names = names
        self.figures = OwnFigures()
        self._streams = (sys.stdout, sys.stderr)
        self._depth = 0

    @contextmanager
    def current(self) -> Iterator[None]:
        """Let the code of the block find these surroundings, and restore the others after it."""
        if self._depth:  # the code runs an event loop, with tasks of the call
            yield
            return
        self._depth += 1
        try:
            with ExitStack() as stack:
                stack.enter_context(self._shell.builtin_trap)
                stack.enter_context(_own_hooks())
                stack.enter_context(self._own_streams())
                stack.enter_context(self._own_methods())
                stack.enter_context(self._no_payload())
                stack.enter_context(self.figures.current())
                stack.enter_context(self._tracked())
                yield
        finally:
            self._depth -= 1

    @contextmanager
    def _tracked(self) -> Iterator[None]:
        snapshot = self._names.snapshot()
        count = self._shell.execution_count
        try:
            yield
        finally:
            self._names.compare(snapshot)
            if self._shell.execution_count != count:
                self._shell.execution_count = count

    @contextmanager
    def _own_streams(self) -> Iterator[None]:
        others = (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = self._streams
        try:
            yield
        finally:
            self._streams = (sys.stdout, sys.stderr)
            sys.stdout, sys.stderr = others

    @contextmanager
    def _own_methods(self) -> Iterator[None]:
        """Replace what would end the kernel, run a cell, or write below the cell instead of into the call."""
        shell: Any = self._shell
        own: dict[str, Callable[..., Any]] = {
            "ask_exit": _raising(SystemExit, NO_EXIT),
            "reset": _raising(RuntimeError, NO_RESET),
            "run_cell": _raising(RuntimeError, NO_CELL),
            "run_cell_async": _raising(RuntimeError, NO_CELL),
            "showtraceback": self._show_traceback,
            "showsyntaxerror": self._show_traceback,
        }
        before = {name: vars(shell).get(name) for name in own}
        for name, method in own.items():
            setattr(shell, name, method)
        try:
            yield
        finally:
            for name, method_before in before.items():
                if method_before is not None:
                    setattr(shell, name, method_before)
                elif name in vars(shell):
                    delattr(shell, name)

    @contextmanager
    def _no_payload(self) -> Iterator[None]:
        """Show what would open in the pager, and let the code neither replace the cell nor add one."""
        manager: Any = self._shell.payload_manager
        before = list(manager.read_payload())
        try:
            yield
        finally:
            added = [each for each in manager.read_payload() if not any(each is other for other in before)]
            if added:
                manager.clear_payload()
                for payload in before:
                    manager.write_payload(payload, single=False)
            for payload in added:
                if payload.get("source") == "page" and isinstance(payload.get("data"), dict):
                    self._output.display(payload["data"])

    def _show_traceback(self, exc_tuple: Any = None, *_args: object, **_options: object) -> None:  # noqa: ANN401
        error = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
        if isinstance(error, BaseException):
            self._output.show(short_traceback(error))


class OwnFigures:
    """The open figures of one call.

    Matplotlib keeps the open figures of the whole process. While code of the call runs, it sees those of the call only.
    Matplotlib is not imported here.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[Any, Any] = OrderedDict()
        self._to_draw: tuple[list[Any], bool] = ([], False)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Let the code in the block see and make only figures of this call."""
        others = _exchange(self._open)
        to_draw = _exchange_drawing(self._to_draw)
        try:
            yield
        finally:
            # Matplotlib may have been imported in the block; then there were no others.
            self._open = _exchange(OrderedDict() if others is None else others) or OrderedDict()
            self._to_draw = _exchange_drawing(to_draw or ([], False)) or ([], False)

    def close_all(self, *, shown: object = None) -> Iterator[ImagePart]:
        """Draw the open figures and close them. Call it inside `current`.

        Args:
            shown: A figure that was shown already, and is only closed.

        Yields:
            The figures as images. Drawing may run the user's code, and raise what that raises.
        """
        figures = _figures()
        if figures is None or not figures:
            return
        try:
            for manager in list(figures.values()):
                if manager.canvas.figure is not shown:
                    image = image_of(manager.canvas.figure)
                    if image is not None:
                        yield image
        finally:
            sys.modules[_FIGURES].Gcf.destroy_all()

    @staticmethod
    def discard() -> None:
        """Close the open figures. Call it inside `current`."""
        if _figures():
            sys.modules[_FIGURES].Gcf.destroy_all()


def _figures() -> OrderedDict[Any, Any] | None:
    module = sys.modules.get(_FIGURES)
    return None if module is None else module.Gcf.figs


def _exchange(figures: OrderedDict[Any, Any]) -> OrderedDict[Any, Any] | None:
    """Make these the open figures. Returns the previous ones, None without Matplotlib."""
    module = sys.modules.get(_FIGURES)
    if module is None or not hasattr(module, "Gcf"):  # its import was interrupted
        return None
    before: OrderedDict[Any, Any] = module.Gcf.figs
    module.Gcf.figs = figures
    return before


def _exchange_drawing(state: tuple[list[Any], bool]) -> tuple[list[Any], bool] | None:
    """Exchange what the inline backend is going to draw when the cell ends."""
    show = getattr(sys.modules.get(_INLINE), "show", None)
    if show is None:
        return None
    before = (show._to_draw, show._draw_called)  # noqa: SLF001 - the backend has no other way
    show._to_draw, show._draw_called = state  # noqa: SLF001
    return before


def with_own_builtins(work: Callable[[], T]) -> T:
    """Call code that can ask for no input; built-in names that it deletes or replaces are restored.

    Between the code and their restoration nothing is called that needs them.
    """
    names = vars(builtins)
    before = dict(names)
    names["input"] = _raising(RuntimeError, NO_INPUT)
    trace, set_trace = sys.gettrace(), sys.settrace
    try:
        return work()
    finally:
        set_trace(trace)  # a debugger would stop in this package next
        names.update(before)


@contextmanager
def _own_hooks() -> Iterator[None]:
    """Let the code ask for no password and start no debugger, which would ask the user; restore all hooks."""
    before = getpass.getpass, sys.breakpointhook, sys.displayhook, sys.excepthook
    getpass.getpass = _raising(RuntimeError, NO_HIDDEN_INPUT)
    sys.breakpointhook = _raising(RuntimeError, NO_DEBUGGER)
    try:
        yield
    finally:
        getpass.getpass, sys.breakpointhook, sys.displayhook, sys.excepthook = before


def _raising(kind: type[BaseException], sentence: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise kind(sentence)

    return refuse
