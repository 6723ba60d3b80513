"""The sidecar's end soon after its client's, despite blocked tools."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from planck_nb.sidecars.author.process_groups import kill_all_groups

STOP_GRACE = 0.8
"""Seconds for the server's usual end."""

_INTERVAL_MS = 1_000
"""Interval for polling, in milliseconds.

It is for systems which cannot report a process's end.
"""


def end_now(code: int = 0) -> None:
    """End this process and everything started by it, without waiting for threads."""
    kill_all_groups()
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(code)


def end_with_client(end: Callable[[], None] = end_now) -> None:
    """End this process after its standard input or its parent.

    Call it before serving.

    Args:
        end: Called after `STOP_GRACE` seconds, unless the process has ended by then.
    """
    if not hasattr(select, "poll"):
        return  # the end of standard input then ends the server, unless a tool blocks
    poll = select.poll()
    poll.register(os.dup(0), 0)  # only the end of the other side is reported, whatever there is to read
    parent = os.getppid()
    interval: int | None = _INTERVAL_MS
    with suppress(AttributeError, OSError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
        interval = None

    def watch() -> None:
        while not poll.poll(interval) and os.getppid() == parent:
            pass
        time.sleep(STOP_GRACE)
        end()

    threading.Thread(target=watch, name="planck-parent", daemon=True).start()
