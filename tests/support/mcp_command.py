"""The server of `planck-nb mcp`, called with the SDK's client: as the command in a child process, or in this one."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.sidecar_server import Mode, server_environment


@asynccontextmanager
async def mcp_client(
    folder: pathlib.Path,
    *arguments: str,
    environment: dict[str, str] | None = None,
    safe_path: bool = False,
) -> AsyncIterator[Any]:
    """Serve the history of a folder over stdio and give a client of it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*(["-P"] if safe_path else []), "-m", "planck_nb.cli", "mcp", *arguments],
        cwd=folder,
        env=environment or server_environment(HOME=str(folder)),
    )
    with pathlib.Path(os.devnull).open("a", encoding="utf-8") as errors:  # noqa: ASYNC230 - opens at once
        async with Client(stdio_client(parameters, errlog=errors)) as client:
            yield client


@asynccontextmanager
async def history_client(folder: pathlib.Path, mode: Mode = "auto") -> AsyncIterator[Any]:
    """Serve the history of a folder in this process and give a client of it."""
    from mcp import Client

    from planck_nb.serve.history import History
    from planck_nb.serve.kernel_client import KernelClient
    from planck_nb.serve.mcp_server import HistoryServer

    sessions = folder / ".planck" / "sessions"
    server = HistoryServer(History(sessions), KernelClient(folder / "runtime", folder, sessions))
    async with Client(server.mcp, mode=mode) as client:
        yield client
