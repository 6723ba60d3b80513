"""Sidecars of tests: written to a folder, served in a child process, called with the SDK's client."""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import planck_nb

ROOT = pathlib.Path(planck_nb.__file__).parent.parent
"""The folder that has the package."""

Mode = Literal["legacy", "auto"]
"""Which protocol the client speaks: with a handshake, or the newest."""

MODES: list[Mode] = ["legacy", "auto"]


def write_sidecar(folder: pathlib.Path, body: str, name: str = "my_sidecar") -> pathlib.Path:
    """Write a module that declares `sidecar`, and return its file."""
    file = folder / f"{name}.py"
    begin = f"from planck_nb.sidecars import *\nsidecar = Sidecar({name!r})\n"
    file.write_text(begin + textwrap.dedent(body), encoding="utf-8")
    return file


def server_environment(**more: str) -> dict[str, str]:
    """The environment of a sidecar: little, as a client would set it, and where the package is."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT), **more}


@asynccontextmanager
async def served(
    folder: pathlib.Path,
    reference: str | None = "my_sidecar:sidecar",
    *,
    mode: Mode = "auto",
    log: pathlib.Path | None = None,
    environment: dict[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[Any]:
    """Serve a sidecar over stdio and give a client of it; `log` gets what it writes to standard error."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "planck_nb.sidecars", *filter(None, [reference])],
        cwd=folder,
        env=environment or server_environment(),
    )
    with (log or pathlib.Path(os.devnull)).open("a", encoding="utf-8") as errors:
        async with Client(stdio_client(parameters, errlog=errors), mode=mode, **options) as client:
            yield client


@asynccontextmanager
async def served_here(
    folder: pathlib.Path, reference: str = "my_sidecar:sidecar", *, mode: Mode = "auto", **options: Any
) -> AsyncIterator[Any]:
    """Serve a sidecar in this process and give a client of it, which gets messages as objects, not as bytes."""
    from mcp import Client

    from planck_nb.sidecars.author.live_offer import LiveOffer
    from planck_nb.sidecars.author.server import SidecarServer

    with importing_from(folder):
        async with Client(SidecarServer(LiveOffer(reference)).mcp, mode=mode, **options) as client:
            yield client


@contextmanager
def importing_from(folder: pathlib.Path) -> Iterator[None]:
    """Import modules of a folder, and forget them at the end."""
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:], sys.meta_path[:] = path, finders
        for name in sys.modules.keys() - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and pathlib.Path(file).is_relative_to(folder):
                del sys.modules[name]


def text_of(result: Any) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}


async def until_ended(pids: list[int], seconds: float = 30) -> float:
    """Wait until no process of these runs, and return how many seconds that took."""

    def wait() -> float:
        begun = time.monotonic()
        while any(map(is_running, pids)):
            assert time.monotonic() - begun < seconds, [pid for pid in pids if is_running(pid)]
            time.sleep(0.002)
        return time.monotonic() - begun

    return await asyncio.to_thread(wait)


async def until_written(file: pathlib.Path) -> str:
    """Wait until another process has written a line, and return it."""

    def read() -> str:
        deadline = time.monotonic() + 60
        while not (file.exists() and (line := file.read_text()).endswith("\n")):
            assert time.monotonic() < deadline, file
            time.sleep(0.01)
        return line

    return await asyncio.to_thread(read)
