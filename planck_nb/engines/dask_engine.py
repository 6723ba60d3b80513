"""Kernel side: the engine whose requests come from a Dask cluster."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from pydantic_core import from_json

from planck_nb.ai.dialect import Pause
from planck_nb.ai.engine import WorkerState
from planck_nb.ai.exchange import HttpRequest
from planck_nb.ai.models import Model
from planck_nb.ai.providers import dialect
from planck_nb.ai.retries.retry import Timeouts
from planck_nb.ai.server_address import is_loopback
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import (
    ConfigError,
    ProviderConnectionError,
    ProviderProtocolError,
    UsageError,
    WorkerLostError,
)
from planck_nb.base.threads import run_in_thread
from planck_nb.engines.link_format import (
    HELLO,
    LEASE_SECONDS,
    READ,
    SILENCE_SECONDS,
    START,
    Order,
    Part,
    Setup,
    read_error,
    read_events,
    versions,
)
from planck_nb.engines.local_cluster import ClusterProcess

if TYPE_CHECKING:
    from distributed import Client

_LOOK_SECONDS = 1.0
"""Shortest time between two looks at the list of workers."""

_PAUSE_SECONDS = 0.2
"""Time before a worker that did not answer is asked again."""

_STEPS = 4
"""Steps of a wait for a worker."""

_MAX_SETUPS = 100
"""Models whose setups are kept."""

_CLOSED = frozenset({"closing", "closed"})
_IS_CLOSED = "The Dask client is closed; make a new DaskEngine."

_NO_WORKERS = "The Dask cluster has no workers; start one, such as with `client.cluster.scale(2)`."


class DaskEngine:
    """Engine with a Dask cluster, whose workers send the requests.

    Agents, tools, limits, approvals and the session stay in the kernel: workers hold requests only. If a worker dies,
    its requests are sent again from another one. Tools run on workers by `tool(on=client)`.

    Requests take their API key to a worker over the cluster's connections, which have to be encrypted: a client without
    TLS is refused.

    Args:
        client: The cluster's client; None for own workers on this machine, with TLS.
        workers: The number of own workers; None for one on each processor.
        patience: Seconds to wait for a cluster's first worker.
        insecure: Whether to use a scheduler without TLS on this machine. Any local process can run code as you by its
            port.

    Raises:
        UsageError: The client is something else, is closed, or lacks TLS.

    Example:
        >>> from planck_nb import Workspace
        >>> from planck_nb.engines import DaskEngine
        >>> workspace = Workspace(engine=DaskEngine())  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        workers: int | None = None,
        patience: float = 20.0,
        insecure: bool = False,
    ) -> None:
        if client is not None:
            _check_client(client, insecure=insecure)
        self._given = client
        self._patience = patience
        self._count = os.cpu_count() or 1 if workers is None else workers
        self._link: _Link | None = None
        self._cluster: ClusterProcess | None = None
        self._opening = threading.Lock()

    async def send(self, request: HttpRequest, model: Model, timeouts: Timeouts) -> _RemoteReply:
        """Send a request from the least busy worker.

        Args:
            request: The request, with its credentials.
            model: The answering model.
            timeouts: How long to wait for its server.

        Returns:
            The answer, as soon as its head has arrived.

        Raises:
            ProviderConnectionError: The server, or every worker, is out of reach.
            ConfigError: The engine's own cluster could not be started.
        """
        link = await run_in_thread(self._open) if self._link is None else self._link
        reply = _RemoteReply(link, model)
        link.send(reply, request, Setup(model, dialect(model), timeouts))
        try:
            await reply.head()
        except BaseException:
            await reply.aclose()
            raise
        return reply

    def workers(self) -> list[WorkerState]:
        """Return the workers so far, by address."""
        return [] if self._link is None else self._link.states()

    async def aclose(self) -> None:
        """End all requests, and the engine's own cluster."""
        await run_in_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _open(self) -> _Link:
        with self._opening:
            link = self._link
            if link is None:
                link = self._link = _Link(self._given or self._own_client(), self._patience)
            return link

    def _own_client(self) -> Client:
        try:
            from distributed import Client  # noqa: PLC0415 - in the extra `dask`
        except ImportError:
            raise ConfigError("Dask is not installed; run `%pip install 'planck-nb[dask]'`.") from None
        self._cluster = ClusterProcess(self._count)
        address, security = self._cluster.address()
        return Client(address, security=security, set_as_default=False)

    def _close(self) -> None:
        with self._opening:
            link, self._link = self._link, None
            if link is not None:
                link.close()
                if self._given is None:
                    link.client.close()
            if self._cluster is not None:
                self._cluster.close()
                self._cluster = None


