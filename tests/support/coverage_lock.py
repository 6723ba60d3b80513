"""Lets coverage measure tests that interrupt threads.

Coverage has a lock that its tracers acquire and release by methods written in Python. An exception that interrupts a
thread is raised at a call of a Python function. Raised at the call that releases the lock, it leaves the lock locked,
and every thread that executes a new file waits for it without end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def use_methods_of_locks() -> None:
    """Have tracers of new threads call the methods of the lock, in which nothing can be raised."""
    try:
        from coverage.collector import Collector
    except ImportError:
        return

    def acquire(collector: Any) -> Callable[[], object]:
        return _nothing if collector.data_lock is None else collector.data_lock.acquire

    def release(collector: Any) -> Callable[[], object]:
        return _nothing if collector.data_lock is None else collector.data_lock.release

    Collector.lock_data = property(acquire)  # type: ignore[method-assign, assignment]
    Collector.unlock_data = property(release)  # type: ignore[method-assign, assignment]


def _nothing() -> None:
    pass
