"""How fast a running cell ends: from a press of Stop or ■ until the kernel is idle again.

    python tests/benchmarks/bench_stop.py

A real kernel runs the demo model, which would go on for three seconds, and agents whose `run_python` never ends:
in the foreground, stopped by ■, and in the background, stopped by SIGINT to a kernel whose cells have ended. Prints
medians and maxima in milliseconds.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.kernel import TIMEOUT, Kernel, running_kernel

ROUNDS = 10


def seconds_to_idle(kernel: Kernel, button: str) -> float:
    """Press once the model has said something, and wait for the cell's end."""
    pressed: list[float] = []

    def press(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] != "comm_msg" or "text_delta" not in str(content) or pressed:
            return
        pressed.append(time.perf_counter())
        if button == "Stop":
            stop = {"comm_id": content["comm_id"], "data": {"method": "custom", "content": {"type": "stop"}}}
            kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", stop))
        else:
            kernel.interrupt()

    kernel.finish(kernel.start("%planck --new hello"), on_message=press)
    return time.perf_counter() - pressed[0]


AGENT = """from planck_nb.testing import Call, Reply, scripted_model
workspace = planck_nb.get_workspace()
def forever(name):
    code = f"import pathlib; pathlib.Path({name!r}).touch()\\nwhile True: pass"
    call = Call("run_python", {"code": code})
    workspace.add_agent(name, model=scripted_model([Reply(calls=[call]), "asked again"]))"""
HELD_TO = 0.5
"""Seconds in which code that never ends is stopped."""


def wait_for(file: Path) -> None:
    """Wait until the code of the agent runs: a kernel that is blocked answers nothing."""
    deadline = time.monotonic() + TIMEOUT
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file} was not written")
        time.sleep(0.005)


def seconds_to_stop(kernel: Kernel, folder: Path, name: str, *, background: bool) -> float:
    """Interrupt code that never ends, and wait until the kernel runs a cell again."""
    kernel.run(f"forever({name!r})")
    options = "--tools kernel --allow run_python --quiet" + " --background" * background
    running = kernel.start(f"%%planck {name} {options}\ngo")
    wait_for(folder / name)
    pressed = time.perf_counter()
    if background:
        os.kill(kernel.manager.provisioner.pid, signal.SIGINT)
        kernel.run("1")
    else:
        kernel.interrupt()
        kernel.finish(running)
    return time.perf_counter() - pressed


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0.05", PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb")
        for button in ("Stop", "■"):
            times = [seconds_to_idle(kernel, button) * 1e3 for _ in range(ROUNDS)]
            print(f"{button:<5} p50 {statistics.median(times):6.1f} ms   max {max(times):6.1f} ms", flush=True)
        kernel.run(f"import planck_nb\n{AGENT}")
        for place in ("foreground", "background"):
            background = place == "background"
            stops = [seconds_to_stop(kernel, folder, f"{place}{n}", background=background) for n in range(ROUNDS)]
            missed = "" if max(stops) <= HELD_TO else ", MISSED"
            print(
                f"run_python, {place}: p50 {statistics.median(stops) * 1e3:6.1f} ms   max {max(stops) * 1e3:6.1f} ms "
                f"(held to {HELD_TO} s{missed})",
                flush=True,
            )