def _check_client(client: Client, *, insecure: bool) -> None:
    scheduler = getattr(client, "scheduler", None)
    if scheduler is None or not hasattr(client, "register_plugin"):
        raise UsageError(f"A {type(client).__name__} is not an open Dask client; pass a `distributed.Client`.")
    address = urlsplit(scheduler.address)
    if address.scheme in {"tls", "wss", "inproc"}:
        return
    if not is_loopback(f"http://{address.netloc}"):
        raise UsageError(
            f"The scheduler at {scheduler.address} has no TLS: whoever reaches its port runs code as you, and API keys "
            "would be sent without encryption. Give the cluster and its client a `distributed.Security`."
        )
    if not insecure:
        raise UsageError(
            f"The scheduler at {scheduler.address} has no TLS: any process on this machine that reaches its port runs "
            "code as you. Use DaskEngine() without a client, a client with a `distributed.Security`, or insecure=True."
        )


_ids = count()


class _RemoteReply:
    """An answer from a worker, for the event loop which asked."""

    def __init__(self, link: _Link, model: Model) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.id = f"{next(_ids)}"
        self.worker = ""
        self.loop = asyncio.get_running_loop()
        self._link = link
        self._model = model
        self._parts: deque[Part] = deque()
        self._failure: ProviderConnectionError | None = None
        self._arrived = self.loop.create_future()
        self._is_over = False

    def feed(self, part: Part) -> None:
        """Take the next piece."""
        self._parts.append(part)
        self._wake()

    def fail(self, failure: ProviderConnectionError) -> None:
        """Take the link's error, after all pieces."""
        self._failure = failure
        self._wake()

    async def head(self) -> None:
        """Wait for status and headers."""
        _, kind, data = await self._next()
        if kind == "head":
            self.status, self.headers = from_json(data)

    async def body(self) -> bytes:
        """Read a document in place of a stream."""
        _, _, data = await self._next()
        return data

    async def next_batch(self) -> list[StreamEvent | Pause] | None:
        """Read the next events, None after the last."""
        if self._is_over:
            return None
        _, kind, data = await self._next()
        if kind == "end":
            return None
        try:
            return read_events(data)
        except ValueError as error:
            raise ProviderProtocolError(
                f"Worker {self.worker} sent something that is no event; update planck_nb there.",
                provider=self._model.provider,
                model=self._model.id,
            ) from error

    async def aclose(self) -> None:
        """Have the worker stop, unless the answer is over."""
        if not self._is_over:
            self._is_over = True
            self._link.stop(self)

    async def _next(self) -> Part:
        while not self._parts:
            if self._failure is not None:
                self._is_over = True
                raise self._failure
            self._arrived = self.loop.create_future()
            await self._arrived
        part = self._parts.popleft()
        if part[1] in {"end", "error"}:
            self._is_over = True
        if part[1] == "error":
            raise read_error(part[2], self.worker)
        return part

    def _wake(self) -> None:
        if not self._arrived.done():
            self._arrived.set_result(None)


