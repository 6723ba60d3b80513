"""Servers that put nonsense into every place of a stream: at most the turn ends, with a sentence."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from support.dialects import WIRES, Call, Reply, Say, Think, Wire
from support.growth import check_growth
from support.hostile import NONSENSE, changed, raw
from support.wire import ASK, CHAT, CHAT_HELLO, client, replying

from planck_nb import ai
from planck_nb.ai.messages import encode_message
from planck_nb.ai.numbers import MAX_TOKENS
from planck_nb.ai.status_errors import plain_words
from planck_nb.base.errors import PlanckError
from planck_nb.sessions.journal.codec import encode_message_line

ANSWER = Reply((Think(("Hm",)), Say(("one ", "two")), Call("add", ('{"a": ', "1}"), "c1")), usage=(12, 5))
PRICES = ai.Pricing(3.0, 15.0, cache_read=0.3, cache_write=4.0)


def _openai(given: str, written: str) -> tuple[str, dict[str, Any]]:
    """The counts of a format of OpenAI, by its words for what a model is given and what it has written."""
    return "usage", {
        f"{given}_tokens": 12,
        f"{written}_tokens": 5,
        f"{given}_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        f"{written}_tokens_details": {"reasoning_tokens": 1},
    }


USAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "messages": (
        "usage",
        {
            "input_tokens": 12,
            "output_tokens": 5,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 2,
            "output_tokens_details": {"thinking_tokens": 1},
        },
    ),
    "chat": _openai("prompt", "completion"),
    "responses": _openai("input", "output"),
    "generate_content": (
        "usageMetadata",
        {
            "promptTokenCount": 12,
            "candidatesTokenCount": 5,
            "toolUsePromptTokenCount": 2,
            "thoughtsTokenCount": 1,
            "cachedContentTokenCount": 3,
        },
    ),
    "interactions": (
        "usage",
        {
            "total_input_tokens": 12,
            "total_output_tokens": 5,
            "total_tool_use_tokens": 2,
            "total_thought_tokens": 1,
            "total_cached_tokens": 3,
        },
    ),
    "ollama": ("", {"prompt_eval_count": 12, "eval_count": 5}),
}
"""For each format the field with the counts, and all counts that it has."""


def payloads(wire: Wire, reply: Reply = ANSWER) -> list[Any]:
    """The frames of an answer as JSON data, a word such as [DONE] as text."""
    found = []
    for chunk in wire.write(reply):
        line = next(line for line in chunk.split(b"\n") if line and not line.startswith(b"event:"))
        text = line.removeprefix(b"data: ").decode()
        found.append(json.loads(text) if text[0] == "{" else text)
    return found


def written(wire: Wire, frames: list[Any]) -> list[bytes]:
    texts = [frame if isinstance(frame, str) else raw(json.dumps(frame)) for frame in frames]
    return [f"{text}\n".encode() if "ndjson" in wire.kind else f"data: {text}\n\n".encode() for text in texts]


async def ask(wire: Wire, frames: list[Any]) -> tuple[ai.AssistantMessage, list[str]]:
    """What comes of an answer, and the warnings. Any exception but ours is an error of the test."""
    model = replace(wire.model, pricing=PRICES)
    client = ai.Client(
        credentials={}, transport=replying(written(wire, frames), kind=wire.kind), retries=ai.RetryPolicy(retries=0)
    )
    stream = client.stream(model, ASK)
    events: list[ai.StreamEvent] = []
    with suppress(PlanckError):
        async for batch in stream.batches():
            events += batch
    error = stream.message.error or ""
    assert error.isprintable()
    assert len(error) < 1000
    return stream.message, [event.text for event in events if event.type == "warning"]


def is_sound(message: ai.AssistantMessage) -> bool:
    """Whether a message can be counted, stored, read again and sent back."""
    usage = message.usage or ai.Usage()
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    assert all(type(count) is int and 0 <= count <= 4 * MAX_TOKENS for count in (*counts, usage.thinking_tokens))
    assert usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert message.cost is None or 0 <= message.cost < math.inf
    line = encode_message_line(1, "a", message, turn=0, time=0.0)
    json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} in a journal"))
    assert ai.decode_message(json.loads(line)["data"]) == message
    assert encode_message(message)
    for call in message.tool_calls:
        assert 0 < len(call.id) <= 512
        assert call.id.isprintable()
        assert len(call.name) <= 128
        assert call.name.isprintable()
    assert len({call.id for call in message.tool_calls}) == len(message.tool_calls)
    return True


KINDS = (
    "a huge fraction",
    "a number of 400 digits",
    "infinity",
    "not a number",
    "minus one",
    "more than 32 bits",
    "true",
    "null",
    "a word",
    "a huge text",
    "control characters",
    "half of a surrogate pair",
    "a nested object",
    "a deep list",
)
"""One of each kind, because each is put into every place of every format."""


def every_place(wire: Wire, value: Any) -> Iterator[list[Any]]:
    frames = payloads(wire)
    for number, frame in enumerate(frames):
        if not isinstance(frame, str):
            for nonsense in changed(frame, value):
                yield [*frames[:number], nonsense, *frames[number + 1 :]]


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("what", KINDS)
async def test_nonsense_in_any_place_of_a_stream(name: str, what: str) -> None:
    for frames in every_place(WIRES[name], NONSENSE[what]):
        message, warnings = await ask(WIRES[name], frames)
        assert is_sound(message)
        assert len(warnings) <= 2
        assert all(len(text) < 1000 and text.isprintable() for text in warnings)


NO_COUNTS = [
    what
    for what in NONSENSE
    if what
    not in {"null", "a billion", "false", "an empty text", "an empty object", "an empty list", "control characters"}
    and what not in {"not a number", "infinity", "minus infinity", "a number that Python refuses to read"}
]


def with_usage(name: str, counts: Any) -> list[Any]:
    field = USAGES[name][0]
    frames = payloads(WIRES[name])
    for frame in frames:
        for inner in (frame, *(frame.values() if isinstance(frame, dict) else ())):
            if isinstance(inner, dict) and field and inner.get(field):
                inner[field] = counts
    if not field:
        frames[-1].update(counts)
    return frames


@pytest.mark.parametrize("name", WIRES)
async def test_counts_that_can_be_right_are_counted(name: str) -> None:
    message, warnings = await ask(WIRES[name], with_usage(name, USAGES[name][1]))
    assert message.usage is not None
    assert message.usage.total_tokens >= 17
    assert not warnings


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("what", NO_COUNTS)
async def test_a_count_that_cannot_be_right_is_unknown_with_one_warning(name: str, what: str) -> None:
    counts = USAGES[name][1]
    for wrong in changed(counts, NONSENSE[what]):
        message, warnings = await ask(WIRES[name], with_usage(name, wrong))
        assert is_sound(message)
        assert message.text == "one two"
        assert message.stop_reason == "tool_use"
        if not any(wrong[key] == NONSENSE[what] for key in counts if "details" in key):  # which are then left out
            assert len(warnings) == 1
            assert "cannot be right" in warnings[0]


async def test_an_answer_that_comes_without_any_wait_leaves_time_for_other_tasks() -> None:
    """As what is replayed or decompressed does: a compressed answer of a few megabytes can have gigabytes."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    pieces = itertools.chain(CHAT_HELLO[:3], itertools.repeat(CHAT_HELLO[1], 20_000), CHAT_HELLO[3:])
    async with client(replying(pieces)) as http:
        assert len((await http.complete(CHAT, ASK)).text) > 20_000
    other.cancel()
    assert turns > 10


async def test_what_follows_a_complete_message_is_not_waited_for_however_fast_it_comes() -> None:
    rest = iter(range(1_000_000))
    pieces = itertools.chain(CHAT_HELLO, (b"x" * 1_000 for _ in rest))
    async with client(replying(pieces)) as http:
        assert (await http.complete(CHAT, ASK)).text == "Hello"
    assert next(rest, None) is not None


# Reading an error page takes time in proportion to it.


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["<title>", "<title", "<title><", "<"])
def test_reading_an_error_page_is_linear(name: str) -> None:
    check_growth(lambda text: plain_words(text.encode()), name, 16_000)
