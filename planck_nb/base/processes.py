"""Identifies processes on this computer, although process ids are reused."""

from __future__ import annotations

import os
from pathlib import Path

_STARTED = 19
"""Index of the start time in /proc/PID/stat, after the program name."""


def start_time(process: int) -> int:
    """Return a process's start time, -1 if it does not run.

    Without /proc it is 0 for every running process.
    """
    try:
        if not Path("/proc/self/stat").exists():
            os.kill(process, 0)
            return 0
        return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[_STARTED])
    except PermissionError:
        return 0
    except (OSError, OverflowError, ValueError, IndexError):
        return -1


def process_namespace() -> int:
    """Return the namespace for process ids, 0 if unknown.

    Containers on one computer have different ones.
    """
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def boot_id() -> str:
    """Return the id for the computer's current boot, or an empty string."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
