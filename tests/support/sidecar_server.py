"""Sidecars of tests: written to a folder, served in a child process, called with the SDK's client."""

from __future__ import annotations

import os
import pathlib
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import planck_nb

ROOT = pathlib.Path(planck_nb.__file__).parent.parent
"""The folder that has the package."""

Mode = Literal["legacy", "auto"]
"""Which protocol the client speaks: with a handshake, or the newest."""


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
    reference: str = "my_sidecar:sidecar",
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
        args=["-m", "planck_nb.sidecars", reference],
        cwd=folder,
        env=environment or server_environment(),
    )
    with (log or pathlib.Path(os.devnull)).open("a", encoding="utf-8") as errors:
        async with Client(stdio_client(parameters, errlog=errors), mode=mode, **options) as client:
            yield client


def text_of(result: Any) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")
