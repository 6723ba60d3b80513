"""A process that holds links to sidecars, as a kernel does, until it is killed. `python … STATE [build]`.

With `build` it builds the environment of a sidecar, with a program uv that never ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from support.sidecar_links import hostile, until_file

from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.sidecars.mcp_client.manager.environment import SidecarEnvironment


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


async def build(state: Path) -> None:
    (state / "pyproject.toml").write_text("")
    program = state / "uv"
    program.write_text('#!/bin/sh\nsetsid sleep 300 &\necho "$$ $!" > begun\nmv begun processes\nwait\n')
    program.chmod(0o755)
    environment = SidecarEnvironment(state, uv=str(program))
    sidecars = Sidecars()
    sidecars.add(environment.spec(), environment=environment)
    start = asyncio.create_task(sidecars.start())
    print(await until_file(state / "processes"), flush=True)
    await start


if __name__ == "__main__":
    asyncio.run((build if "build" in sys.argv else main)(Path(sys.argv[1])))
