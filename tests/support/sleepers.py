"""Commands that sleep for long, which a test can tell from those of any other process of the machine."""

from __future__ import annotations

import os

import psutil


def long_sleep() -> str:
    """How long a command of a test sleeps, in seconds: an hour, and a fraction that no other process has.

    The whole machine is searched for it, where other tests run at the same time. A plain number is no mark: a command
    line has paths, process ids and inode numbers, in which it can occur by chance.
    """
    return f"3600.{int.from_bytes(os.urandom(8)):020d}"


def still_running(seconds: str) -> list[list[str]]:
    """The command lines of the processes whose arguments have this length of sleep."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(seconds in argument for argument in line)]
