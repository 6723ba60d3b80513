"""With `--engine=dask`, scripted models answer from Dask workers.

    python -m pytest --engine=dask -n0 tests/agent

The script still runs in the test's own event loop. Its events go to a server in another thread, whose answer a worker
streams, and come back through the engine. So agents are tested over both engines by the same tests, and a summary
counts those which asked a model. Tests in virtual time keep their models, because a network has none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import count
from typing import Any, Literal, cast

import pytest
from aiohttp import web
from support.virtual_time import VirtualLoop

from planck_nb import ai
from planck_nb.ai.client import Client
from planck_nb.ai.dialect import Pause, WireRequest
from planck_nb.ai.dialects.demo import DEMO
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.request import Context, Options
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import ProviderError, ProviderProtocolError
from planck_nb.engines import DaskEngine
from planck_nb.engines.link_format import read_events, write_events
from planck_nb.testing import scripted_model

_FAILED = b"failed"

_PACE = 0.5
"""Seconds between words that a test reads one by one; workers join what comes faster."""

_TOGETHER = 0.0002
"""Seconds between words up to which a test reads many at once."""


class _Relay:
    """A server that sends what is put into a request's queue."""

    def __init__(self) -> None:
        self.url = ""
        self._numbers = count()
        self._queues: dict[str, asyncio.Queue[bytes | None]] = {}
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._is_ready.wait()

    def open(self) -> str:
        """Return a new request's name."""
        name = f"{next(self._numbers)}"
        self._queues[name] = asyncio.Queue()
        return name

    def put(self, name: str, data: bytes | None) -> None:
        """Send a piece of an answer, None at its end."""
        self._loop.call_soon_threadsafe(self._queues[name].put_nowait, data)

    def forget(self, name: str) -> None:
        """Forget a request."""
        self._loop.call_soon_threadsafe(self._queues.pop, name, None)

    def close(self) -> None:
        """End the server."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        application = web.Application()
        application.router.add_post("/{name}", self._answer)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._is_ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        queue = self._queues[request.match_info["name"]]
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):  # the worker has stopped reading
            while (data := await queue.get()) is not None:
                await response.write(b"data: %s\n\n" % data)
        return response


class _Wire:
    """A wire format whose frames are the events themselves."""

    framing: Literal["sse"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        return WireRequest(f"{base_url_of(model)}/{model.settings['request']}", {})

    def decoder(self, model: Model) -> _Decoder:
        return _Decoder()

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return ProviderProtocolError(body.decode())


class _Decoder:
    def feed(self, data: bytes) -> Iterable[StreamEvent | Pause]:
        if data == _FAILED:
            raise ProviderProtocolError("the script failed")
        return read_events(data)

    def end(self) -> Iterable[StreamEvent]:
        return ()


WIRE = _Wire()


class RemoteDemo:
    """The demo's models, on workers."""

    def __init__(self) -> None:
        self.relay = _Relay()
        self.engine = DaskEngine(workers=2)
        self.test = ""
        """The running test."""
        self.tests: set[str] = set()
        """Tests which asked a model."""
        self._client = Client(engine=self.engine, retries=ai.RetryPolicy(retries=0), credentials={})

    async def stream(self, model: Model, context: Context, options: Options) -> AsyncIterator[list[StreamEvent]]:
        """Stream a reply by way of a worker."""
        if isinstance(asyncio.get_running_loop(), VirtualLoop):
            async with aclosing(DEMO.stream(model, context, options)) as batches:  # type: ignore[type-var]
                async for batch in batches:
                    yield batch
            return
        self.tests.add(self.test)
        pace = cast("float", model.settings.get("pace", 0.0))
        if pace > _TOGETHER:
            model = replace(model, settings={**model.settings, "pace": max(_PACE, pace)})
        name = self.relay.open()
        failures: list[Exception] = []
        feeding = asyncio.create_task(self._feed(name, DEMO.stream(model, context, options), failures))
        remote = replace(model, api="remote_demo", base_url=self.relay.url, settings={"request": name})
        try:
            async with self._client.stream(remote, context, Options()) as stream:
                while (found := await stream.next_batch()) is not None:
                    yield found
        except ProviderError as error:
            raise next(iter(failures), error) from None
        finally:
            feeding.cancel()
            self.relay.forget(name)

    async def _feed(self, name: str, batches: AsyncIterator[list[StreamEvent]], failures: list[Exception]) -> None:
        try:
            async for batch in batches:
                if batch:
                    self.relay.put(name, write_events(batch))
        except Exception as error:  # noqa: BLE001 - raised where the answer is read
            failures.append(error)
            self.relay.put(name, _FAILED)
        self.relay.put(name, None)

    def close(self) -> None:
        """End the workers and the server."""
        asyncio.run(self.engine.aclose())
        self.relay.close()


REMOTE: RemoteDemo


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the workers before the first test."""
    global REMOTE  # noqa: PLW0603 - one for the process, as the registry
    REMOTE = RemoteDemo()
    REGISTRY.add_format("demo", f"{__name__}:REMOTE")
    REGISTRY.add_format("remote_demo", f"{__name__}:WIRE")
    context = ai.Context(messages=[ai.UserMessage("Are you ready?")])
    asyncio.run(Client().complete(scripted_model(["Yes."]), context))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests which only one process passes."""
    for item in items:
        if item.get_closest_marker("one_process"):
            item.add_marker(pytest.mark.skip("marked as one_process"))


def pytest_sessionfinish() -> None:
    """End the workers."""
    REMOTE.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note which test asks."""
    REMOTE.test = item.nodeid
    return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the tests whose models answered from workers."""
    passed = {report.nodeid for report in terminalreporter.stats.get("passed", ())}
    asked = REMOTE.tests - {""}
    terminalreporter.write_line(f"over Dask: {len(asked & passed)} of {len(asked)} tests passed")
