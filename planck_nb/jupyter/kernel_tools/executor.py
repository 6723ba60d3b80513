"""Runs code in the kernel for an agent: in the notebook's namespace, on the main thread, with output of its own.

It is an executor of its own, because IPython's runs cells: it would renumber the cell that awaits the agent, take over
its history and output, and mix up two calls that run at once.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import itertools
import linecache
import threading
import tokenize
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.agent.calling.data_frames import table_text
from planck_nb.agent.calling.images import image_of
from planck_nb.agent.calling.previews import table_preview
from planck_nb.agent.preview_types import Preview
from planck_nb.ai.messages import ImagePart
from planck_nb.jupyter.kernel_tools.captured_output import CapturedOutput
from planck_nb.jupyter.kernel_tools.interrupts import StopSignal
from planck_nb.jupyter.kernel_tools.name_changes import NameTracker
from planck_nb.jupyter.kernel_tools.output_routing import OutputRouting, capture_in_context
from planck_nb.jupyter.kernel_tools.steps import Steps, running_steps, tasks_in_steps
from planck_nb.jupyter.kernel_tools.surroundings import Surroundings
from planck_nb.jupyter.kernel_tools.tracebacks import error_text, short_traceback

_PARTS = ("display_pub", "display_formatter", "displayhook", "compile", "payload_manager")

KEPT_SOURCES = 500
"""How many calls' lines are kept for tracebacks."""

_source_numbers = itertools.count(1)
_kept_sources: deque[str] = deque()


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a call.

    Args:
        text: What it printed and displayed, with the value of the last expression.
        images: What it drew.
        previews: The tables and the HTML that it displayed, as users see them.
        error: Why it failed, in a line; empty if it did not.
        traceback: Where it failed.
        interrupted: Whether the user has interrupted it.
        late: Whether it reached its time limit.
        before: The earlier values of the variables that it rebound or deleted.
        created: The names of the variables that it made.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    previews: tuple[Preview, ...] = ()
    error: str = ""
    traceback: str = ""
    interrupted: bool = False
    late: bool = False
    before: Mapping[str, object] = field(default_factory=dict, repr=False)
    created: frozenset[str] = frozenset()


class Executor:
    """Runs code in the namespace of a shell, one call after another.

    Args:
        shell: The shell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._routing = OutputRouting(shell)
        self._turn = asyncio.Lock()

    async def run(
        self,
        code: str,
        *,
        seconds: float,
        progress: Callable[[str], None],
        on_interrupt: Callable[[], None],
    ) -> CellResult:
        """Run code. Calls that are made at the same time run in the order in which they were made.

        Code that a call runs, such as that of an agent which it prompts, may make calls itself; these do not wait.

        Args:
            code: The code, as in a cell.
            seconds: How long it may take, counted from when it begins.
            progress: Called with what it prints.
            on_interrupt: Called in the signal handler when the user interrupts the code.

        Returns:
            The result.

        Raises:
            RuntimeError: This is not the main thread, which runs the notebook.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("Code runs in the kernel's main thread only.")
        if running_steps() is not None:
            return await self._run(code, seconds, progress, on_interrupt)
        async with self._turn:
            return await self._run(code, seconds, progress, on_interrupt)

    async def _run(
        self, code: str, seconds: float, progress: Callable[[str], None], on_interrupt: Callable[[], None]
    ) -> CellResult:
        output = CapturedOutput(progress)
        names = NameTracker(self._shell.user_ns)
        stop = StopSignal(on_interrupt)
        with self._parts_kept(), self._routing.active(), tasks_in_steps(asyncio.get_running_loop()):
            surroundings = Surroundings(self._shell, output, names)
            steps = Steps(stop, surroundings, lambda: capture_in_context(output))
            call = _Call(self._shell, code, steps, output, surroundings)
            stop.limit(seconds)
            error: BaseException | None = None
            try:
                async with asyncio.timeout(seconds) as limit:
                    await call.run()
            except BaseException as raised:  # of the user's code, or a cancellation
                task = asyncio.current_task()
                if isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise
                if isinstance(raised, GeneratorExit):
                    raise
                error = raised
                stop.late = stop.late or limit.expired()
            finally:
                described = _describe(steps, error)
                call.discard_figures()
                stop.end()
                steps.active = False
                output.closed = True
        return CellResult(
            output.text,
            output.images,
            output.previews,
            *described,
            interrupted=stop.interrupted,
            late=stop.late,
            before=names.before,
            created=frozenset(names.created),
        )

    @contextmanager
    def _parts_kept(self) -> Iterator[None]:
        """Restore the parts of the shell that code replaces and that the next call needs."""
        before = {name: getattr(self._shell, name) for name in _PARTS}
        try:
            yield
        finally:
            for name, part in before.items():
                if getattr(self._shell, name, None) is not part:
                    setattr(self._shell, name, part)


