"""`run_sync`: async code from a script."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.loopback import Exchange, serving
from support.wire import ASK, CHAT_HELLO

from planck_nb import ai, run_sync
from planck_nb.base.errors import UsageError


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_it_returns_what_the_coroutine_returns() -> None:
    assert run_sync(double(21)) == 42


def test_it_raises_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone") as raised:
        run_sync(fail())
    assert raised.value.__context__ is None, "a traceback shows the user's error alone"


async def test_inside_a_running_loop_the_error_names_await() -> None:
    with pytest.raises(UsageError, match="use `await` instead of run_sync") as raised:
        run_sync(double(21))
    assert str(raised.value).count(".") == 1


async def test_the_default_client_of_the_loop_is_closed() -> None:
    async def hello(exchange: Exchange) -> None:
        await exchange.head()
        for chunk in CHAT_HELLO:
            await exchange.send(chunk)
        await exchange.end()

    async def ask() -> tuple[str, ai.Client]:
        return (await ai.complete(model, ASK)).text, ai.default_client()

    async with serving(hello) as server:
        model = ai.get_model("openai", "some-model", base_url=f"{server.url}/v1", api_key="k")
        text, client = await asyncio.to_thread(run_sync, ask())
    assert text == "Hello"
    assert client._transport is None


def test_a_thread_of_its_own_has_a_loop_of_its_own() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(run_sync(double(4))))
    thread.start()
    thread.join()
    assert results == [8]
