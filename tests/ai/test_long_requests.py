"""Requests with images of many megabytes: the same bytes, made and sent without blocking the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json
from support.loopback import Exchange, serving
from support.wire import CHAT_HELLO, client

from planck_nb import ai
from planck_nb.ai.dialects import json_wire
from planck_nb.ai.dialects.json_wire import write_json, write_long_json
from planck_nb.ai.dialects.openai_chat import DIALECT, Chat
from planck_nb.ai.message_history.encoded_history import KEPT_CHARACTERS, encode_history
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.request import HistoryCache

IMAGE = ai.ImagePart(bytes(range(256)) * 6_000)  # 2 MB of base64
MODEL = ai.get_model("openai", "m", base_url="http://127.0.0.1:9", has_api_key=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(JSON)
def test_long_json_is_the_same_json(value: object) -> None:
    assert write_long_json(value) == write_json(value)


def test_what_has_no_utf_8_form_is_written_as_before() -> None:
    value = {"messages": [{"content": [{"text": "\ud800 half a pair"}, {"text": "é"}]}]}
    assert write_long_json(value) == write_json(value)


@pytest.mark.parametrize("character", ["a", '"', "\0", "é", "漢", "😀"])
def test_a_long_text_is_written_in_short_steps(character: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"messages": [{"content": [{"type": "file", "source": {"data": character * 1_200_001}}]}]}
    expected = write_json(value)
    written: list[int] = []

    def counting(part: object) -> bytes:
        written.append(len(str(part)))
        return to_json(part)

    monkeypatch.setattr(json_wire, "to_json", counting)
    assert write_long_json(value) == expected
    assert max(written) <= 500_000


class Threads(Chat):
    """The dialect, and the thread that each request was made in."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def request(self, model: ai.Model, context: ai.Context, options: ai.Options, key: str | None) -> ai.WireRequest:
        self.threads.append(threading.get_ident())
        return DIALECT.request(model, context, options, key)


@pytest.fixture
def threads() -> Iterator[Threads]:
    dialect = Threads()
    ai.register(ai.Provider("long", base_url="http://127.0.0.1:9"), dialect, replace=True)
    yield dialect
    REGISTRY.unregister("long")


async def test_a_long_conversation_is_encoded_in_a_thread_and_arrives_whole(threads: Threads) -> None:
    received: list[Exchange] = []

    async def handle(exchange: Exchange) -> None:
        received.append(exchange)
        await exchange.head()
        for event in CHAT_HELLO:
            await exchange.send(event)
        await exchange.end()

    async with serving(handle) as server, client() as http:
        model = ai.get_model("long", "m", base_url=server.url, has_api_key=False)
        short = ai.Context("Look.", [ai.UserMessage([ai.TextPart("é\u2028"), IMAGE])], cache=HistoryCache())
        images = ai.UserMessage([ai.TextPart("Again."), *[IMAGE] * 2])
        long = replace(short, messages=[*short.messages, ai.AssistantMessage((ai.TextPart("Yes."),)), images])
        for context in (short, long, replace(long, cache=None)):
            await http.complete(model, context)
        bodies = [write_json(DIALECT.request(model, each, ai.Options(), None).body) for each in (short, long, long)]
    assert [int(each.headers["content-length"]) for each in received] == list(map(len, bodies))
    assert [write_json(each.body) for each in received] == bodies
    assert all("transfer-encoding" not in each.headers for each in received)
    own = threading.get_ident()
    assert [thread == own for thread in threads.threads] == [True, False, False]


async def test_a_request_that_was_given_up_in_its_thread_does_not_spoil_the_next(threads: Threads) -> None:
    cache = HistoryCache()
    context = ai.Context("Look.", [ai.UserMessage([IMAGE] * 3)], cache=cache)
    model = ai.get_model("long", "m", has_api_key=False)
    async with client() as http:
        for _ in range(3):
            task = asyncio.create_task(http.preview(model, context))
            while not threads.threads:  # noqa: ASYNC110 - another thread adds to it
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            threads.threads.clear()
        preview = await http.preview(model, context)
    assert preview.body == DIALECT.request(model, replace(context, cache=None), ai.Options(), None).body


def test_what_is_kept_of_a_conversation_is_bounded() -> None:
    cache = HistoryCache()
    reply = ai.AssistantMessage((ai.TextPart("Yes."),))
    for size, kept in ((KEPT_CHARACTERS - 10, True), (KEPT_CHARACTERS + 10, False)):
        encode_history(ai.Context(messages=[ai.UserMessage("x" * size), reply], cache=cache), MODEL, lambda *_: None)
        assert (cache.encoder is not None) is kept
