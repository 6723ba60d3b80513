"""The process for sync tools, with one call at a time.

It is killed if the call is cancelled.

The sources' digests, requests and replies are JSON objects, one a line, on the former standard input and output; tools'
prints go to standard error. When the sidecar ends, the process ends with everything started by it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any, cast

from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.author.call_results import call_result, failure
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.resource_changes import add_listener
from planck_nb.tools.watchdog import ProcessTree, send
from planck_nb.tools.watchdog_process import MARK


class _Wire:
    """The pipes to the sidecar, away from tools' standard input and output."""

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
        """Read requests until the pipe's end, then end this process.

        Its children end, too.
        """
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
"""Number of searches for processes which left the group."""


def _end() -> None:
    """End this process and everything started by it."""
    tree = ProcessTree(_MARK)
    for _ in range(_ROUNDS if _MARK[-1:] != b"=" else 0):
        if not (remaining := [process for process in tree.running() if process != os.getpid()]):
            break
        send(signal.SIGKILL, [], remaining)
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main(reference: str) -> None:
    """Serve a sidecar's tools to the parent process.

    Args:
        reference: The sidecar's entry as "module:name".
    """
    wire = _Wire()
    threading.Thread(target=wire.read, name="planck-requests", daemon=True).start()
    add_listener(lambda uri: wire.send({"resource_changed": uri}))
    try:
        live = LiveOffer(reference, cast("Mapping[str, str]", wire.requests.get()))
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
    fields: Any = request
    tool = live.offer.tools.get(fields["name"])
    if tool is None:
        return failure(
            f"{fields['name']} is not found in a new process: declare it whenever its module is imported, or with "
            "process=False."
        )
    return await call_result(
        tool,
        fields["args"],
        agent_id=fields["agent_id"],
        call_id=fields["call_id"],
        progress=lambda text: wire.send({"progress": text}),
    )
