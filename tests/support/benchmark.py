"""What the benchmarks share: the server in a process of its own, and two sides that are measured in turn."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

SERVER = Path(__file__).parents[1] / "benchmarks" / "server.py"


@contextmanager
def server() -> Iterator[str]:
    """A fresh server and its address."""
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


async def measure(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """CPU and wall seconds of one piece of work."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall


Work: TypeAlias = Callable[[], Awaitable[object]]


async def compare(name: str, floor: Work, ours: Work, *, rounds: int, unit: str, scale: float, held_to: float) -> None:
    """Run both in turns and print medians; `scale` turns seconds into `unit`, `held_to` is the ratio we promise."""
    for side in (floor, ours):
        await side()
    rows: list[tuple[float, float, float, float]] = []
    for number in range(rounds):
        first, second = (floor, ours) if number % 2 else (ours, floor)
        one, other = await measure(first), await measure(second)
        rows.append((*one, *other) if number % 2 else (*other, *one))
    floor_cpu, floor_wall, our_cpu, our_wall = map(statistics.median, zip(*rows, strict=True))
    ratio = statistics.median(row[2] / row[0] for row in rows)
    verdict = f"{ratio:5.2f}x (held to {held_to}x{'' if ratio <= held_to else ', MISSED'})"
    figures = f"{floor_cpu * scale:9.2f} {our_cpu * scale:9.2f} {unit:<3} {verdict}"
    print(f"{name:<36} {figures}   wall {floor_wall:.2f} s, {our_wall:.2f} s", flush=True)
