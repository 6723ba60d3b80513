"""Many prompts in one call: a map, a plain loop over the openai package, and an inspect_ai task.

    python -m venv PEERS && PEERS/bin/pip install openai inspect_ai
    python tests/benchmarks/bench_many.py --peers PEERS/bin/python [--items 1000] [--rounds 5]

Each side answers the same prompts, eight at a time, in a process of its own against one server in another; the sides
take turns. The loop keeps its answers in memory, inspect_ai in a log that it writes now and then, a map on disk before
the next item. The streaming loop is the one that compares with a map, whose replies stream, too. Prints medians:
items a second, and the side's CPU for each item, imports left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import server

AT_ONCE = 8
OURS = "planck_nb"


def map_side(url: str, prompts: list[str], folder: Path) -> Callable[[], int]:
    """A map in a new session."""
    from planck_nb import Config, Workspace, ai

    async def ask() -> int:
        model = ai.get_model("openai", "m", base_url=url, has_api_key=False)
        async with Workspace(Config.load(environment={}, directory=folder, home=folder)) as workspace:
            run = await workspace.map(prompts, model=model, concurrency=AT_ONCE)
            return run.asked - run.failed

    return lambda: asyncio.run(ask())


def loop_side(url: str, prompts: list[str], _: Path, *, stream: bool = False) -> Callable[[], int]:
    """A loop as people write it, with a semaphore."""
    from openai import AsyncOpenAI

    async def ask() -> int:
        slots, answers = asyncio.Semaphore(AT_ONCE), list[str]()

        async def one(prompt: str) -> None:
            async with slots:
                messages = [{"role": "user", "content": prompt}]
                reply = await client.chat.completions.create(model="m", messages=messages, stream=stream)
                if stream:
                    parts = [piece.choices[0].delta.content or "" async for piece in reply if piece.choices]
                    answers.append("".join(parts))
                else:
                    answers.append(reply.choices[0].message.content)

        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            await asyncio.gather(*map(one, prompts))
        return sum(map(bool, answers))

    return lambda: asyncio.run(ask())


def inspect_side(url: str, prompts: list[str], folder: Path) -> Callable[[], int]:
    """A task without scorers and without a display."""
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model

    def ask() -> int:
        model = get_model("openai/gpt-4o-mini", base_url=url, api_key="none", responses_api=False)
        task = inspect_ai.Task(dataset=[Sample(input=prompt) for prompt in prompts])
        options = {"log_dir": str(folder), "display": "none", "max_connections": AT_ONCE, "max_samples": AT_ONCE}
        [log] = inspect_ai.eval(task, model=model, **options)
        return sum(bool(sample.output.completion) for sample in log.samples or ())

    return ask


SIDES: dict[str, Callable[[str, list[str], Path], Callable[[], int]]] = {
    OURS: map_side,
    "openai": loop_side,
    "openai, streamed": lambda *given: loop_side(*given, stream=True),
    "inspect_ai": inspect_side,
}


def measure(side: str, url: str, count: int) -> None:
    """Print one side's seconds and CPU seconds."""
    prompts = [f"Is {number} a prime number?" for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        ask = SIDES[side](f"{url}/n=20,lat=20", prompts, Path(folder))
        began, cpu = time.perf_counter(), time.process_time()
        answered = ask()
        print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]))
        assert answered == count, f"{answered} answers"


def main(peers: str, count: int, rounds: int) -> None:
    """Run all sides in turns."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    with server() as url:
        for _ in range(rounds):
            for side in SIDES:
                python = sys.executable if side == OURS else peers
                command = [python, __file__, "--side", side, "--url", url, "--items", str(count)]
                printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                found[side].append(json.loads(printed.splitlines()[-1]))
    print(f"{count:,} prompts, {AT_ONCE} at a time, 20 ms each")
    for side, rows in found.items():
        wall, cpu = map(statistics.median, zip(*rows, strict=True))
        ratio = statistics.median(row[1] / other[1] for row, other in zip(rows, found["openai, streamed"], strict=True))
        print(f"{side:<20} {count / wall:8.0f} items/s {cpu / count * 1e3:8.2f} ms of CPU {ratio:6.2f}x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.side:
        measure(options.side, options.url, options.items)
    else:
        main(
            options.peers or parser.error("name a Python that has openai and inspect_ai"), options.items, options.rounds
        )
