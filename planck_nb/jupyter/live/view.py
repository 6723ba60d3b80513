"""A run's live view: a widget which shows the agent at work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, NotRequired, TypedDict

import traitlets

from planck_nb.agent.events import AgentEvent
from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.base.event_log import EventLog
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.browser_commands import Actions, agent_of_command, read_command, text_of_command
from planck_nb.jupyter.live.browser_requests import RunRequests, reply_to
from planck_nb.jupyter.live.frame_sender import FrameSender, kernel_frame_sender
from planck_nb.jupyter.live.frame_throttle import FrameThrottle, kernel_frame_throttle
from planck_nb.jupyter.live.frames import FrameEncoder
from planck_nb.jupyter.live.run_actions import RUN_IS_OVER
from planck_nb.jupyter.live.widget import Widget, digest_of
from planck_nb.rendering.formatting import bounded

FIRST_PAUSE = 0.5
_UNCONFIRMED_BYTES = 64_000
_COPIED_CHARACTERS = 100_000
_KEPT_RUNS = 50
_MAX_PAGES = 1_000
_PAGE_CHARACTERS = 100
_CHANGING_FACTS = frozenset({"turn_start", "worker_spawned"})
"""Types of events after which limits and aliases may have changed."""

_FINISHED: deque[LiveView] = deque()
"""The latest finished runs' views, to show again in reloaded pages."""

_STATIC = Path(__file__).parents[1] / "static"

LOADER = _STATIC / "loader.js"
"""Every view's anywidget module.

It only requests the code, which a page gets once.
"""


class RunSummary(TypedDict):
    """The view's contents for a finished run.

    `spent` is tokens and cost in words; `cost` is in US dollars, None for an unknown price. `trouble` counts failed
    calls. `ending` is a title and a sentence about an unusual end. `key_variable` is the API key's environment
    variable, if the run has failed because of the key.
    """

    outcome: Literal["done", "stopped", "failed", "cut off", "refused", "no answer"]
    seconds: float
    spent: tuple[str, str]
    cost: float | None
    model: str
    text: str
    trouble: NotRequired[str]
    ending: NotRequired[tuple[str, str] | None]
    key_variable: NotRequired[str]