class _Call:
    def __init__(
        self,
        shell: InteractiveShell,
        code: str,
        steps: Steps,
        output: CapturedOutput,
        surroundings: Surroundings,
    ) -> None:
        self._shell = shell
        self._code = code
        self._steps = steps
        self._output = output
        self._figures = surroundings.figures

    async def run(self) -> None:
        """Compile and run the code, and show the value of its last expression and the figures that it has made."""
        await asyncio.sleep(0)  # an interrupt in the moment before cancels the call here: its code may never await
        with self._steps.stoppable():
            code = self._steps.call(compile_code, self._shell, self._code)
            value = None
            if code.body is not None:
                await self._evaluate(code.body)
            if code.last is not None:
                value = await self._evaluate(code.last)
            self._steps.call(self._show_results, value if code.shows_value else None)

    def discard_figures(self) -> None:
        """Close the figures that were not shown."""
        with suppress(BaseException):  # of the figures' own code
            self._steps.call(self._figures.discard)

    async def _evaluate(self, code: Any) -> Any:  # noqa: ANN401 - the value of an expression
        value = self._steps.call(eval, code, self._shell.user_global_ns, self._shell.user_ns)
        return await self._steps.run(value) if is_async(code) else value

    def _show_results(self, value: object) -> None:
        self._show(value)
        for image in self._figures.close_all(shown=value):
            self._output.show_image(image)

    def _show(self, value: object) -> None:
        if value is None:
            return
        if (table := table_text(value)) is not None:
            self._output.show(table, table_preview(value, table))
        elif _is_figure(value) and (image := image_of(value)) is not None:
            self._output.show_image(image)
        else:
            data, _metadata = self._shell.display_formatter.format(value)
            self._output.display(data)


def _is_figure(value: object) -> bool:
    return any((each.__module__, each.__name__) == ("matplotlib.figure", "Figure") for each in type(value).__mro__)


def _describe(steps: Steps, error: BaseException | None) -> tuple[str, str]:
    """An error in a line, and its traceback. The error's own code writes both, so it may be stopped as well."""
    if error is None:
        return "", ""
    try:
        return steps.call(error_text, error), steps.call(short_traceback, error)
    except BaseException:  # noqa: BLE001 - the error's own code
        return type(error).__name__, ""


@dataclass(frozen=True, slots=True)
class UserCode:
    """Compiled code.

    Args:
        body: All statements but a last expression; None if there are none.
        last: The last expression, whose value is shown; None if there is none.
        shows_value: Whether the value of the last expression is shown: not if the code ends with a semicolon.
    """

    body: CodeType | None
    last: CodeType | None
    shows_value: bool


def compile_code(shell: InteractiveShell, code: str) -> UserCode:
    """Compile code with magics and `await`.

    This is as IPython does it for a cell, without anything of the cell: no number, no history, no flags that stay.

    Args:
        shell: The shell, whose input transformers are used.
        code: The code.

    Returns:
        The compiled code.

    Raises:
        SyntaxError: It is not valid Python.
    """
    source = shell.transform_cell(code)
    name = f"<run_python {next(_source_numbers)}>"
    flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    _kept_sources.append(name)
    while len(_kept_sources) > KEPT_SOURCES:
        linecache.cache.pop(_kept_sources.popleft(), None)
    tree = compile(source, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)  # noqa: S101 - for the type checker
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # The flags of a `from __future__` import apply to the last expression, too.
    body = compile(tree, name, "exec", flags, dont_inherit=True) if tree.body else None
    future = 0 if body is None else body.co_flags & _FUTURES
    value = None
    if isinstance(last, ast.Expr):
        value = compile(ast.Expression(last.value), name, "eval", flags | future, dont_inherit=True)
    return UserCode(body, value, not _ends_with_semicolon(source))


def is_async(code: CodeType) -> bool:
    """Return whether evaluating the code returns a coroutine."""
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _future_flags() -> int:
    import __future__  # noqa: PLC0415 - a name that looks like a statement

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


_FUTURES = _future_flags()


def _ends_with_semicolon(source: str) -> bool:
    ignored = {tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER, tokenize.DEDENT}
    try:
        tokens = [each for each in tokenize.generate_tokens(io.StringIO(source).readline) if each.type not in ignored]
    except (tokenize.TokenError, SyntaxError):
        return False
    return bool(tokens) and tokens[-1].string == ";"
