"""The process that runs sync tools of a sidecar, one call at a time; it is killed if the call is cancelled.

Requests and replies are JSON objects, one a line, on what were standard input and output; what tools print goes to
standard error. When the sidecar ends, the process ends with everything that it started.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import Any

from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.author.call_results import call_result, failure
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.resource_changes import add_listener
from planck_nb.tools.watchdog import ProcessTree, send
from planck_nb.tools.watchdog_process import MARK


class _Wire:
    """The pipes to the sidecar, moved away from the descriptors that tools and their children write to."""

    def __init__(self) -> None:
        self._inbound = os.fdopen(os.dup(0), "rb")
        self._outbound = os.dup(1)
        self._lock = threading.Lock()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self.requests: SimpleQueue[JsonObject] = SimpleQueue()

    def read(self) -> None:
        """Read requests until the sidecar closes the pipe; then end this process and its children."""
        for line in self._inbound:
            self.requests.put(json.loads(line))
        _end()

    def send(self, message: JsonObject) -> None:
        """Send a message, from any thread."""
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._outbound, data) :]
            except BrokenPipeError:
                _end()


_MARK = f"{MARK}={os.environ.get(MARK, '')}".encode()
_ROUNDS = 5
"""How often processes that left the group are looked for."""


def _end() -> None:
    """End this process and everything that it started."""
    tree = ProcessTree(_MARK)
    for _ in range(_ROUNDS if _MARK[-1:] != b"=" else 0):
        if not (others := [process for process in tree.running() if process != os.getpid()]):
            break
        send(signal.SIGKILL, [], others)
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main(reference: str) -> None:
    """Serve the tools of a sidecar to the process that started this one.

    Args:
        reference: The entry of the sidecar as "module:name".
    """
    wire = _Wire()
    threading.Thread(target=wire.read, name="planck-requests", daemon=True).start()
    add_listener(lambda uri: wire.send({"resource_changed": uri}))
    try:
        live = LiveOffer(reference)
    except PlanckError as error:
        wire.requests.get()
        wire.send({"result": failure(str(error))})
        return
    with asyncio.Runner() as runner:
        while True:
            request = wire.requests.get()
            wire.send({"result": runner.run(_answer(live, wire, request))})
            sys.stdout.flush()
            sys.stderr.flush()


async def _answer(live: LiveOffer, wire: _Wire, request: JsonObject) -> JsonObject:
    given: Any = request
    tool = live.offer.tools.get(given["name"])
    if tool is None:
        return failure(
            f"{given['name']} is not found in a new process: declare it whenever its module is imported, or with "
            "process=False."
        )
    return await call_result(
        tool,
        given["args"],
        agent_id=given["agent_id"],
        call_id=given["call_id"],
        progress=lambda text: wire.send({"progress": text}),
    )
