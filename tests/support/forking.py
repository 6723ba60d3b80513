"""A process with an open session that forks in every way while its threads work: `python -m support.forking DIRECTORY`.

It prints a line for each child: how it ended and how the parent saw it end.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session, query_async
from planck_nb.tools.output_capture import spill_folder

PATIENCE = 30.0


def use(session: Session) -> None:
    """What a child may try with the session of its parent."""
    try:
        asyncio.run(session.append("a", UserMessage("from the child")))
        os._exit(3)
    except SessionError as error:
        if "is open in the parent process" not in str(error):
            os._exit(4)
    session.messages()
    session.log("a").messages()
    session.close()


def hang(_: Session) -> None:
    """Live on, as an orphaned pool of workers does."""
    for descriptor in range(3):
        os.close(descriptor)
    time.sleep(3600)


def execute(_: Session) -> None:
    """Become another program."""
    os.execv("/bin/sh", ["sh", "-c", "exit 0"])


ENDINGS: dict[str, Callable[[Session], None]] = {
    "returns": lambda _session: None,
    "uses": use,
    "exits": lambda _session: sys.exit(0),
    "exits at once": lambda _session: os._exit(0),
    "executes": execute,
    "hangs": hang,
}


def fork(session: Session, ending: str) -> int:
    """Fork a child that ends like a program does, with everything that is registered for its exit."""
    child = os.fork()
    if child == 0:
        ENDINGS[ending](session)
        sys.exit(0)
    return child


def wait(child: int) -> str:
    """Return how a child ended."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(0.02)
    return "still runs"


def main(directory: Path) -> None:
    """Fork while a loop on another thread appends and queries."""
    session = Session.create(directory, name="parent")
    (spill_folder() / "output").write_text("kept")
    stopping = False
    acknowledged: list[int] = []

    async def append() -> None:
        while not stopping:
            acknowledged.append(await session.append("a", UserMessage(f"message {len(acknowledged)}")))
            await asyncio.sleep(0.001)

    async def ask() -> None:
        while not stopping:
            await query_async(directory, "select count(*) from messages")
            session.log("a").messages()
            session.materialize()

    async def both() -> None:
        await asyncio.gather(append(), ask())

    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    worker = threading.Thread(target=run, args=(both(),))
    worker.start()
    while len(acknowledged) < 5:
        time.sleep(0.01)
    if sys.argv[2] == "close":
        fork_all(session)
    hanging = fork(session, "hangs")
    stopping = True
    worker.join()
    print("acknowledged", *acknowledged, flush=True)
    print("hangs", hanging, flush=True)
    if sys.argv[2] == "close":
        session.close()
        print("closed", flush=True)
    else:
        sys.stdin.read()


def fork_all(session: Session) -> None:
    """Fork and start processes in every way, and print how they end."""
    for ending in (ending for ending in ENDINGS if ending != "hangs"):
        for _ in range(3):
            print(ending, wait(fork(session, ending)), flush=True)
    process = multiprocessing.get_context("fork").Process(target=use, args=(session,))
    process.start()
    process.join(PATIENCE)
    print("multiprocessing", process.exitcode, flush=True)
    print("subprocess", subprocess.run(["/bin/sh", "-c", "exit 0"], check=False).returncode, flush=True)
    print("spilled", (spill_folder() / "output").exists(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
