"""Processes for sync tools: one for each concurrent call.

They are reused while the code stays the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from planck_nb.base.async_tasks import spawn
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.author.call_results import failure
from planck_nb.sidecars.author.process_groups import ON_POSIX, ProcessGroup
from planck_nb.sidecars.author.resource_changes import resource_changed
from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES
from planck_nb.tools.watchdog_process import MARK

_LINE = 4 * MAX_MESSAGE_BYTES
"""Longest line in bytes: JSON may encode a character with several."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from planck_nb.sidecars.author.worker import main; main(sys.argv[2])"
)


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """A call to a sync tool.

    Args:
        name: The tool's name.
        args: The arguments object.
        agent_id: The calling agent's id.
        call_id: The call's id.
        progress: Called with text to show while the tool runs.
    """

    name: str
    args: JsonObject
    agent_id: str
    call_id: str
    progress: Callable[[str], None]


class WorkerPool:
    """A pool of processes for sync tools.

    Args:
        reference: The sidecar's entry as "module:name", which each process imports.
        max_processes: Largest number of processes; further calls wait.
        digests: Returns the digests of the sidecar's sources, by file.
    """

    def __init__(self, reference: str, max_processes: int, digests: Callable[[], Mapping[str, str]]) -> None:
        self._reference = reference
        self._digests = digests
        self._slots = asyncio.Semaphore(max_processes)
        self._idle: list[_Worker] = []
        self._generation = 0

    async def call(self, call: WorkerCall) -> JsonObject:
        """Run a tool and return its result.

        Cancelling this kills its process at once.
        """
        async with self._slots:
            generation = self._generation
            worker = self._idle.pop() if self._idle else await _Worker.start(self._reference, self._digests())
            try:
                result = await worker.call(call)
            except BaseException:
                worker.kill()
                raise
            if worker.is_alive and generation == self._generation:
                self._idle.append(worker)
            else:
                worker.kill()
            return result

    def renew(self) -> None:
        """Let further calls use new processes, because the code has changed."""
        self._generation += 1
        while self._idle:
            self._idle.pop().kill()

    async def aclose(self) -> None:
        """End the idle processes; the others end with their calls."""
        idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()
        await asyncio.gather(*(worker.ended() for worker in idle))


class _Worker:
    """A process in the pool."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process = process
        self._group = ProcessGroup(process.pid, mark)

    @classmethod
    async def start(cls, reference: str, digests: Mapping[str, str]) -> _Worker:
        mark = secrets.token_hex(12)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # before the path is set, nothing in the working directory is imported
            *(["-I"] if sys.flags.isolated else []),
            *(["-S"] if sys.flags.no_site else []),
            "-c",
            _PROGRAM,
            json.dumps([path or os.getcwd() for path in sys.path]),  # noqa: PTH109 - a string
            reference,
            env={**os.environ, MARK: mark},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE,
            start_new_session=ON_POSIX,
        )
        worker = cls(process, mark)
        worker.write(digests)
        return worker

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    def write(self, message: Mapping[str, object]) -> asyncio.StreamWriter:
        if (stdin := self._process.stdin) is None:
            raise RuntimeError("The process was started without pipes.")
        stdin.write(json.dumps(dict(message)).encode() + b"\n")
        return stdin

    async def call(self, call: WorkerCall) -> JsonObject:
        request = {"name": call.name, "args": call.args, "agent_id": call.agent_id, "call_id": call.call_id}
        if (stdout := self._process.stdout) is None:
            raise RuntimeError("The process was started without pipes.")
        with suppress(ConnectionError):  # it has died; reading finds out how
            await self.write(request).drain()
        while line := await _read_line(stdout):
            message = json.loads(line)
            if "result" in message:
                return cast("JsonObject", message["result"])
            if "resource_changed" in message:
                resource_changed(message["resource_changed"])
            else:
                call.progress(message["progress"])
        return failure(_death(call.name, await self._process.wait()))

    def kill(self) -> None:
        """Kill the process with everything started by it."""
        self._group.kill()
        spawn(self.ended(), name="planck-reap-worker")

    async def ended(self) -> None:
        """Wait for the process's end."""
        await self._process.wait()
        self._group.ended()


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, empty at the end.

    It is also empty if the process was killed while it wrote a line.
    """
    try:
        line = await stream.readline()
    except (ValueError, ConnectionError):
        return b""
    return line if line.endswith(b"\n") else b""


def _death(name: str, code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"{name} failed: its process was ended by {signal.Signals(-code).name}."
    return f"{name} failed: it ended its process with the exit status {code}."
