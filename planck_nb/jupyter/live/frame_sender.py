"""Common messages for all live views in a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Protocol
from weakref import WeakKeyDictionary

from planck_nb.base.async_tasks import spawn
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.frame_throttle import FrameThrottle, kernel_frame_throttle


class FrameSource(Protocol):
    """A live view."""

    key: str
    """The view's identifier in a page."""

    @property
    def pages(self) -> frozenset[str]:
        """Return the connected pages."""
        ...

    def next_frame(self) -> JsonObject | None:
        """Return new content, if any."""
        ...

    def send(self, content: JsonObject) -> None:
        """Send a message to the view's own model."""
        ...


class FrameSender:
    """Common messages per turn, for all views on the same pages.

    Belongs to one event loop.

    A message reaches only one model in a page, which passes it on to the others. Where outputs are isolated from each
    other, as in Colab, every output is a page with its own messages.

    Args:
        throttle: Limits how often messages are sent.
    """

    def __init__(self, throttle: FrameThrottle) -> None:
        self._throttle = throttle
        self._waiting: dict[FrameSource, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def send(self, view: FrameSource) -> None:
        """Send the view's new content at the next turn.

        Args:
            view: The view. It must not be sent again before this has returned.
        """
        delivery = self._waiting[view] = asyncio.get_running_loop().create_future()
        if self._task is None or self._task.done():
            self._task = spawn(self._run(), name="planck frames")
        try:
            await delivery
        finally:
            self._waiting.pop(view, None)

    async def _run(self) -> None:
        while self._waiting:
            await self._throttle.turn()
            waiting, self._waiting = self._waiting, {}
            try:
                for carrier, message in _messages(waiting):
                    carrier.send(message)
            finally:
                for delivery in waiting.values():
                    if not delivery.done():
                        delivery.set_result(None)


def _messages(views: Iterable[FrameSource]) -> Iterator[tuple[FrameSource, JsonObject]]:
    """Yield each message with the view which carries it."""
    groups: dict[frozenset[str], list[tuple[FrameSource, JsonObject]]] = {}
    for view in views:
        frame = view.next_frame()
        if frame is not None:
            groups.setdefault(view.pages or frozenset({view.key}), []).append((view, frame))
    for group in groups.values():
        carrier, frame = group[0]
        if len(group) > 1:
            frame = {"type": "frames", "frames": {view.key: frame for view, frame in group}}
        yield carrier, frame


_senders: WeakKeyDictionary[asyncio.AbstractEventLoop, FrameSender] = WeakKeyDictionary()


def kernel_frame_sender() -> FrameSender:
    """Return the running event loop's sender, shared by the kernel's live views."""
    loop = asyncio.get_running_loop()
    if loop not in _senders:
        _senders[loop] = FrameSender(kernel_frame_throttle())
    return _senders[loop]
