"""The live view of a run: a widget that shows what the agent does while it does it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypedDict

import anywidget
import traitlets

from planck_nb.agent.events import AgentEvent
from planck_nb.base.aio import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.base.event_log import EventLog
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.formatting import bounded
from planck_nb.jupyter.live.browser_commands import Actions, read_command, text_of_command
from planck_nb.jupyter.live.frame_throttle import FrameThrottle, kernel_frame_throttle
from planck_nb.jupyter.live.frames import FrameEncoder

_STATIC = Path(__file__).parents[1] / "static"
_FIRST_PAUSE = 0.5
_UNHEARD_BYTES = 64_000
_COPIED_CHARACTERS = 100_000


class RunSummary(TypedDict):
    """What is left to say of a run that is over. `cost` is in US dollars, None where no price is known."""

    outcome: Literal["done", "stopped", "failed"]
    seconds: float
    tokens: int
    cost: float | None
    model: str
    text: str


class LiveView(anywidget.AnyWidget):
    """Shows the events of `log` as they are appended, until `finish` folds it into a slim bar.

    The browser holds what it has been sent and asks for everything again when it has missed something, so a reload or
    a slow connection loses nothing. What people do in it comes to `actions`, on the loop that the view was made on;
    `on_connect` is called there when the first browser has made itself heard. Without a running loop, or without a
    kernel, the view is inert.
    """

    _esm = _STATIC / "live.js"
    _css = _STATIC / "live.css"
    agent = traitlets.Unicode().tag(sync=True)
    model = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode("live").tag(sync=True)
    summary = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        log: EventLog[AgentEvent],
        *,
        agent: str,
        model: str,
        actions: Actions,
        on_connect: Callable[[], None] | None = None,
        throttle: FrameThrottle | None = None,
    ) -> None:
        self._log = log
        self._actions: Actions | None = actions
        self._on_connect = on_connect
        self._encoder = FrameEncoder()
        self._position = 0
        self._greeted = asyncio.Event()
        self._resync: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(agent=agent, model=model)
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        if self._loop is not None:
            self._painter = throttle or kernel_frame_throttle()
            self._follower = spawn(self._follow(), name="planck live view")
            self.on_msg(self._hear)

    @property
    def connected(self) -> bool:
        """Whether a browser has made itself heard: somebody can be asked."""
        return self._greeted.is_set()

    def finish(self, summary: RunSummary) -> None:
        """Send what is still unsent, then let the browser fold the view. Call it on the view's loop; once is enough."""
        if self.phase == "done":
            return
        for task in (self._follower, self._resync):
            if task is not None:
                task.cancel()
        if self._greeted.is_set():
            self._send_frame()
        else:
            self._send_small_snapshot()
        with self.hold_sync():
            self.summary = {**summary, "text": bounded(summary["text"], _COPIED_CHARACTERS)}
            self.phase = "done"
        self._log = EventLog()  # ipywidgets keeps every widget until the kernel ends; the run need not stay with it
        self._actions = self._on_connect = None

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[JsonObject, JsonObject]:  # noqa: ANN401 - IPython's
        """The widget, and for whoever cannot show it nothing: the static output below says it all."""
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return {**data, "text/plain": "", "text/html": ""}, metadata

    async def _follow(self) -> None:
        await self._until_greeted()
        log = self._log
        while not (log.closed and self._position >= log.end):
            await log.wait_beyond(self._position)
            await self._painter.turn()
            self._send_frame()

    async def _until_greeted(self) -> None:
        """Wait for a browser.

        Frames sent before its first message are lost. It may also be there and unable to make itself heard, while the
        cell blocks the kernel's messages, so a snapshot goes out now and then as long as it is small.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                await asyncio.wait_for(self._greeted.wait(), pause)
            except TimeoutError:
                pause *= 2
            else:
                return
            if self._log.end > self._position:
                await self._painter.turn()
                self._send_small_snapshot()

    def _hear(self, _widget: object, content: object, _buffers: object) -> None:
        """A message of the browser, maybe on a thread of the kernel's that owns neither the run nor this view."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the kernel is on its way out
                self._loop.call_soon_threadsafe(self._act, content)

    def _act(self, message: object) -> None:
        if self._actions is None:
            return
        match message:
            case {"type": "resync"}:
                if self._resync is None or self._resync.done():
                    self._resync = spawn(self._send_everything(), name="planck live view resync")
            case _:
                self._do(message, self._actions)

    def _do(self, message: object, actions: Actions) -> None:
        """Have a wish done; say why where it cannot be."""
        command = read_command(message, self._asked)
        if command is None:
            return
        try:
            command(actions)
        except PlanckError as error:
            self.send({"type": "refused", "reason": bounded(str(error), 2_000), "text": text_of_command(message)})

    def _asked(self, call_id: str) -> JsonObject:
        for event in reversed(self._log.since(0)):
            if event.type == "approval_request" and event.id == call_id:
                return event.args
        return {}

    async def _send_everything(self) -> None:
        await self._painter.turn()
        self.send(self._snapshot())
        if self._greeted.is_set():
            return
        self._greeted.set()
        if self._on_connect is not None:
            self._on_connect()

    def _send_frame(self) -> None:
        start, events = self._position, self._log.since(self._position)
        if events:
            self._position = start + len(events)
            encoded = self._encoder.encode(events)
            self.send({"type": "frame", "from": start, "to": self._position, "now": self._now(), "events": encoded})

    def _send_small_snapshot(self) -> None:
        snapshot = self._snapshot()
        if len(json.dumps(snapshot)) <= _UNHEARD_BYTES:
            self.send(snapshot)

    def _snapshot(self) -> JsonObject:
        """Everything so far. Frames go on from here."""
        self._encoder = FrameEncoder()
        events = self._encoder.encode(self._log.since(0))
        self._position = self._log.end
        return {"type": "snapshot", "to": self._position, "now": self._now(), "events": events}

    def _now(self) -> float:
        """The kernel's time on the clock of the encoded events, so that the browser's need not agree with it."""
        return 0.0 if self._encoder.origin is None else round(time.time() - self._encoder.origin, 3)
