"""The same prompts through one process, Dask's workers, and Ray's actors.

    python tests/benchmarks/bench_clusters.py [--prompts 400] [--deltas 200]

Each side maps the prompts in an interpreter of its own, all at once, over two workers, with answers of 200 deltas 5 ms
apart. The first two store every answer. Ray's actors are what its own users would write: they stream by httpx and store
nothing, because Ray's LLM batches by HTTP do not stream, and those of its own servers need a GPU. A side whose package
is not installed is left out: `pip install ray httpx psutil`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import server

from planck_nb import Config, Workspace
from planck_nb.ai.engine import Engine
from planck_nb.ai.models import Model, as_found
from planck_nb.engines import DaskEngine

PACE_US = 5_000
WORKERS = 2
MEGABYTE = 1_000_000


class Asker:
    """What one of Ray's actors does."""

    def __init__(self, url: str) -> None:
        import httpx

        self._url = f"{url}/chat/completions"
        self._client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    async def ask(self, prompt: str) -> str:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]}
        texts: list[str] = []
        async with self._client.stream("POST", self._url, json=body) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    texts.extend(choice["delta"].get("content") or "" for choice in choices)
        return "".join(texts)


def run_ray(url: str, prompts: list[str]) -> dict[str, float]:
    ray: Any = importlib.import_module("ray")

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    actor = ray.remote(num_cpus=1, max_concurrency=len(prompts))(Asker)
    actors = [actor.remote(url) for _ in range(WORKERS)]
    ray.get([one.ask.remote("warm up") for one in actors])
    with Measured(len(prompts)) as measured:
        texts = ray.get([actors[number % WORKERS].ask.remote(prompt) for number, prompt in enumerate(prompts)])
    assert all(texts)
    ray.shutdown()
    return measured.found


async def run_map(url: str, prompts: list[str], engine: Engine | None) -> dict[str, float]:
    model = as_found(Model(provider="openai", id="m", api="chat", base_url=url, api_key="key"))
    with tempfile.TemporaryDirectory() as folder:
        config = Config.load(environment={}, directory=Path(folder), home=Path(folder))
        async with Workspace(config, engine=engine) as workspace:
            await workspace.map(["warm up"] * WORKERS, model=model)
            with Measured(len(prompts)) as measured:
                done = await workspace.map(prompts, model=model, concurrency=len(prompts))
            assert done.failed == 0
    return measured.found


async def run_dask(url: str, prompts: list[str]) -> dict[str, float]:
    async with DaskEngine(workers=WORKERS) as engine:
        return await run_map(url, prompts, engine)


class Measured:
    """Time, CPU and memory of this process and those that it has started.

    Args:
        count: The number of items.
    """

    def __init__(self, count: int) -> None:
        import psutil

        self._process = psutil.Process()
        self._count = count
        self.found: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), self._used()
        return self

    def __exit__(self, *_: object) -> None:
        wall = time.perf_counter() - self._wall
        own, all_of_them = (after - before for after, before in zip(self._used(), self._cpu, strict=True))
        memory = [process.memory_info().rss for process in self._processes()]
        self.found = {
            "items_per_s": self._count / wall,
            "own_cpu_ms": 1000 * own / self._count,
            "all_cpu_ms": 1000 * all_of_them / self._count,
            "own_mb": memory[0] / MEGABYTE,
            "all_mb": sum(memory) / MEGABYTE,
        }

    def _processes(self) -> list[Any]:
        return [self._process, *self._process.children(recursive=True)]

    def _used(self) -> tuple[float, float]:
        times = [sum(process.cpu_times()[:2]) for process in self._processes()]
        return times[0], sum(times)


def run_side(side: str, url: str, count: int) -> dict[str, float]:
    prompts = [f"Is {number} prime?" for number in range(count)]
    if side == "ray":
        return run_ray(url, prompts)
    return asyncio.run(run_dask(url, prompts) if side == "dask" else run_map(url, prompts, None))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--deltas", type=int, default=200)
    parser.add_argument("--side", help="run this one alone, at --url")
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, options.url, options.prompts)))
        return
    print(f"{'':<10}{'items/s':>10}{'own CPU':>12}{'all CPU':>12}{'own memory':>14}{'all memory':>14}")
    for side in ("process", "dask", "ray"):
        with server() as address:
            url = f"{address}/n={options.deltas},pace={PACE_US}"
            command = [sys.executable, __file__, "--side", side, "--url", url, "--prompts", str(options.prompts)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{side:<10} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        cpu = "".join(f"{found[name]:9.2f} ms" for name in ("own_cpu_ms", "all_cpu_ms"))
        memory = "".join(f"{found[name]:11.0f} MB" for name in ("own_mb", "all_mb"))
        print(f"{side:<10}{found['items_per_s']:10.1f}{cpu}{memory}")


if __name__ == "__main__":
    main()
