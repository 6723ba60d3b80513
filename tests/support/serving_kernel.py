"""A kernel of the tests that `planck-nb mcp` can reach: a workspace in a process of its own.

`python -m support.serving_kernel FOLDER` serves until standard input ends, and decides about calls that wait: a line
`allow` or `deny` on standard input is the person's answer to the next one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.sidecar_server import ROOT

SCRIPTS: dict[str, list[Any]] = {
    "ada": ["hello there"] * 20,
    "slow": ["word " * 2_000],
    "writer": [
        {"calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "x"}}]},
        "{result}",
    ]
    * 3,
    "leaky": ["the key is sk-ant-" + "a1" * 20],
}


async def serve(folder: Path) -> None:
    """Serve a workspace in a folder until standard input ends."""
    from planck_nb import BuiltinTools, Config, Workspace
    from planck_nb.agent.agent import Agent
    from planck_nb.serve import open_kernel_socket
    from planck_nb.testing import scripted_model

    async with Workspace(Config.load(directory=folder, home=folder), owner="tests") as workspace:
        workspace.approvals.patience = 0.05
        agents: dict[str, Agent] = {}
        for name, script in SCRIPTS.items():
            tools = BuiltinTools.all(cwd=folder) if name == "writer" else ()
            model = scripted_model(script, pace=0.05 if name == "slow" else 0)
            agents[name] = workspace.add_agent(name, model=model, tools=tools)
        async with open_kernel_socket(workspace) as opened:
            print(opened.path, flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                if line == "attend\n":
                    workspace.attend()
                else:
                    events = agents["writer"].events.since(0)
                    waiting = [event.id for event in events if event.type == "approval_request"]
                    agents["writer"].decide(waiting[-1], allow=line == "allow\n")
                print("done", flush=True)


class Kernel:
    """A served workspace."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, socket: Path) -> None:
        self.process = process
        self.folder = folder
        self.socket = socket

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def said(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def running_kernel(folder: Path, environment: dict[str, str]) -> AsyncIterator[Kernel]:
    """Start a kernel in a folder, and end it when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "support.serving_kernel",
        str(folder),
        cwd=folder,
        env={**environment, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode().strip()
        assert line, "the kernel did not start"
        yield Kernel(process, folder, Path(line))
    finally:
        if process.returncode is None:
            process.stdin.close()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
