"""End the user's code which blocks the loop after an interrupt (■).

ipykernel handles an interrupt on the kernel's event loop, so it waits while an async tool computes or calls a blocking
function (https://github.com/ipython/ipykernel/issues/1239). A thread learns about the interrupt from the signals'
wakeup file, which is written even while C code runs. If the loop does not turn for a second, it sends a second signal,
in whose handler the main thread raises an exception: only in a user's function, never in ipykernel or in this package.
The second signal is not SIGINT, whose handler ipykernel changes all the time: a late one must be harmless.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import socket
import sys
import threading
import time
from asyncio.events import Handle
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from planck_nb.agent.calling.progress import running_call
from planck_nb.agent.calling.user_code import UserInterrupt, is_marked, is_observer
from planck_nb.base.event_loops import running_loop
from planck_nb.base.forks import call_in_forks
from planck_nb.base.programs import is_installed
from planck_nb.jupyter.ipython.compat import idle_loop

_PATIENCE = 1.0
"""Seconds after an interrupt in which code may end by its cancellation."""

_PATIENCE_LATER = 0.2
"""The same, for code that begins after other code was interrupted."""

_CANCELLING = 1.0
"""Seconds in which an interrupt reaches its task, unless the cell ends."""

_BETWEEN_TRIES = 0.02
"""Seconds between two looks for the user's code."""

_CLEANING_UP = 3.0
"""Seconds that interrupted code has to end before it is interrupted again."""

_SILENCE = 1.5
"""Seconds without an answer to the second signal until the user hears."""

_SIGNAL: int = getattr(signal, "SIGURG", signal.SIGABRT)
"""The second signal.

SIGURG is ignored by default. Windows does not have it, and only simulates the other one.
"""

_PACKAGE = "planck_nb"
_PASSED = ("planck_nb.agent.calling.", "planck_nb.agent.context.compactor")
"""This package's modules between a marked function and the user's code."""

_NOT_PASSED = "planck_nb.agent.calling.progress"
_STEPS = frozenset({"__step", "__step_run_and_handle_result", "__wakeup"})
"""A task's methods between the callback and its coroutine.

They have frames if they are in Python, as with nest_asyncio2.
"""

_NEVER = frozenset({"asyncio", "ipykernel", "jupyter_client", "nest_asyncio2", "tornado", "zmq"})
"""Packages whose code is never interrupted."""

_CALLBACK = Handle._run.__code__  # noqa: SLF001 - the frame below each task and callback in a loop


def interruption(frame: FrameType | None, *, is_ours: bool) -> BaseException | None:
    """Return the exception to raise in the main thread's frame.

    Args:
        frame: The frame.
        is_ours: Whether the running task belongs to a tool call or reads events.

    Returns:
        The exception; None if the frame must not be interrupted.
    """
    base, has_user_code = None, False
    while frame is not None:
        if is_marked(frame.f_code):
            return UserInterrupt() if has_user_code else None
        if frame.f_code is _CALLBACK:  # a task which the user's function has started, or which observes agents
            return asyncio.CancelledError() if is_ours and _is_coroutine_of_user(base) else None
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if module == "asyncio.tasks" and frame.f_code.co_name in _STEPS:
            frame = frame.f_back
            continue
        if package in _NEVER or (package == _PACKAGE and not _is_passed(module)):
            return None
        has_user_code = has_user_code or package != _PACKAGE
        base, frame = frame, frame.f_back
    return None


def interruption_here(frame: FrameType | None) -> BaseException | None:
    """Return the exception to raise in a signal handler.

    The handler runs in the interrupted task's context.

    Args:
        frame: The interrupted frame.
    """
    call = running_call()
    error = interruption(frame, is_ours=call is not None or is_observer())
    if call is not None and error is not None:
        call.is_stopped = True
    return error


def _is_passed(module: str) -> bool:
    return module.startswith(_PASSED) and module != _NOT_PASSED


def _is_coroutine_of_user(frame: FrameType | None) -> bool:
    if frame is None or not frame.f_code.co_flags & inspect.CO_COROUTINE:
        return False  # an exception in a plain callback is not a task's
    return not is_installed(frame.f_code.co_filename)