class LiveView(Widget):
    """A run's events as they are appended, until `finish` collapses it.

    The browser keeps earlier messages and requests everything again after a gap, so a reload or a slow connection loses
    nothing. Without a running event loop, or without a kernel, the view is idle.

    Args:
        log: The run's events, from one agent or several.
        agent: The name of the run's agent.
        actions: Performs the user's actions, on the event loop on which the view was created.
        on_connect: Called on the same loop when the first browser has connected.
        clicks: Whether messages from the browser arrive during the run. If not, the view sends to a silent browser, and
            tells the user to stop the run by interrupting the kernel.
        members: Returns the agents in the run's team in the browser's form, an empty sequence for a single agent;
            called for each snapshot. Workers which join later come as events.
        facts: Returns facts outside the run's events, as `RunAgents.facts` does; called for each snapshot, and when an
            agent begins a turn, because its limits and model may have changed.
        throttle: Limits how often the view sends; None for the throttle which the kernel's views share.
        marker: Class name for the run's saved HTML in the same cell. Where this HTML is missing, the view stays open
            when the run ends.
        first_pause: Seconds until the first snapshot for a browser without a message so far.
    """

    script = _esm = LOADER
    code = traitlets.Bytes().tag(sync=True)
    """The view's code, in the kernel's first view until a browser connects.

    Other views request it.
    """
    agent = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode("live").tag(sync=True)
    summary = traitlets.Dict().tag(sync=True)
    clicks = traitlets.Bool(default_value=True).tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)
    """The view's identifier in a page, for frames with several views."""
    marker = traitlets.Unicode().tag(sync=True)
    """Class name for the run's HTML in the same cell.

    Without that HTML the view stays open; empty for a run without HTML.
    """
    shown = traitlets.Bool(default_value=False).tag(sync=True)
    """True once a page has shown the whole answer after the run."""

    _ipython_display_ = None
    """Makes ipywidgets 7 use `_repr_mimebundle_`, as later versions do."""

    def __init__(
        self,
        log: EventLog[AgentEvent],
        *,
        agent: str,
        actions: Actions,
        on_connect: Callable[[], None] | None = None,
        clicks: bool = True,
        members: Callable[[], Sequence[JsonObject]] = tuple,
        facts: Callable[[], JsonObject] = dict,
        throttle: FrameThrottle | None = None,
        marker: str = "",
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._log = log
        self._first_pause = first_pause
        self._actions: Actions | None = actions
        self._on_connect = on_connect
        self._members = members
        self._facts = facts
        self._sent_facts: JsonObject = {}
        self._encoder = FrameEncoder()
        self._position = 0
        self._connected_event = asyncio.Event()
        self._resync: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pages: frozenset[str] = frozenset()
        self._requests: RunRequests | None = None
        self._is_rendered = False
        super().__init__(agent=agent, clicks=clicks, marker=marker, key=token_hex(8), code=_FIRST_CODE.take())
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        if self._loop is not None:
            self._throttle = throttle or kernel_frame_throttle()
            self._sender = kernel_frame_sender() if throttle is None else FrameSender(throttle)
            follow = self._follow() if clicks else self._follow_unheard()
            self._follower = spawn(follow, name="planck live view")
            self.on_msg(self._receive)

    @property
    def connected(self) -> bool:
        """Return whether a browser has connected and its user can be asked."""
        return self._connected_event.is_set()

    @property
    def is_missing(self) -> bool:
        """Return whether the newest page lacks the finished run's answer.

        The pages' reports decide that.

        After a reload this means: the notebook was not saved since the cell began.
        """
        return self.phase == "done" and not (self._is_rendered if len(self._pages) > 1 else self.shown)

    def finish(self, summary: RunSummary, *, saved: bool = False, requests: RunRequests | None = None) -> None:
        """Send the remaining events, then collapse the view.

        Call it on the view's loop; further calls have no effect.

        Args:
            summary: The collapsed view's contents.
            saved: Whether the HTML for `marker` was displayed; the view stays open where it is missing.
            requests: Fulfils the user's requests in the collapsed view.
        """
        if self.phase == "done":
            return
        for task in (self._follower, self._resync):
            if task is not None:
                task.cancel()
        if self._connected_event.is_set():
            self._send_frame()
        else:
            self._send_small_snapshot()
        with self.hold_sync():
            self.code = b""
            self.marker = self.marker if saved else ""
            self.summary = {**summary, "text": bounded(summary["text"], _COPIED_CHARACTERS)}
            self.phase = "done"
        _FINISHED.append(self)
        if len(_FINISHED) > _KEPT_RUNS:
            _FINISHED.popleft().forget()
        self._actions = self._on_connect = None
        self._requests = requests
        members, facts = list(self._members()), self._facts()
        self._members, self._facts = lambda: members, lambda: facts

    def forget(self) -> None:
        """Forget the run's events.

        ipywidgets keeps every widget until the kernel ends.
        """
        self._log = EventLog()
        self._members, self._facts = tuple, dict
        self._requests = None

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[JsonObject, JsonObject]:  # noqa: ANN401 - IPython's
        """Return the widget, and empty text for frontends without widgets.

        The static output below has everything.
        """
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return {**data, "text/plain": "", "text/html": ""}, metadata

    async def _follow(self) -> None:
        await self._wait_for_browser()
        log = self._log
        while not (log.closed and self._position >= log.end):
            await log.wait_beyond(self._position)
            await self._sender.send(self)

    async def _follow_unheard(self) -> None:
        """Send to browsers whose messages do not arrive.

        They get frames, and snapshots in case they have missed some.

        The longer a snapshot is, the less often it is sent.
        """
        log, loop = self._log, asyncio.get_running_loop()
        due = loop.time()
        while not (log.closed and self._position >= log.end):
            await log.wait_beyond(self._position)
            await self._throttle.turn()
            if loop.time() < due:
                self._send_frame()
                continue
            snapshot = self._snapshot()
            self.send(snapshot)
            due = loop.time() + self._first_pause * max(1, len(json.dumps(snapshot)) / _UNCONFIRMED_BYTES)

    async def _wait_for_browser(self) -> None:
        """Wait until a browser has connected.

        Frames before its first message are lost. While the cell blocks the kernel's messages, a browser's first message
        may be waiting, so small snapshots are sent from time to time.
        """
        pause = self._first_pause
        while True:
            try:
                await asyncio.wait_for(self._connected_event.wait(), pause)
            except TimeoutError:
                pause *= 2
            else:
                return
            if self._log.end > self._position:
                await self._throttle.turn()
                self._send_small_snapshot()

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Handle a message from the browser, perhaps on a foreign kernel thread.

        The thread may own neither the run nor this view.
        """
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the kernel is on its way out
                self._loop.call_soon_threadsafe(self._handle, content)

    def _handle(self, message: object) -> None:
        if self._handle_page(message):
            return
        if self._actions is None:
            if text := text_of_command(message):
                self._refuse(message, RUN_IS_OVER, text)
        elif message == {"type": "resync"}:
            if self._resync is None or self._resync.done():
                self._resync = spawn(self._send_everything(), name="planck live view resync")
        else:
            self._execute(message, self._actions)

    def _handle_page(self, message: object) -> bool:
        """Handle a message about the page rather than the run.

        Returns whether it is one.
        """
        match message:
            case {"type": "load", "file": str(file)}:
                if (code := code_of(file)) is not None:
                    self.send({"type": "code", "file": file}, [code])
            case {"type": "page", "page": str(page)}:
                self.code = b""
                if page not in self._pages and len(self._pages) < _MAX_PAGES:
                    self._pages |= {page[:_PAGE_CHARACTERS]}
                    self._is_rendered = False
            case {"type": "rendered"}:
                self._is_rendered = True
            case {"type": "shown"}:
                self.shown = self.phase == "done"
                self._is_rendered = True
            case {"type": "request", "id": str(request_id), "does": str(name)}:
                spawn(self._reply(request_id, name), name="planck live view request")
            case {"type": "resync"} if self.phase == "done":
                self.send(self._snapshot() if self._log.end else {"type": "gone"})
            case _:
                return False
        return True

    async def _reply(self, request_id: str, name: str) -> None:
        self.send(await reply_to(request_id, name, self._requests))

    def _execute(self, message: object, actions: Actions) -> None:
        """Execute a command from the browser; if it fails, send the reason."""
        command = read_command(message, self._arguments_of)
        if command is None:
            return
        try:
            command(actions)
        except PlanckError as error:
            self._refuse(message, bounded(str(error), 2_000), text_of_command(message))

    def _refuse(self, message: object, reason: str, text: str) -> None:
        """Send why a command failed, with the user's text, to its origin."""
        agent = {} if (agent_id := agent_of_command(message)) is None else {"agent_id": agent_id}
        self.send({"type": "refused", "reason": reason, "text": text, **agent})

    def _arguments_of(self, agent_id: str | None, call_id: str) -> JsonObject:
        """Return the arguments in the call's newest approval request."""
        for event in reversed(self._log.since(0)):
            if event.type == "approval_request" and event.id == call_id and agent_id in {None, event.agent_id}:
                return event.args
        return {}

    async def _send_everything(self) -> None:
        await self._throttle.turn()
        self.send(self._snapshot())
        if self._connected_event.is_set():
            return
        self._connected_event.set()
        if self._on_connect is not None:
            self._on_connect()

    @property
    def pages(self) -> frozenset[str]:
        """Return the browsers' connected pages."""
        return self._pages

    def next_frame(self) -> JsonObject | None:
        """Return the unsent events, if any; the next frame continues behind them."""
        start, events = self._position, self._log.since(self._position)
        if not events:
            return None
        self._position = start + len(events)
        frames = self._encoder.encode(events)
        frame: JsonObject = {"type": "frame", "from": start, "to": self._position, "now": _now(), "events": frames}
        if any(event.type in _CHANGING_FACTS for event in events) and (facts := self._facts()) != self._sent_facts:
            self._sent_facts = frame["facts"] = facts
        return frame

    def _send_frame(self) -> None:
        if (frame := self.next_frame()) is not None:
            self.send(frame)

    def _send_small_snapshot(self) -> None:
        snapshot = self._snapshot()
        if len(json.dumps(snapshot)) <= _UNCONFIRMED_BYTES:
            self.send(snapshot)

    def _snapshot(self) -> JsonObject:
        """Return everything so far; the next frame continues here."""
        self._encoder = FrameEncoder()
        events = self._encoder.encode(self._log.since(0))
        self._position = self._log.end
        snapshot: JsonObject = {"type": "snapshot", "to": self._position, "now": _now(), "events": events}
        self._sent_facts = self._facts()
        additions = {"members": list(self._members()), "facts": self._sent_facts}
        return {**snapshot, **{name: value for name, value in additions.items() if value}}


def _now() -> float:
    """Return the kernel's time, in seconds since the epoch.

    The browser's clock may disagree with the events.
    """
    return round(time.time(), 3)


@cache
def code_of(file: str) -> bytes | None:
    """Return the file which the loader, or the code itself, requests.

    Args:
        file: The file's name and digest, as `labextension/build.py` writes them into the requesting files.

    Returns:
        An ES module; None for an unknown file or another version.
    """
    name, _, digest = file.rpartition("-")
    path = _STATIC / f"{name}.js"
    if path not in _STATIC.glob("*.js"):  # a message from the browser, so it may be anything
        return None
    code = _built_code(path)
    return code if digest_of(code) == digest else None


class FirstCode:
    """The views' code, for the kernel's first view.

    That view brings it along, because the kernel may soon be busy.
    """

    def __init__(self) -> None:
        self._taken = False

    def take(self) -> bytes:
        """Return the code the first time, and later an empty one."""
        first, self._taken = not self._taken, True
        return _built_code(_STATIC / "live.js") if first else b""


_FIRST_CODE = FirstCode()


def _built_code(path: Path) -> bytes:
    """Return the built file, whatever line endings a checkout has."""
    return path.read_bytes().replace(b"\r\n", b"\n")
