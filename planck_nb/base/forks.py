"""What a forked process does with objects that belong to its parent."""

from __future__ import annotations

import ctypes


def never_destroy(value: object) -> None:
    """Keep an object for as long as the process runs, and do not destroy it at the end either.

    In a forked process, a destructor may wait for threads or locks that do not exist there, or end a connection that
    the parent uses.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
