"""A process that holds links to sidecars, as a kernel does, until it is killed. `python … STATE`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from support.sidecar_links import hostile

from planck_nb.sidecars.link.manager import Sidecars


async def main(state: Path) -> None:
    sidecars = Sidecars()
    for mode in ("", "stays"):
        folder = state / f"mode-{mode}"
        folder.mkdir()
        sidecars.add(hostile(folder, mode, name=f"mode-{mode}" if mode else "plain"))
    await sidecars.start()
    child = (await sidecars.link("plain").call("leave_child", {})).text
    found = [status.process for status in sidecars.status()]
    print(*found, child, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
