"""Loads in the background what the first prompt needs, so that the prompt does not wait for it."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from planck_nb.agent.events import AgentStopped, encode_event
from planck_nb.ai.preload import preload
from planck_nb.base import markdown

_LAST_STEP = 2.0
"""Seconds that the end of the process, and a fork, wait for the step that is running."""

_step_lock = threading.RLock()
"""Held during a step. A fork waits for it, because the locks of a running import stay locked in a forked process."""


def _before_fork() -> None:
    _step_lock.acquire(timeout=_LAST_STEP)


def _after_fork() -> None:
    with suppress(RuntimeError):  # it was not acquired in time
        _step_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def first_prompt() -> Iterator[None]:
    """Load what the first prompt of a notebook needs; yields between steps."""
    yield from preload()
    encode_event(AgentStopped("", None, 0, 0, time.time()))
    yield
    markdown.to_html("*text*")


class WarmUp:
    """A thread that loads modules and then ends. An error in it is not reported: the prompt will raise it again.

    Args:
        steps: Makes the generator that does the work. It is stopped between two of its values at most.
    """

    def __init__(self, steps: Callable[[], Iterator[None]] = first_prompt) -> None:
        self._steps = steps
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="planck-warm-up", daemon=True)

    def start(self) -> None:
        """Start the thread. It is stopped when the interpreter ends."""
        atexit.register(self.close)
        self._thread.start()

    def stop(self) -> None:
        """Let no further step begin."""
        self._stopped.set()

    def close(self) -> None:
        """Stop the thread and wait for the step that is running: an interpreter must not end during an import."""
        self.stop()
        self._thread.join(_LAST_STEP)

    def _run(self) -> None:
        steps = self._steps()
        more = True
        while more and not self._stopped.is_set():
            with _step_lock:
                more = _step(steps)


def _step(steps: Iterator[None]) -> bool:
    """Do one step. Returns False if it was the last, or failed."""
    try:
        next(steps)
    except Exception:  # noqa: BLE001 - whatever is wrong, the first prompt raises it where it can be read
        return False
    return True
