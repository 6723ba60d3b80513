"""What a forked process does with the objects that it inherits from its parent."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakSet

_T = TypeVar("_T")


def call_in_forks(function: Callable[[], object]) -> None:
    """Call a function in every process that this one forks; where processes cannot fork, do nothing.

    The function must not take a lock: one that another thread held at the fork stays locked.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def forget_in_forks(objects: WeakSet[_T], forget: Callable[[_T], object]) -> None:
    """Call `forget` with each of the objects in every process that this one forks."""

    def forget_all() -> None:
        for each in list(objects):
            forget(each)

    call_in_forks(forget_all)


def never_destroy(value: object) -> None:
    """Keep an object for as long as the process runs, and do not destroy it at the end either.

    In a forked process, a destructor may wait for threads or locks that do not exist there, or end a connection that
    the parent uses.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
