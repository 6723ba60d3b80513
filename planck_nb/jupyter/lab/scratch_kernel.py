"""Scratch kernels with this interpreter, in folders which vanish with them.

It is driven by `jupyter_client`, which ipykernel brings along; nbclient is no dependency.
"""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from planck_nb.base.async_tasks import uninterrupted
from planck_nb.base.errors import PlanckError
from planck_nb.base.programs import PYTHON
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.lab import scratch_watch
from planck_nb.jupyter.lab.cell_outputs import OutputCollector

_START_SECONDS = 60.0
_SHUTDOWN_SECONDS = 1.0
"""A kernel's time to end by itself, and its children."""

_TICK = 1.0
"""Seconds between two looks at a silent kernel."""


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """The folder of a scratch kernel.

    Args:
        path: All of it, readable for its owner only.
        project: The working directory.
    """

    path: Path
    project: Path


class _ThisPython(KernelSpecManager):  # type: ignore[misc]  # traitlets have no types
    """Kernel specifications with this interpreter alone."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


class ScratchKernel:
    """A running scratch kernel.

    Args:
        manager: Its manager.
        client: The connection.
    """

    def __init__(self, manager: AsyncKernelManager, client: AsyncKernelClient) -> None:
        self._manager = manager
        self._client = client

    async def run(self, source: str) -> list[dict[str, Any]] | None:
        """Run a cell.

        Args:
            source: Its text.

        Returns:
            The outputs as in a notebook file, None if the kernel ended.
        """
        request = self._client.execute(source, store_history=True, allow_stdin=False, stop_on_error=False)
        collector = OutputCollector()
        while True:
            try:
                message = await self._client.get_iopub_msg(timeout=_TICK)
            except queue.Empty:
                if not await self._manager.is_alive():
                    return None
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return collector.outputs
            collector.add(message["msg_type"], message["content"])


@asynccontextmanager
async def scratch_folder() -> AsyncIterator[tuple[ScratchFolder, subprocess.Popen[bytes]]]:
    """Make a folder; a watching process deletes it in any case."""
    path = _new_folder()
    command = [PYTHON, "-I", "-S", str(Path(scratch_watch.__file__)), str(path)]
    watch = subprocess.Popen(  # noqa: S603, ASYNC220 - starts in a millisecond
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        project = path / "project"
        project.mkdir()
        yield ScratchFolder(path, project), watch
    finally:
        await uninterrupted(asyncio.ensure_future(run_in_thread(watch.communicate)))


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="planck-verify-")).resolve()


@asynccontextmanager
async def scratch_kernel(
    folder: ScratchFolder, watch: subprocess.Popen[bytes], environment: Mapping[str, str]
) -> AsyncIterator[ScratchKernel]:
    """Start a kernel in a folder, and end it.

    Args:
        folder: The folder.
        watch: The process that ends the kernel with this one.
        environment: Its variables.

    Raises:
        PlanckError: It does not start.
    """
    manager = AsyncKernelManager(
        kernel_spec_manager=_ThisPython(), connection_file=str(folder.path / "kernel.json"), kernel_name="scratch"
    )
    manager.shutdown_wait_time = _SHUTDOWN_SECONDS
    client: AsyncKernelClient | None = None
    try:
        await manager.start_kernel(
            cwd=str(folder.project),
            env=dict(environment),
            stdout=subprocess.DEVNULL,  # this kernel would show it below its last cell
            stderr=subprocess.DEVNULL,
            extra_arguments=["--HistoryManager.hist_file=:memory:"],
        )
        _report(watch, manager)
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=_START_SECONDS)
        except RuntimeError as error:
            raise PlanckError(
                "The scratch kernel does not start; open the notebook with a new kernel to see why."
            ) from error
        yield ScratchKernel(manager, client)
    finally:
        if client is not None:
            client.stop_channels()
        await uninterrupted(asyncio.ensure_future(_end(manager)))


def _report(watch: subprocess.Popen[bytes], manager: AsyncKernelManager) -> None:
    process = getattr(manager.provisioner, "pid", None)
    if process is not None and watch.stdin is not None:
        with suppress(OSError):
            watch.stdin.write(b"%d\n" % process)
            watch.stdin.flush()


async def _end(manager: AsyncKernelManager) -> None:
    if manager.has_kernel:
        with suppress(Exception):  # it may have ended by itself; the watching process kills what is left
            await manager.shutdown_kernel()
    manager.cleanup_resources()


async def in_thread(function: Callable[[threading.Event], None]) -> None:
    """Call a function in a thread; a cancellation sets the event.

    Args:
        function: Takes the event, and returns soon after it was set.
    """
    stop = threading.Event()
    work = asyncio.ensure_future(run_in_thread(partial(function, stop)))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work])
        raise
