"""No sidecar outlives the process that holds the link, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.sidecar_links import SERVERS

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[3]


def runs(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def killed(folder: Path, number: signal.Signals, *options: str) -> list[int]:
    """Kill a process that holds sidecars, and return the processes that it had started, which have ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    command = [sys.executable, str(SERVERS / "link_holder.py"), str(folder), *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        processes = [int(word) for word in kernel.stdout.readline().split()]
        assert all(map(runs, processes))
        begun = time.monotonic()
        kernel.send_signal(number)
        kernel.wait()
        while any(map(runs, processes)) and time.monotonic() < begun + 30:
            time.sleep(0.02)  # other processes have no way to tell us
    left = [process for process in processes if runs(process)]
    seconds = time.monotonic() - begun
    print(f"nothing was left {seconds:.2f} s after {number.name}")
    assert not left
    return processes


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_sidecar_is_left_after_the_kernel_was_killed(tmp_path: Path, number: signal.Signals) -> None:
    # One ends with its input, one ignores that and SIGTERM, and a child of the first.
    assert len(killed(tmp_path, number)) == 3


def test_no_build_is_left_after_the_kernel_was_killed(tmp_path: Path) -> None:
    assert len(killed(tmp_path, signal.SIGKILL, "build")) == 2  # what installs, and what that started
