"""Inherited objects in forked processes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakSet

_T = TypeVar("_T")


def call_in_forks(function: Callable[[], object]) -> None:
    """Call a function in every process which this one forks.

    Where processes cannot fork, this has no effect.

    The function must not take a lock: if another thread held it at the fork, it stays locked.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def forget_in_forks(objects: WeakSet[_T], forget: Callable[[_T], object]) -> None:
    """Call `forget` with each object in every process which this one forks."""

    def forget_all() -> None:
        for item in list(objects):
            forget(item)

    call_in_forks(forget_all)


def never_destroy(value: object) -> None:
    """Keep an object while the process runs, and spare its destructor.

    In a forked process, a destructor may wait for missing threads or locks, or end a connection which the parent uses.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
