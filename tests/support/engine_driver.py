"""A program that maps prompts over Dask's workers, for tests that kill it: `python -m support.engine_driver`.

It reads one line of JSON: the cluster's `address`, the files of its `security`, the `url` of a scripted server, the
`folder` with the session, and the `count` of prompts. It prints each prompt whose answer is stored.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from distributed import Client
from distributed.security import Security

from planck_nb import Config, Workspace
from planck_nb.ai.models import Model, as_found
from planck_nb.engines import DaskEngine


async def main() -> None:
    given = json.loads(sys.stdin.readline())
    client = Client(given["address"], security=Security(require_encryption=True, **given["security"]))
    model = as_found(Model(provider="openai", id="scripted", api="chat", base_url=given["url"], api_key="key"))
    folder = Path(given["folder"])
    config = Config.load(environment={}, directory=folder, home=folder)
    async with Workspace(config, engine=DaskEngine(client)) as workspace:
        if workspace.sessions():
            await workspace.resume()
        prompts = [f"Prompt {number}" for number in range(given["count"])]
        async for item in workspace.map(prompts, model=model, concurrency=5):
            print(item.prompt, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
