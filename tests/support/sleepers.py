"""Commands that sleep for long, which a test can tell from those of any other process of the machine."""

from __future__ import annotations

import os

import psutil


def long_sleep() -> str:
    """How long a command of a test sleeps, in seconds: an hour, and a fraction that no other process has.

    Other tests run on the machine at the same time, and a short number can occur by chance in any command line: in
    paths, process ids and inode numbers.
    """
    return f"3600.{int.from_bytes(os.urandom(8)):020d}"


def still_running(seconds: str) -> list[list[str]]:
    """The command lines of the processes whose arguments have this length of sleep."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(seconds in argument for argument in line)]
