"""Sidecars of the tests: real processes, started through the link."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks, LinkTiming
from planck_nb.sidecars.mcp_client.link.status import SidecarEvent, SidecarState
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

SERVERS = Path(__file__).parents[1] / "sidecars" / "mcp_client" / "servers"
FAST = LinkTiming(start=30, first_delay=0.05, longest_delay=0.2, stop_grace=0.5, question=30)


def hostile(state: Path, mode: str = "", *, name: str = "hostile", **more: Any) -> SidecarSpec:
    """The server that misbehaves when asked to; it keeps its notes in `state`."""
    env = {"STATE": str(state), **more.pop("env", {})}
    args = ("-I", "-S", str(SERVERS / "hostile_sidecar.py"), mode)
    return SidecarSpec(name, command=sys.executable, args=args, env=env, **more)


class Events:
    """Records the events of links, and waits for one."""

    def __init__(self) -> None:
        self.all: list[SidecarEvent] = []
        self._new = asyncio.Event()

    def __call__(self, event: SidecarEvent) -> None:
        self.all.append(event)
        self._new.set()

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.all]

    async def until(self, kind: str, count: int = 1) -> SidecarEvent:
        async with asyncio.timeout(60):
            while self.kinds.count(kind) < count:
                self._new.clear()
                await self._new.wait()
        return [event for event in self.all if event.kind == kind][count - 1]


class Impatient:
    """A person who goes on without the sidecars that a prompt waits for, as soon as `enough` is set."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.enough = asyncio.Event()
        self.waited_for: list[list[str]] = []
        if at_once:
            self.enough.set()

    def update(self, names: Sequence[str]) -> None:
        self.waited_for.append(list(names))

    async def left(self) -> None:
        await self.enough.wait()


def impatient(_names: Sequence[str]) -> AbstractContextManager[Impatient]:
    """Show a wait to a person who does not wait at all."""
    return nullcontext(Impatient(at_once=True))


@asynccontextmanager
async def running(
    spec: SidecarSpec, *, timing: LinkTiming = FAST, callbacks: LinkCallbacks | None = None, **options: Any
) -> AsyncIterator[tuple[SidecarLink, Events]]:
    """The link to a sidecar that runs, and its events."""
    events = Events()
    link = SidecarLink(spec, callbacks=replace(callbacks or LinkCallbacks(), on_event=events), timing=timing, **options)
    await link.start()
    try:
        yield link, events
    finally:
        await link.stop()


async def until_file(path: Path) -> str:
    """The content of a file, as soon as another process has written it."""
    found = ""

    def is_written() -> bool:
        nonlocal found
        found = path.read_text() if path.exists() else ""
        return bool(found)

    await until(is_written)
    return found


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for another process, which has no way to tell us."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - as it says
            await asyncio.sleep(0.005)


async def until_state(link: SidecarLink, state: SidecarState) -> None:
    await until(lambda: link.status().state == state)


async def json_of(link: SidecarLink, tool: str, **args: Any) -> Any:
    """The result of a tool that answers in JSON."""
    return json.loads((await link.call(tool, args)).text)
