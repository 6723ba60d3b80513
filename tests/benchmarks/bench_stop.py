"""How fast a running cell ends: from a press of Stop or ■ until the kernel is idle again.

    python tests/benchmarks/bench_stop.py

A real kernel runs the demo model, which would go on for three seconds. Prints medians and maxima in milliseconds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.kernel import Kernel, running_kernel

ROUNDS = 10


def seconds_to_idle(kernel: Kernel, button: str) -> float:
    """Press once the model has said something, and wait for the cell's end."""
    pressed: list[float] = []

    def press(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] != "comm_msg" or "'type': 'text'" not in str(content) or pressed:
            return
        pressed.append(time.perf_counter())
        if button == "Stop":
            stop = {"comm_id": content["comm_id"], "data": {"method": "custom", "content": {"type": "stop"}}}
            kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", stop))
        else:
            kernel.interrupt()

    kernel.finish(kernel.start("%planck --new hello"), on_message=press)
    return time.perf_counter() - pressed[0]


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0.05", PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb")
        for button in ("Stop", "■"):
            times = [seconds_to_idle(kernel, button) * 1e3 for _ in range(ROUNDS)]
            print(f"{button:<5} p50 {statistics.median(times):6.1f} ms   max {max(times):6.1f} ms", flush=True)