@dataclass
class _Worker:
    """A worker, as the client's loop knows it."""

    address: str
    hello: asyncio.Task[None]
    replies: dict[str, _RemoteReply] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    setups: dict[int, bytes] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    epoch: int = 0
    """The number of its reader, higher than those before."""
    last: int = 0
    answered: int = 0
    failed: int = 0
    problem: str = ""
    is_silent: bool = False
    """It did not answer the greeting, and is greeted again."""
    reader: asyncio.Task[None] | None = None
    is_flushing: bool = False


class _Link:
    """The kernel's connections to the workers.

    They are made on the client's event loop, in a thread of its own: a cell may block the kernel meanwhile.
    """

    def __init__(self, client: Client, patience: float) -> None:
        self.client = client
        self._patience = patience
        self._kernel = token_hex(16)
        self._loop: asyncio.AbstractEventLoop = client.loop.asyncio_loop
        self._numbers = count(1)
        self._setups: dict[tuple[str, str], tuple[Setup, int, bytes]] = {}
        """By provider and model: the setup, its number, and the setup pickled."""
        self._workers: dict[str, _Worker] = {}
        self._looked = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = threading.Event()
        threading.Thread(target=self._watch_client, name="planck engine", daemon=True).start()

    # On the caller's loop

    def send(self, reply: _RemoteReply, request: HttpRequest, setup: Setup) -> None:
        """Have a worker answer."""
        key = (setup.model.provider, setup.model.id)
        entry = self._setups.get(key)
        if entry is None or entry[0] != setup:
            if len(self._setups) >= _MAX_SETUPS:
                self._setups.clear()
            entry = self._setups[key] = (setup, next(self._numbers), setup.pickled())
        order = Order(reply.id, entry[1], request.url, dict(request.headers), request.body)
        self._call(self._place, reply, order, entry[2])

    def stop(self, reply: _RemoteReply) -> None:
        """Have the worker stop."""
        with suppress(UsageError):  # a closed client's requests end by themselves
            self._call(self._stop, reply)

    def close(self) -> None:
        """Stop all requests; not on the client's loop."""
        self._is_closed.set()
        if self.client.status in _CLOSED:
            return
        with suppress(RuntimeError, TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(LEASE_SECONDS)

    def states(self) -> list[WorkerState]:
        """Return each worker's share."""
        return [
            WorkerState(worker.address, len(worker.replies), worker.answered, worker.failed, worker.problem)
            for worker in sorted(self._workers.values(), key=lambda worker: worker.address)
        ]

    def _call(self, function: Any, *arguments: object) -> None:  # noqa: ANN401 - of this class
        try:
            if self.client.status in _CLOSED:
                raise UsageError(_IS_CLOSED)
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            raise UsageError(_IS_CLOSED) from None

    def _watch_client(self) -> None:
        """Fail a closed client's requests, as its loop has stopped."""
        while not self._is_closed.wait(_LOOK_SECONDS):
            if self.client.status in _CLOSED:
                for worker in [*self._workers.values()]:
                    self._lose(worker)
                return

    # On the client's loop

    def _place(self, reply: _RemoteReply, order: Order, setup: bytes) -> None:
        """Give a request to the least busy worker."""
        is_fresh = time.monotonic() - self._looked <= _LOOK_SECONDS
        if is_fresh and (usable := self._greeted()):
            self._give(usable, reply, order, setup)
        else:
            self._spawn(self._choose(reply, order, setup))

    async def _choose(self, reply: _RemoteReply, order: Order, setup: bytes) -> None:
        try:
            usable = await self._usable()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            _fail(reply, ProviderConnectionError(f"The Dask scheduler does not answer ({error}); check the cluster."))
            return
        if not usable:
            problems = {worker.problem for worker in self._workers.values()}
            _fail(reply, ProviderConnectionError(min(problems, default=_NO_WORKERS)))
            return
        self._give(usable, reply, order, setup)

    def _give(self, usable: list[_Worker], reply: _RemoteReply, order: Order, setup: bytes) -> None:
        worker = min(usable, key=lambda worker: len(worker.replies))
        reply.worker = worker.address
        worker.replies[reply.id] = reply
        worker.orders.append(order)
        worker.setups[order.setup] = setup
        if worker.reader is None or worker.reader.done():
            worker.epoch, worker.last = next(self._numbers), 0  # the worker ends what an earlier epoch asked
            worker.reader = self._spawn(self._read(worker))
        self._flush_soon(worker)

    async def _usable(self) -> list[_Worker]:
        """Return workers to choose from; wait for the first one."""
        end = time.monotonic() + self._patience
        while True:
            if time.monotonic() - self._looked > _LOOK_SECONDS:
                await self._look()
            await asyncio.gather(*(worker.hello for worker in self._workers.values()))
            usable = self._greeted()
            is_settled = self._workers and not any(worker.is_silent for worker in self._workers.values())
            if usable or is_settled or time.monotonic() > end:
                return usable
            await asyncio.sleep(_PAUSE_SECONDS)

    def _greeted(self) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.hello.done() and not worker.problem]

    def _stop(self, reply: _RemoteReply) -> None:
        worker = self._workers.get(reply.worker)
        if worker is not None and worker.replies.pop(reply.id, None) is not None:
            worker.stops.append(reply.id)
            self._flush_soon(worker)

    async def _look(self) -> None:
        """Update the workers, in one task at a time."""
        if self._looking is None or self._looking.done():
            self._looking = self._spawn(self._list_workers())
        await asyncio.shield(self._looking)

    async def _list_workers(self) -> None:
        identity = await asyncio.wait_for(self.client.scheduler.identity(n_workers=-1), SILENCE_SECONDS)
        self._looked = time.monotonic()
        addresses = set(identity["workers"])
        greeted = {address for address, worker in self._workers.items() if not worker.is_silent}
        if fresh := addresses - greeted:
            from planck_nb.engines.request_host import HostPlugin  # noqa: PLC0415 - needs distributed

            with suppress(Exception):  # each worker's answer to the greeting says more
                call = self.client._register_worker_plugin(HostPlugin(), HostPlugin.name, True)  # noqa: SLF001
                await asyncio.wait_for(call, SILENCE_SECONDS)
        for address in fresh:
            self._workers[address] = worker = _Worker(address, asyncio.create_task(asyncio.sleep(0)))
            worker.hello = self._spawn(self._greet(worker))
        for address in self._workers.keys() - addresses:
            self._lose(self._workers.pop(address))

    async def _greet(self, worker: _Worker) -> None:
        try:
            answer = await self._ask(worker, LEASE_SECONDS, HELLO, theirs=versions())
        except Exception as error:  # noqa: BLE001 - another worker is asked
            worker.problem = f"Worker {worker.address} does not answer ({error}); restart it."
            worker.is_silent = True
            return
        if answer is None:
            worker.problem = f"Worker {worker.address} lacks planck_nb; install planck-nb[dask] there."
        elif answer:
            worker.problem = f"Worker {worker.address} has {answer}; install the same there."

    async def _ask(self, worker: _Worker, patience: float, operation: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON
        """Ask a worker, and wait for at most `patience` seconds.

        They are waited for in steps: if this process stands still for long, the answer has arrived when it goes on.
        """
        call = self._spawn(getattr(self.client.rpc(worker.address), operation)(**arguments))
        try:
            for _ in range(_STEPS):
                await asyncio.wait({call}, timeout=patience / _STEPS)
                if call.done():
                    return call.result()
        finally:
            call.cancel()
        raise TimeoutError(f"no answer in {patience:.0f} seconds")

    def _flush_soon(self, worker: _Worker) -> None:
        """Send new orders together, at the end of this step."""
        if not worker.is_flushing:
            worker.is_flushing = True
            self._spawn(self._flush(worker))

    async def _flush(self, worker: _Worker) -> None:
        """Send orders and stops.

        One call follows another, since Dask opens a connection for each that runs at once.
        """
        while worker.orders or worker.stops:
            orders, worker.orders = [order for order in worker.orders if order.id in worker.replies], []
            setups, worker.setups = worker.setups, {}
            stops, worker.stops = worker.stops, []
            try:
                fields = [(order.id, order.setup, order.url, order.headers, order.body) for order in orders]
                sender = {"kernel": self._kernel, "epoch": worker.epoch}
                await self._ask(worker, SILENCE_SECONDS, START, **sender, orders=fields, setups=setups, stops=stops)
            except Exception as error:  # noqa: BLE001 - its requests get it
                worker.stops += [order.id for order in orders]  # they may have arrived
                for order in orders:
                    if (reply := worker.replies.pop(order.id, None)) is not None:
                        worker.failed += 1
                        _fail(reply, _lost(worker, error))
        worker.is_flushing = False

    async def _read(self, worker: _Worker) -> None:
        """Fetch pieces, and lose the worker at any error."""
        try:
            await self._fetch(worker)
        except Exception as error:  # noqa: BLE001 - its requests would wait for ever
            self._looked = 0.0
            worker.stops += worker.replies  # if it is only slow
            self._lose(worker, error)
            self._flush_soon(worker)

    async def _fetch(self, worker: _Worker) -> None:
        """Fetch pieces while there are requests; each fetch renews the lease."""
        last_answer = time.monotonic()
        while worker.replies and worker.address in self._workers:
            try:
                sender = {"kernel": self._kernel, "epoch": worker.epoch}
                answer = await self._ask(worker, SILENCE_SECONDS, READ, **sender, last=worker.last)
            except (OSError, TimeoutError):
                if time.monotonic() - last_answer > LEASE_SECONDS:  # nobody has reached the worker: it has given up
                    raise
                with suppress(Exception):
                    await self._look()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if answer is None:  # Dask's word for a worker that is ending, and has dropped its requests
                raise ConnectionResetError("it is ending")
            number, pieces = answer
            parts: list[Part] = [(request, kind, data) for request, kind, data in pieces]  # all, before one is given
            last_answer = time.monotonic()
            if number < worker.last:  # the kernel was silent for too long: its requests have ended
                self._lose(worker)
                return
            worker.last = number
            self._deliver(worker, parts)

    def _deliver(self, worker: _Worker, parts: list[Part]) -> None:
        """Hand out pieces, in one step for each event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_RemoteReply, Part]]] = {}
        for request, kind, data in parts:
            over = kind in ("end", "error")
            reply = worker.replies.pop(request, None) if over else worker.replies.get(request)
            if reply is None:
                continue
            worker.answered += kind == "end"
            worker.failed += kind == "error"
            by_loop.setdefault(reply.loop, []).append((reply, (request, kind, data)))
        for loop, pieces in by_loop.items():
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(_feed, pieces)

    def _lose(self, worker: _Worker, error: Exception | None = None) -> None:
        """Fail a lost worker's requests, which are sent again."""
        replies, worker.replies = worker.replies, {}
        worker.failed += len(replies)
        for reply in replies.values():
            _fail(reply, _lost(worker, error))

    async def _end(self) -> None:
        for worker in self._workers.values():
            worker.stops += worker.replies
            self._lose(worker)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._flush(worker), LEASE_SECONDS)
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:  # noqa: ANN401 - of this class
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _feed(pieces: list[tuple[_RemoteReply, Part]]) -> None:
    for reply, part in pieces:
        reply.feed(part)


def _fail(reply: _RemoteReply, error: ProviderConnectionError) -> None:
    with suppress(RuntimeError):  # its loop has ended
        reply.loop.call_soon_threadsafe(reply.fail, error)


def _lost(worker: _Worker, error: Exception | None) -> WorkerLostError:
    reason = f" ({error})" if error is not None else ""
    return WorkerLostError(f"Worker {worker.address} was lost while it answered{reason}; ask again.")
