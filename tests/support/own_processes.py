"""Fail a test without a marker if it starts a process.

Marked tests are left out of the contributor's loop, and CI may repeat them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

PROCESS_MARKERS = ("browser", "kernel", "process")
"""Markers of tests that a busy machine may disturb."""

_MARKERS = {*PROCESS_MARKERS, "slow"}
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
_started: list[str] = []


def _note_start(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and arguments[:1] != ("uname",):  # `platform.processor`, which the vendors' SDKs call
        _started.append(f"{event}{arguments[:2]}")


sys.addaudithook(_note_start)


def needs_processes(item: pytest.Item) -> bool:
    """Tell from the markers if a test needs processes of its own."""
    return any(item.get_closest_marker(name) for name in PROCESS_MARKERS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Forget what earlier tests started."""
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test without a marker if it or its fixtures started a process."""
    yield
    if _started and not any(item.get_closest_marker(name) for name in _MARKERS):
        pytest.fail(f"It starts a process; mark it as browser, kernel or process: {_started[0]:.300}", pytrace=False)
