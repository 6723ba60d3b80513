"""A session whose process stops in the middle of one step, to be killed there."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from support.stored import with_updates

from planck_nb.ai.messages import SummaryMessage, UserMessage
from planck_nb.sessions import Session

TEXT = "a message of some words"


def halt_in(directory: Path, name: str, step: str, place: str, when: str) -> None:
    """Write some rows, print what was acknowledged, then take the step and stop for good at a place in it.

    A place is "module:function"; it is stopped "before" or "after" its next call, or where it has written "half" of
    what it was given. That it stopped there is told by the line "halted". For child processes.
    """
    asyncio.run(_halt_in(directory, name, step, place, when))


async def _halt_in(directory: Path, name: str, step: str, place: str, when: str) -> None:
    # Nothing is materialized except by the step.
    session = with_updates(Session.create(directory, name=name), pause=1e6, segment_bytes=sys.maxsize)
    for agent in "abcabc":
        print(await session.append(agent, UserMessage(TEXT)), TEXT, flush=True)
    session.materialize()
    for agent in "abcabc":
        print(await session.append(agent, UserMessage(TEXT)), TEXT, flush=True)
    await session.truncate_after(10)
    print("rewind", flush=True)
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "summary": lambda: session.append("a", SummaryMessage(TEXT, kept=[1, 4])),
        "rewind": lambda: session.truncate_after(5),
        "materialize": lambda: asyncio.to_thread(session.materialize),
        "rotation": lambda: asyncio.to_thread(_rotate, session),
    }
    _stop_at(place, when)
    await steps[step]()


def _rotate(session: Session) -> None:
    session._materializer._segment_bytes = 1
    session.materialize()


def _stop_at(place: str, when: str) -> None:
    module, _, path = place.partition(":")
    *owners, function = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    real = getattr(owner, function)

    def stopping(*args: Any, **options: Any) -> Any:
        if when == "half":
            descriptor, data, offset = args
            real(descriptor, data[: len(data) // 2], offset)
        elif when == "after":
            real(*args, **options)
        print("halted", flush=True)
        threading.Event().wait()

    setattr(owner, function, stopping)


if __name__ == "__main__":
    halt_in(Path(sys.argv[1]), *sys.argv[2:])
    os._exit(1)  # it was to be killed
