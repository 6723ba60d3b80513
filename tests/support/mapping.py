"""A program that maps prompts over a server, for tests that kill it: `python -m support.mapping FOLDER URL COUNT`."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

from planck_nb import Config, Workspace, ai
from planck_nb.ai.models import Model, Pricing
from planck_nb.workspace import MapRun


def priced_model(url: str) -> Model:
    """A model on a server, which takes 1 US dollar for a million tokens."""
    model = ai.get_model("openai", "some-model", base_url=f"{url}/v1", api="chat", api_key="none")
    return replace(model, pricing=Pricing(input=1.0, output=1.0))


async def map_numbers(folder: Path, url: str, count: int) -> MapRun:
    """Map this many prompts in the session that is in the folder, or in a new one."""
    async with Workspace(Config.load(environment={}, directory=folder, home=folder)) as workspace:
        if workspace.sessions():
            await workspace.resume()
        return await workspace.map([f"Prompt {n}" for n in range(count)], model=priced_model(url), concurrency=5)


def resident_megabytes() -> float:
    """This process's memory, on Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    asyncio.run(map_numbers(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
