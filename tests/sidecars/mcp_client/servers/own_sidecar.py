"""A sidecar written with planck_nb, as its users write one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from planck_nb.sidecars import Sidecar, ToolError, run

sidecar = Sidecar("own", version="3")


@sidecar.tool(timeout_ms=5_000)
async def shout(text: str) -> str:
    """Return the text in capitals."""
    return text.upper()


@sidecar.tool
def count(text: str) -> int:
    """Count the letters of a text."""
    return len(text)


@sidecar.tool
async def fail() -> str:
    """Fail."""
    raise ToolError("this cannot be done")


@sidecar.tool
async def sleep(path: str) -> str:
    """Start a process and wait for it."""
    code, output = await run("sh", "-c", f"echo $$ > {path}; sleep 300")
    return f"{code} {output}"


@sidecar.compactor(timeout_ms=20_000)
def newest(messages: Any, _model: Any) -> Any:
    """Keep the newest message."""
    return f"{len(messages)} messages", messages[-1:]


@sidecar.observer
def note(events: Any, session_id: str) -> None:
    """Note the events."""
    with Path(os.environ["STATE"], "noted").open("a") as file:
        for event in events:
            kind = event["type"] if isinstance(event, dict) else event.type
            file.write(f"{session_id} {kind}\n")
