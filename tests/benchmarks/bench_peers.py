"""The same work through other libraries, in one run: bursts of deltas, paced deltas, tool loops, a fleet.

    PLANCK_NB_TESTDATA=… python tests/benchmarks/bench_peers.py [--rounds 3] [--cases stream,loop]

The folder `bench` of the test data has a server, one adapter for each library, and `bench.py`, which measures one of
them. Adapters run in this interpreter; one of `PEER_ENVS/<name>/bin/python` is used in its place if there is one.
Libraries that are not installed are left out. Prints medians, and the ratio to the floor, which is bare httpx over
aiohttp.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

FLOOR = "floor_httpx_aiohttp"
ROOT = Path(__file__).parents[2]
CASES = {
    "stream": (["--case", "stream", "--reps", "2"], "cpu_us", "µs CPU a delta"),
    "paced": (["--case", "stream", "--n", "1000", "--gap", "1000", "--reps", "2"], "cpu_us", "µs CPU a delta"),
    "loop": (["--case", "loop", "--turns", "60"], "cpu_ms", "ms CPU a tool loop"),
    "fleet": (["--case", "fleet"], "cpu_s", "s CPU for 200 agents"),
}


def interpreter(peer: str) -> str:
    """The Python of a peer's own environment, or this one."""
    own = Path(os.environ.get("PEER_ENVS", "")) / peer / "bin" / "python"
    return str(own) if own.is_file() else sys.executable


def measure(bench: Path, peer: str, case: str, base: str) -> float | None:
    """One measurement in an interpreter of its own; None if the peer is not installed there."""
    arguments, field, _ = CASES[case]
    command = [interpreter(peer), str(bench / "bench.py"), "--peer", peer, "--base", base, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=bench, env=environment)
    if done.returncode or not done.stdout.strip():
        return None
    return float(json.loads(done.stdout.strip().splitlines()[-1])[field])


def main(rounds: int, cases: list[str]) -> None:
    bench = Path(os.environ.get("PLANCK_NB_TESTDATA", "")) / "bench"
    if not (bench / "bench.py").is_file():
        sys.exit("Set PLANCK_NB_TESTDATA to the folder of the test data, which has a folder `bench`.")
    peers = sorted(path.stem for path in (bench / "adapters").glob("[a-z]*.py"))
    peers = ["planck", FLOOR, *(peer for peer in peers if peer not in {"planck", FLOOR} and "anthropic" not in peer)]
    with subprocess.Popen([sys.executable, str(bench / "fake_llm.py")], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        try:
            for case in cases:
                found: dict[str, list[float]] = defaultdict(list)
                for _ in range(rounds):
                    for peer in list(peers):
                        value = measure(bench, peer, case, base)
                        if value is None:
                            peers.remove(peer)
                        else:
                            found[peer].append(value)
                for peer, values in sorted(found.items(), key=lambda each: statistics.median(each[1])):
                    ratio = statistics.median(one / other for one, other in zip(values, found[FLOOR], strict=False))
                    print(f"{case:<7} {peer:<22} {statistics.median(values):9.2f} {CASES[case][2]:<22} {ratio:5.2f}x")
        finally:
            server.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    main(options.rounds, options.cases.split(","))
