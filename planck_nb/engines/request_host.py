"""Worker side: requests, and their answers until the kernel fetches them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import WorkerPlugin
from pydantic_core import to_json

from planck_nb.ai.reply_decoder import ReplyDecoder, is_stream
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.ai.transport import Transport
from planck_nb.engines.link_format import (
    HELLO,
    LEASE_SECONDS,
    PIECE_SECONDS,
    POLL_SECONDS,
    READ,
    START,
    Order,
    Part,
    PartKind,
    joining_seconds,
    setup_of,
    versions,
    write_error,
    write_events,
)

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.comm import Comm

    from planck_nb.ai.dialect import Pause

_CHECK_SECONDS = 0.5
"""Time between two looks at the leases."""


@dataclass
class _Kernel:
    """A kernel and its requests."""

    heard: float = 0.0
    """Time of its newest question."""
    waiting: int = 0
    """Its open questions; a busy worker answers late."""
    comms: tuple[Comm, ...] = ()
    """Its connections. They stay open while its interpreter is blocked."""
    epoch: int = 0
    """The number of its reader, which knows no earlier requests."""
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    events: dict[str, list[StreamEvent | Pause]] = field(default_factory=dict)
    """Events by request, to be joined."""
    parts: list[Part] = field(default_factory=list)
    """Parts after them."""
    has_any: asyncio.Event = field(default_factory=asyncio.Event)
    has_parts: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0
    sent: list[Part] = field(default_factory=list)
    """The last answer to the kernel, until it has arrived."""
    sent_at: float = 0.0
    joined_at: float = 0.0

    def begin(self, epoch: int) -> None:
        """Begin an epoch without requests."""
        for task in self.tasks.values():
            task.cancel()
        self.epoch, self.number = epoch, 0
        self.events, self.parts, self.sent = {}, [], []

    def is_lost(self) -> bool:
        """Return whether its requests are in vain."""
        if self.waiting or time.monotonic() - self.heard <= LEASE_SECONDS:
            return False
        has_more = self.tasks or self.events or self.parts
        return not has_more or all(comm.closed() for comm in self.comms)


class RequestHost:
    """Sender for several kernels, on an event loop in its own thread.

    A kernel without a connection ends its requests after `LEASE_SECONDS`, so that a lost kernel costs little.
    """

    def __init__(self) -> None:
        self._kernels: dict[str, _Kernel] = {}
        self._transports: dict[object, Transport] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="planck requests", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all requests and the thread."""
        with suppress(RuntimeError):  # it was closed before
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def hello(self, theirs: dict[str, str]) -> str:
        """Compare versions.

        Args:
            theirs: The kernel's.

        Returns:
            The difference in words; empty without one.
        """
        ours = versions()
        differences = [
            f"{name} {ours[name]} instead of {theirs[name]}" for name in ours if ours[name] != theirs.get(name)
        ]
        return " and ".join(differences)

    async def start(
        self,
        comm: Comm,
        *,
        kernel: str,
        epoch: int,
        orders: Sequence[Sequence[Any]],
        setups: dict[int, bytes],
        stops: Sequence[str],
    ) -> None:
        """Send requests, and stop others.

        Args:
            comm: The kernel's connection, from Dask.
            kernel: The kernel.
            epoch: The number of its reader.
            orders: Its new requests, as an `Order`'s fields.
            setups: Their setups by number, pickled.
            stops: Ids to stop.
        """
        with self._hearing(comm, kernel):
            await self._on_loop(self._start(kernel, epoch, orders, setups, stops))

    async def read(self, comm: Comm, kernel: str, epoch: int, last: int) -> tuple[int, list[Part]]:
        """Wait for pieces from answers.

        Args:
            comm: The kernel's connection, from Dask.
            kernel: The kernel.
            epoch: The number of its reader.
            last: The number under which pieces arrived last.

        Returns:
            The call's number, and the pieces.
        """
        with self._hearing(comm, kernel):
            numbered_parts: tuple[int, list[Part]] = await self._on_loop(self._read(kernel, epoch, last))
            return numbered_parts

    @contextmanager
    def _hearing(self, comm: Comm, name: str) -> Iterator[None]:
        """Renew a kernel's lease at once; the other thread may be late."""
        kernel = self._kernels.setdefault(name, _Kernel())
        kernel.heard = time.monotonic()
        if comm not in kernel.comms:
            kernel.comms = (*(other for other in kernel.comms if not other.closed()), comm)
        kernel.waiting += 1
        try:
            yield
        finally:
            kernel.waiting -= 1

    async def _on_loop(self, work: Any) -> Any:  # noqa: ANN401 - of either coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    # On the thread's own loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        leases = self._loop.create_task(self._watch_leases())
        self._loop.run_forever()
        tasks = [leases, *(task for kernel in self._kernels.values() for task in kernel.tasks.values())]
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for transport in self._transports.values():
            self._loop.run_until_complete(transport.close())
        self._loop.close()

    async def _watch_leases(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            for name, kernel in [*self._kernels.items()]:
                if kernel.is_lost():
                    del self._kernels[name]
                    for task in kernel.tasks.values():
                        task.cancel()

    def _kernel(self, name: str, epoch: int) -> _Kernel:
        kernel = self._kernels.setdefault(name, _Kernel())
        if epoch > kernel.epoch:
            kernel.begin(epoch)
        return kernel

    async def _start(
        self,
        name: str,
        epoch: int,
        orders: Sequence[Sequence[Any]],
        setups: dict[int, bytes],
        stops: Sequence[str],
    ) -> None:
        kernel = self._kernel(name, epoch)
        for order in (Order(*fields) for fields in orders if epoch == kernel.epoch):
            kernel.tasks[order.id] = task = asyncio.create_task(self._answer(kernel, order, setups[order.setup]))
            task.add_done_callback(partial(_forget, kernel, order.id))
        for request in stops:
            kernel.events.pop(request, None)
            if (running := kernel.tasks.get(request)) is not None:
                running.cancel()

    async def _read(self, name: str, epoch: int, last: int) -> tuple[int, list[Part]]:
        kernel = self._kernel(name, epoch)
        if last == kernel.number:
            await _wait(kernel)
        if (epoch, last) == (kernel.epoch, kernel.number):  # else another call was here meanwhile
            now = time.monotonic()
            if now - kernel.joined_at >= joining_seconds(len(kernel.tasks)):
                kernel.joined_at = now
                for request in [*kernel.events]:
                    self._join(kernel, request)
                kernel.has_any.clear()
            kernel.has_parts.clear()
            kernel.sent, kernel.parts = kernel.parts, []
            kernel.sent_at = now
            kernel.number += 1
        return kernel.number, kernel.sent  # the same again if it has not arrived

    async def _answer(self, kernel: _Kernel, order: Order, data: bytes) -> None:
        """Send a request and read its answer."""
        request = order.id

        def tell(kind: PartKind, content: bytes = b"") -> None:
            self._join(kernel, request)
            kernel.parts.append((request, kind, content))
            kernel.has_any.set()
            kernel.has_parts.set()

        try:
            setup = setup_of(data)
            transport = self._transports.get(setup.timeouts)
            if transport is None:
                transport = self._transports[setup.timeouts] = Transport(setup.timeouts)
            reply = await transport.send(setup.model, order.url, order.headers, order.body)
            async with aclosing(reply):
                decoder = ReplyDecoder(reply, setup.wire, setup.model)
                tell("head", to_json([reply.status, dict(reply.headers)]))
                if is_stream(decoder):
                    while (batch := await decoder.next_batch()) is not None:
                        kernel.events.setdefault(request, []).extend(batch)
                        kernel.has_any.set()
                else:
                    tell("body", await decoder.body())
            tell("end")
        except Exception as error:  # noqa: BLE001 - the kernel raises it
            tell("error", write_error(error))

    def _join(self, kernel: _Kernel, request: str) -> None:
        if events := kernel.events.pop(request, None):
            kernel.parts.append((request, "events", write_events(events)))


async def _wait(kernel: _Kernel) -> None:
    """Wait until there is something to send."""
    await _within(POLL_SECONDS, kernel.has_any)
    await _within(kernel.joined_at + joining_seconds(len(kernel.tasks)) - time.monotonic(), kernel.has_parts)
    await asyncio.sleep(max(0.0, kernel.sent_at + PIECE_SECONDS - time.monotonic()))


async def _within(seconds: float, event: asyncio.Event) -> None:
    if seconds > 0:
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


def _forget(kernel: _Kernel, request: str, _task: asyncio.Task[None]) -> None:
    kernel.tasks.pop(request, None)


class HostPlugin(WorkerPlugin):  # type: ignore[misc] # distributed has no types for it
    """Plugin which gives each worker a host, also later ones."""

    name = "planck-requests"

    def setup(self, worker: Worker) -> None:
        """Start the worker's host.

        Args:
            worker: The worker.
        """
        self._host = host = RequestHost()
        worker.handlers.update({HELLO: host.hello, START: host.start, READ: host.read})

    def teardown(self, worker: Worker) -> None:
        """Stop the worker's host.

        Args:
            worker: The worker.
        """
        for name in (HELLO, START, READ):
            worker.handlers.pop(name, None)
        self._host.close()
