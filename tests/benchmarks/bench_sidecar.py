"""What a call of a sidecar costs over stdio: through the link, and with the bare SDK.

    python tests/benchmarks/bench_sidecar.py [--calls 1000] [--rounds 7]

Both sides call the same server, each in a process of its own, in turns, so that the load of the machine is the same for
both. Prints medians in milliseconds, and the ratio that they are held to.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters

from planck_nb.sidecars.link.manager import Sidecars
from planck_nb.sidecars.link.sidecar_spec import SidecarSpec

SERVER = Path(__file__).parents[1] / "sidecars" / "link" / "servers" / "sdk_sidecar.py"
HELD_TO = 1.2
CONCURRENT = 100


async def latency(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of a call."""
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1e3


async def at_once(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds for calls that are made at the same time."""
    begun = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CONCURRENT)))
    return (time.perf_counter() - begun) * 1e3


async def main(calls: int, rounds: int) -> None:
    arguments = {"text": "hi"}
    sidecars = Sidecars()
    sidecars.add(SidecarSpec("bench", command=sys.executable, args=(str(SERVER),)))
    await sidecars.start()
    link = sidecars.link("bench")
    tool = next(tool for tool in sidecars.all_tools() if tool.name == "echo")
    async with Client(StdioServerParameters(command=sys.executable, args=[str(SERVER)])) as client:
        await client.list_tools()
        sides: dict[str, Callable[[], Awaitable[object]]] = {
            "bare SDK": lambda: client.call_tool("echo", arguments),
            "link": lambda: link.call("echo", arguments),
            "tool of an agent": lambda: tool.run(arguments),
        }
        one: dict[str, list[float]] = {name: [] for name in sides}
        many: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(calls):  # in turns, call by call
            for name in list(sides)[:: 1 if number % 2 else -1]:
                one[name].append(await latency(sides[name]))
        for number in range(rounds):
            for name in list(sides)[:: 1 if number % 2 else -1]:
                many[name].append(await at_once(sides[name]))
    await sidecars.aclose()
    for title, figures in (("a call", one), (f"{CONCURRENT} calls at once", many)):
        for name, values in figures.items():
            ratio = statistics.median(values) / statistics.median(figures["bare SDK"])
            held = name == "link" and title == "a call"
            verdict = f" (held to {HELD_TO}x{'' if ratio <= HELD_TO else ', MISSED'})" if held else ""
            print(f"{title:<20} {name:<18} p50 {statistics.median(values):7.2f} ms {ratio:6.2f}x{verdict}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    asyncio.run(main(options.calls, options.rounds))
