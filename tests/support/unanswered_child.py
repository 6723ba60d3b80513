"""A program that is killed while prompts wait: `python unanswered_child.py FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from planck_nb import Config, Workspace, ai
from planck_nb.testing import Call, Reply, scripted_model

IMAGE = b"\x89PNG a small image"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def main(folder: Path) -> None:
    entered = asyncio.Event()

    async def hold() -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    place = Workspace(Config.load(environment={}, directory=folder))
    ann = place.add_agent("ann", model=scripted_model(["one", Reply(calls=(Call("hold", {}),))]), tools=[hold])
    bob = place.add_agent("bob", model=scripted_model(["uno"]))
    await ann.prompt("First.")
    await bob.prompt("x")
    ann.prompt("Running.")
    await entered.wait()
    edited = ann.prompt("Edit me.")
    ann.steer("Steer left.")
    removed = ann.prompt("Remove me.")
    ann.prompt("How many?", output=SCHEMA)
    ann.edit_queued(edited.id, [ai.TextPart("What is this?"), ai.ImagePart(IMAGE)])
    ann.remove_queued(removed.id)
    await place.flush()
    print(place.session.name, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
