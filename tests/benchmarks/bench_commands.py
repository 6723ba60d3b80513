"""What a command costs: in the sandbox, without it below the launcher, and as a plain subprocess.

    python tests/benchmarks/bench_commands.py

Runs the three in turn, so that the load of the machine is the same for all. Prints medians in milliseconds, and the
ratio to the plain subprocess.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time

from planck_nb import BuiltinTools
from planck_nb.tools.sandbox import find_sandbox

ROUNDS = 60


async def main() -> None:
    folder = tempfile.mkdtemp()
    protected = BuiltinTools.bash(cwd=folder, sandbox="auto")
    plain = BuiltinTools.bash(cwd=folder, sandbox="off")
    times: dict[str, list[float]] = {"subprocess": [], "off": [], "sandbox": []}
    for _ in range(ROUNDS):
        for name, seconds in times.items():
            begun = time.perf_counter()
            if name == "subprocess":
                await asyncio.to_thread(subprocess.run, ["/bin/sh", "-c", ":"], capture_output=True, check=True)
            else:
                await (protected if name == "sandbox" else plain).run({"command": ":"})
            seconds.append(time.perf_counter() - begun)
    floor = statistics.median(times["subprocess"])
    print("sandbox:", find_sandbox() or "none")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"{name:<10} p50 {median * 1e3:6.1f} ms   {median / floor:5.1f} times a subprocess", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
