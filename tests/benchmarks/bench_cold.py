"""The first prompt of a fresh kernel, two seconds after `%load_ext`: CPU and time from the prompt to the first delta.

    python tests/benchmarks/bench_cold.py [--rounds 5]

A real kernel asks a server on this machine. CPU is the kernel's, all threads included. Prints medians in milliseconds:
what `%load_ext` costs, what the kernel uses in the two seconds after it, the first prompt, and a second prompt with
everything loaded.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import server
from support.kernel import Kernel, running_kernel

PAUSE = 2.0
GOAL = 100

PREPARE = """
import asyncio, time
from IPython import get_ipython
cpu = time.process_time
def on_cell(info):
    global began, began_wall
    began, began_wall = cpu(), time.perf_counter()
get_ipython().events.register("pre_run_cell", on_cell)
"""
WATCH = """
from planck_nb import get_workspace
async def first_delta(events):
    async for event in events:
        if event.type == "text_delta":
            return (cpu() - began) * 1e3, (time.perf_counter() - began_wall) * 1e3
watcher = asyncio.ensure_future(first_delta(get_workspace().subscribe()))
"""


def value(kernel: Kernel, code: str) -> list[float]:
    """The numbers that a cell prints."""
    return [float(word) for word in kernel.run(f"print(*{code})").text.split()]


def measure(url: str) -> dict[str, float]:
    """One fresh kernel."""
    with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder), HOME=folder) as kernel:
        kernel.run(PREPARE)
        kernel.run("%load_ext planck_nb\nloading = (cpu() - began) * 1e3\nloaded = cpu()")
        time.sleep(PAUSE)
        found: dict[str, float] = {}
        found["%load_ext, CPU"], found["warm-up, CPU"] = value(kernel, "(loading, (cpu() - loaded) * 1e3)")
        for name in ("first prompt", "second prompt"):
            kernel.run(WATCH)
            cell = kernel.run(f"%%planck --new --model openai:m --base-url {url}/n=20\nhello")
            assert cell.status == "ok", cell
            found[f"{name}, CPU"], found[f"{name}, wall"] = value(kernel, "watcher.result()")
        return found


def main(rounds: int) -> None:
    with server() as url:
        found = [measure(url) for _ in range(rounds)]
    for name in found[0]:
        median = statistics.median(each[name] for each in found)
        held_to = f"  (at most {GOAL})" if name == "first prompt, CPU" else ""
        print(f"{name:<22} {median:7.1f} ms{held_to}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
