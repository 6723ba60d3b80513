"""Runs the code of one call step by step: from each await to the next, with its own surroundings.

While the code awaits, everything else in the kernel finds the state that it knows: its streams, figures and handlers.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from traceback import walk_tb
from typing import Any

from planck_nb.jupyter.kernel_tools.interrupts import StopSignal
from planck_nb.jupyter.kernel_tools.surroundings import Surroundings, with_own_builtins

_UserCoroutine = Coroutine[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of one step: what it returned, or what the code awaits; or what it raised."""

    value: Any = None
    error: BaseException | None = None


_running: ContextVar[Steps | None] = ContextVar("planck_nb_run_python", default=None)


class Steps:
    """The steps of one call.

    Args:
        stop: Stops the code.
        surroundings: What the code finds around it.
        enter: Called first in the context of the code.
    """

    def __init__(self, stop: StopSignal, surroundings: Surroundings, enter: Callable[[], None]) -> None:
        self._stop = stop
        self._surroundings = surroundings
        self.active = True
        """Whether the call has not ended. Tasks that it leaves behind go on without its surroundings."""
        self._context = copy_context()
        self._context.run(enter)
        self._context.run(_running.set, self)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401 - what the function returns
        """Call a function of the user's code in one step. Raises what it raises."""
        outcome = self._step(partial(function, *args), None, self._context)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def run(self, coroutine: _UserCoroutine) -> Any:  # noqa: ANN401
        """Run a coroutine of the user's code in several steps. Raises what it raises."""
        return await _drive(
            coroutine, lambda resume, instead: self._step(resume, instead, self._context), self._stop.released
        )

    def stoppable(self) -> AbstractContextManager[None]:
        """Return a context for several calls and runs, between which no interrupt is lost."""
        return self._stop.handled()

    async def run_child(self, coroutine: _UserCoroutine) -> Any:  # noqa: ANN401
        """Run a coroutine in a task that the code of the call has started."""
        try:
            return await _drive(coroutine, lambda resume, instead: self._step(resume, instead, None), nullcontext)
        except (KeyboardInterrupt, SystemExit) as error:  # from a task they would end the kernel
            if self._stop.interrupted or self._stop.late:
                raise asyncio.CancelledError from error
            raise RuntimeError(f"{type(error).__name__} was raised in a task.") from error

    def _step(self, resume: Callable[[], Any], instead: Callable[[], Any] | None, context: Context | None) -> _Outcome:
        """Run code until it awaits, returns or raises; `instead` is called if it was interrupted before it began."""
        work = resume if context is None else partial(context.run, resume)
        if not self.active:
            return _outcome(work)
        if instead is not None and context is not None:
            instead = partial(context.run, instead)
        with self._surroundings.current(), self._stop.handled():
            return _outcome(lambda: with_own_builtins(lambda: self._stop.call(work, instead=instead)))


def running_steps() -> Steps | None:
    """Return the call whose code runs here, or has started what runs here; None if there is none or it has ended."""
    steps = _running.get()
    return steps if steps is not None and steps.active else None


@contextmanager
def tasks_in_steps(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Run the tasks that the code of a call starts in the block step by step, too."""
    before = loop.get_task_factory()

    def create(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:  # noqa: ANN401
        context: Context | None = options.get("context")
        steps = _running.get() if context is None else context.get(_running)
        inner = None
        if steps is not None and steps.active and asyncio.iscoroutine(coroutine):
            inner, coroutine = coroutine, steps.run_child(coroutine)
        task = asyncio.Task(coroutine, loop=loop, **options) if before is None else before(loop, coroutine, **options)
        if inner is not None:
            task.add_done_callback(lambda _task: inner.close())  # it may have been cancelled before it began
        return task

    loop.set_task_factory(create)
    try:
        yield
    finally:
        if loop.get_task_factory() is create:
            loop.set_task_factory(before)


@types.coroutine
def _drive(
    coroutine: _UserCoroutine,
    step: Callable[[Callable[[], Any], Callable[[], Any]], _Outcome],
    awaiting: Callable[[], AbstractContextManager[None]],
) -> Generator[Any, Any, Any]:
    """Run a coroutine, each part between two awaits with `step`, and each await within the context `awaiting`."""
    resume: Callable[[], Any] = partial(coroutine.send, None)
    interrupt: Callable[[], Any] = partial(coroutine.throw, KeyboardInterrupt())
    while True:
        outcome = step(resume, interrupt)
        if isinstance(outcome.error, StopIteration):
            if _is_raised_by(coroutine, outcome.error):
                raise RuntimeError("coroutine raised StopIteration") from outcome.error
            return outcome.error.value
        if outcome.error is not None:
            raise outcome.error
        try:
            with awaiting():
                sent = yield outcome.value
        except GeneratorExit:
            step(coroutine.close, coroutine.close)
            raise
        except BaseException as error:  # noqa: BLE001 - a cancellation, mostly; the code decides what it does then
            resume = partial(coroutine.throw, error)
        else:
            resume = partial(coroutine.send, sent)


def _is_raised_by(coroutine: _UserCoroutine, error: StopIteration) -> bool:
    """Whether the code raised the error instead of returning: from Python 3.12 on, a cell can raise `StopIteration`."""
    code = getattr(coroutine, "cr_code", None)
    return any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))


def _outcome(work: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(work())
    except GeneratorExit as error:  # raised by the code, not by closing one of our coroutines
        wrapped = RuntimeError("The code raised GeneratorExit.")
        wrapped.__cause__ = error
        return _Outcome(error=wrapped)
    except BaseException as error:  # noqa: BLE001 - the user's code raises anything
        return _Outcome(error=error)
