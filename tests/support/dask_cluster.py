"""A Dask cluster from separately started processes with TLS, as on several machines, and a network to cut."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from distributed import Client
from distributed.security import Security
from support.ports import free_port

_PIECE = 65_536


class TlsCluster:
    """A scheduler, and workers that are started and ended one by one.

    Args:
        folder: For the certificate, its key and the workers' files.
    """

    def __init__(self, folder: Path) -> None:
        temporary = Security.temporary()
        names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
        self.files = {name: str(folder / f"{name}.pem") for name in names}
        for name, file in self.files.items():
            Path(file).write_text(getattr(temporary, name))
        self._folder = folder
        self._port = free_port()
        self.address = f"tls://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start a scheduler at the cluster's address."""
        self.scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port))
        return self.scheduler

    def start_worker(self, *options: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker.

        Args:
            options: Further options for it.
            path: Where it looks for modules first.
        """
        options = ("--no-nanny", "--nthreads", "1", "--local-directory", str(self._folder), *options)
        return self._start("dask_worker", self.address, *options, path=path)

    def client(self, address: str = "") -> Client:
        """Connect to the scheduler, or to what forwards to it."""
        security = Security(require_encryption=True, **self.files)
        return Client(address or self.address, security=security, set_as_default=False, timeout=30)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process."""
        process.kill()
        process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            self.end(process)

    def _start(self, module: str, *options: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        certificates = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), self.files.values(), strict=True)
        shared = ("--protocol", "tls", "--no-dashboard", *(word for pair in certificates for word in pair))
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *options, *shared],
            env={**os.environ, "PYTHONPATH": str(path or "")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes.append(process)
        return process


class Cable:
    """A port that forwards to another, until it is cut: then nothing passes, and nobody is told.

    Args:
        port: The port to forward to.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    def cut(self) -> None:
        """Forward nothing until `mend`."""
        self._is_whole.clear()

    def mend(self) -> None:
        """Forward again, beginning with what has waited."""
        self._is_whole.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
            for source, target in ((reader, to_writer), (to_reader, writer)):
                link = asyncio.create_task(self._forward(source, target))
                self._links.add(link)
                link.add_done_callback(self._links.discard)
            return
        writer.close()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_PIECE):
                await self._is_whole.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()
