"""End a scratch kernel and delete its folder, also after a kill.

Run by path, with the standard library only: `python scratch_watch.py FOLDER`. Standard input has the ids of process
groups, one a line, and ends with the kernel that holds its other end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

_ATTEMPTS = 20
_PAUSE = 0.1


def _watch(folder: str) -> None:
    groups = [int(line) for line in sys.stdin]
    if sys.platform != "win32":
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
    for _ in range(_ATTEMPTS):  # what is about to end may still write
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(_PAUSE)


if __name__ == "__main__":
    _watch(sys.argv[1])
