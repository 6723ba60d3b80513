"""Ends the sidecar soon after its client has gone, even if a tool blocks."""

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
"""Seconds that the server has to end in the usual way."""

_INTERVAL_MS = 1_000
"""How often systems that cannot report the end of a process are asked, in milliseconds."""


def end_now(code: int = 0) -> None:
    """End this process and everything that it started, without waiting for threads."""
    kill_all_groups()
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(code)


def end_with_client(end: Callable[[], None] = end_now) -> None:
    """End this process when standard input is closed or the parent process has ended. Call it before serving.

    Args:
        end: Called after `STOP_GRACE` seconds, unless the process has ended by then.
    """
    if not hasattr(select, "poll"):
        return  # without it, the end of standard input ends the server, unless a tool blocks
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
