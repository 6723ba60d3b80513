"""Identifies processes on this computer, although process ids are reused."""

from __future__ import annotations

import os
from pathlib import Path

_STARTED = 19
"""The index, after the name of the program, of the start time in /proc/PID/stat."""


def start_time(process: int) -> int:
    """When a process began, -1 if it does not run. Without /proc it is 0 for every running process."""
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
    """The namespace of process ids, 0 if unknown: containers on one computer have different ones."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def boot_id() -> str:
    """The id of the computer's current boot, or an empty string."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
