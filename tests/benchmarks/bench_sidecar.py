"""What a sidecar's call costs over stdio and HTTP, through the link and with the bare SDK; and what a lost one costs.

    python tests/benchmarks/bench_sidecar.py [--calls 1000] [--rounds 7]

Both sides call the same server, each in a process of its own, in turns, so that the load of the machine is the same for
both. Prints medians in milliseconds, and what they are held to; then the times of 150 calls at once over HTTP, of an
idle sidecar, of 21 calls in flight at a crash, of a cancelled call whose tool has grandchildren, and of
`import planck_nb`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import psutil
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from planck_nb.base.errors import SidecarLostError
from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

SERVER = Path(__file__).parents[1] / "sidecars" / "mcp_client" / "servers" / "sdk_sidecar.py"
HELD_TO = 1.2
CONCURRENT = 100
HTTP_CALLS = 150
TOKEN = "a-token-of-the-benchmark"
HOSTILE = SERVER.with_name("hostile_sidecar.py")
IDLE_SECONDS = 5.0


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
    sidecars = Sidecars()
    sidecars.add(SidecarSpec("bench", command=sys.executable, args=(str(SERVER),)))
    async with Client(StdioServerParameters(command=sys.executable, args=[str(SERVER)])) as client:
        await compare("", client, sidecars, calls, rounds)
    await sidecars.aclose()


async def compare(where: str, client: Client, sidecars: Sidecars, calls: int, rounds: int) -> None:
    """Time calls of the bare SDK, of the link and of a tool, in turns."""
    arguments = {"text": "hi"}
    await client.list_tools()
    await sidecars.start()
    link = sidecars.link("bench")
    tool = next(tool for tool in sidecars.all_tools() if tool.name == "echo")
    sides: dict[str, Callable[[], Awaitable[object]]] = {
        "bare SDK": lambda: client.call_tool("echo", arguments),
        "link": lambda: link.call("echo", arguments),
        "tool of an agent": lambda: tool.run(arguments),
    }
    one: dict[str, list[float]] = {name: [] for name in sides}
    many: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(calls):  # call by call
        for name in list(sides)[:: 1 if number % 2 else -1]:
            one[name].append(await latency(sides[name]))
    for number in range(rounds):
        for name in list(sides)[:: 1 if number % 2 else -1]:
            many[name].append(await at_once(sides[name]))
    for title, figures in (("a call", one), (f"{CONCURRENT} calls at once", many)):
        for name, values in figures.items():
            ratio = statistics.median(values) / statistics.median(figures["bare SDK"])
            held = name == "link" and title == "a call"
            verdict = f" (held to {HELD_TO}x{'' if ratio <= HELD_TO else ', MISSED'})" if held else ""
            median = statistics.median(values)
            print(f"{title + where:<30} {name:<18} p50 {median:7.2f} ms {ratio:6.2f}x{verdict}", flush=True)


def report(what: str, figure: float, unit: str, held_to: float | None = None) -> None:
    """Print a figure, and what it is held to."""
    held = "" if held_to is None else f" (held to {held_to:g} {unit}{'' if figure <= held_to else ', MISSED'})"
    print(f"{what:<60} {figure:8.2f} {unit}{held}", flush=True)


async def over_http(folder: Path, calls: int, rounds: int) -> None:
    """Calls in turns with the bare SDK, and 150 calls at the same time."""
    port = folder / "port"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), str(port), env={**os.environ, "STATE": str(folder), "TOKEN": TOKEN}
    )
    while not (port.exists() and port.read_text()):  # noqa: ASYNC110 - another process has no way to tell us
        await asyncio.sleep(0.01)
    sidecars = Sidecars()
    url = f"http://127.0.0.1:{port.read_text()}/mcp"
    sidecars.add(SidecarSpec("bench", url=url, token=TOKEN))
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await compare(" over HTTP", client, sidecars, calls, rounds)
    link = sidecars.link("bench")
    begun = time.perf_counter()
    results = await asyncio.gather(*(link.call("pause", {"seconds": 0.05}) for _ in range(HTTP_CALLS)))
    report(f"{len(results)} of {HTTP_CALLS} calls over HTTP that rest 50 ms", (time.perf_counter() - begun) * 1e3, "ms")
    await sidecars.aclose()
    process.kill()
    await process.wait()


async def losses(folder: Path) -> None:
    """A sidecar that rests, one that crashes, and a call that is cancelled."""
    spec = SidecarSpec("odd", command=sys.executable, args=("-I", "-S", str(HOSTILE)), env={"STATE": str(folder)})
    sidecars = Sidecars()
    sidecars.add(spec)
    await sidecars.start()
    link = sidecars.link("odd")
    process = psutil.Process(link.status().process)
    own, other = time.process_time(), process.cpu_times()
    await asyncio.sleep(IDLE_SECONDS)
    after = process.cpu_times()
    report("CPU of the kernel for an idle sidecar", (time.process_time() - own) / IDLE_SECONDS * 1e3, "ms/s")
    report(
        "CPU of an idle sidecar", (after.user + after.system - other.user - other.system) / IDLE_SECONDS * 1e3, "ms/s"
    )

    call = asyncio.create_task(link.call("children", {}))
    while not ((folder / "child").exists() and (folder / "child").read_text()):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.005)
    child = psutil.Process(int((folder / "child").read_text()))
    family = [child, *child.children(recursive=True)]
    begun = time.perf_counter()
    call.cancel()
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)
    report(
        f"{len(family)} children and grandchildren of a cancelled call gone",
        (time.perf_counter() - begun) * 1e3,
        "ms",
        50,
    )

    ended: list[float] = []

    async def lost(tool: str) -> None:
        try:
            await link.call(tool, {})
        except SidecarLostError:
            ended.append(time.monotonic())

    calls = [asyncio.create_task(lost("never")) for _ in range(20)]
    while len(process.threads()) <= 20:  # noqa: ASYNC110 - one thread a call
        await asyncio.sleep(0.01)
    await asyncio.gather(*calls, lost("die"))
    died = float((folder / "time").read_text())
    report(f"{len(ended)} calls in flight at a crash have an error", (max(ended) - died) * 1e3, "ms", 100)
    begun = time.perf_counter()
    await link.call("echo", {"text": "again"})
    report("the next call, which waits for the restart", (time.perf_counter() - begun) * 1e3, "ms")
    await sidecars.aclose()


def import_time() -> None:
    """What `import planck_nb` costs, and whether it loads the package mcp."""
    program = "import sys, planck_nb; print(*{'mcp', 'mcp_types', 'httpx2'} & sys.modules.keys())"
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        times.append(time.perf_counter() - begun)
    report(f"import planck_nb, which loads of MCP: {loaded.strip() or 'nothing'}", min(times) * 1e3, "ms")


async def everything(calls: int, rounds: int) -> None:
    """Run all parts."""
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)
    await main(calls, rounds)
    with tempfile.TemporaryDirectory() as folder:
        await over_http(Path(folder), calls, rounds)
        await losses(Path(folder))
    import_time()
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    asyncio.run(everything(options.calls, options.rounds))