class BlockedLoop:
    """Watches for one kernel's interrupts.

    Args:
        kernel: The shell's kernel, an `ipykernel.kernelbase.Kernel`.
    """

    def __init__(self, kernel: Any) -> None:  # noqa: ANN401 - ipykernel has no types
        self._kernel = kernel
        self._before: Any = None
        self._hooks: list[Callable[[], None]] = []
        self._requests = self._watched = 0
        """Number of requests, such as cells, begun or ended.

        The other number is the one at the newest interrupt.
        """
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main = threading.main_thread().ident or 0
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None
        self._reply: bool | None = None
        """True if the newest second signal has raised an exception.

        None until it was handled.
        """

    def install(self) -> None:
        """Begin to watch.

        Only the main thread handles signals; in another one, this returns at once.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        if not _set_wakeup(writer.fileno()):
            reader.close()
            writer.close()
            return
        self._loop = running_loop() or idle_loop()
        self._reader, self._writer = reader, writer
        self._before = signal.signal(_SIGNAL, self._interrupt)
        self._hooks = [self._kernel.pre_handler_hook, self._kernel.post_handler_hook]
        self._kernel.pre_handler_hook = self._begin_request
        self._kernel.post_handler_hook = self._end_request
        _wakeup_files.add(writer.fileno())
        threading.Thread(target=self._serve, args=(reader,), name="planck-interrupts", daemon=True).start()

    def remove(self) -> None:
        """Undo `install`."""
        if self._reader is None or self._writer is None:
            return
        if self._kernel.post_handler_hook == self._end_request:
            self._kernel.pre_handler_hook, self._kernel.post_handler_hook = self._hooks
        _forget_wakeup()
        _wakeup_files.discard(self._writer.fileno())
        signal.signal(_SIGNAL, signal.SIG_DFL if self._before is None else self._before)
        self._writer.close()
        self._reader = self._writer = None

    def _begin_request(self) -> None:
        self._requests += 1
        self._hooks[0]()

    def _end_request(self) -> None:
        """Let the kernel restore its handler, and hear interrupts between cells.

        Runs may be in the background.
        """
        self._requests += 1
        self._hooks[1]()
        if threading.current_thread() is not threading.main_thread() or self._writer is None:
            return
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, _ignore)
        _set_wakeup(self._writer.fileno())

    def _serve(self, reader: socket.socket) -> None:
        with reader:
            while numbers := reader.recv(4_096):
                if signal.SIGINT in numbers:
                    self._watch()

    def _watch(self) -> None:
        """Interrupt blocking code until the interrupt (■) has reached its task.

        Such code keeps the loop from turning. The task is cancelled some turns later, so the user's code may block the
        loop again before.
        """
        patience, until = _PATIENCE, 0.0
        self._watched = self._requests
        while True:
            turn = threading.Event()
            try:
                assert self._loop is not None  # noqa: S101 - for the type checker
                self._loop.call_soon_threadsafe(turn.set)
            except RuntimeError:  # it is closed
                return
            if self._interrupt_until(turn, patience):
                patience, until = _PATIENCE_LATER, time.monotonic() + _CANCELLING
            if time.monotonic() > until or self._requests != self._watched:
                return
            time.sleep(_BETWEEN_TRIES)

    def _interrupt_until(self, turn: threading.Event, patience: float) -> bool:
        """Interrupt the user's code until the loop turns.

        Returns:
            Whether there was any such code.
        """
        pause, sending_time, has_told, is_done = patience, 0.0, False, False
        while not turn.wait(pause) and self._requests == self._watched:
            pause = _BETWEEN_TRIES
            if sending_time and self._reply is None:
                if not has_told and time.monotonic() - sending_time > _SILENCE:
                    has_told = True
                    self._tell()
            elif sending_time and self._reply:
                pause, sending_time, is_done = _CLEANING_UP, 0.0, True
            elif interruption(sys._current_frames().get(self._main), is_ours=True) is not None:  # noqa: SLF001 - the way
                self._reply, sending_time = None, time.monotonic()
                _send(self._main)
        return is_done or bool(sending_time and self._reply)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle the second signal: raise in the user's code."""
        if callable(self._before):
            self._before(number, frame)
        error = interruption_here(frame) if self._requests == self._watched else None
        self._reply = error is not None
        if error is not None:
            raise error

    def _tell(self) -> None:
        """Say in the cell why an interrupt has to wait."""
        frame = sys._current_frames().get(self._main)  # noqa: SLF001 - as above
        name = "A function" if frame is None else f"`{frame.f_code.co_name}`"
        print(  # noqa: T201 - a line in the cell's output
            f"{name} runs code which Python cannot interrupt; it is stopped when that code returns.",
            file=sys.stderr,
            flush=True,
        )


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore an interrupt, like SIG_IGN, but let the wakeup file hear it."""


def _set_wakeup(descriptor: int) -> bool:
    """Make this the signals' wakeup file, unless another one is used."""
    before = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    if before in (-1, descriptor):
        return True
    signal.set_wakeup_fd(before)
    return False


_wakeup_files: set[int] = set()
"""This module's wakeup files."""


def _forget_wakeup() -> None:
    """Stop writing signals to the wakeup file.

    In a forked process, it is the parent's.
    """
    with suppress(ValueError):  # not in the main thread
        current = signal.set_wakeup_fd(-1)
        if current not in _wakeup_files:
            signal.set_wakeup_fd(current)


call_in_forks(_forget_wakeup)


def _send(thread: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, _SIGNAL)
    else:
        import _thread  # noqa: PLC0415 - Windows only

        _thread.interrupt_main(signal.Signals(_SIGNAL))
