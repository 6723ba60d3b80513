"""Compactors: when they act, what they keep, and what they may not do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb import ai
from planck_nb.agent.context.compactor import Compact, Compactor, ContextUsage, as_compactor, checked
from planck_nb.agent.context.conversation import pairs, places, sent
from planck_nb.agent.state import Entry
from planck_nb.agent.tokens import context_tokens, estimate
from planck_nb.ai.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.base.errors import CompactionError, ConfigError, UsageError
from planck_nb.testing import Reply, scripted_model


def context_usage(
    tokens: int = 800, window: int | None = 1_000, script: Sequence[Reply | str] = ("In short.",)
) -> ContextUsage:
    return ContextUsage(tokens, window, scripted_model(script), ai.Client())


def talk(count: int, text: str = "a few words") -> list[Message]:
    """Messages of a user and a model in turns; the last one is the model's where `count` is even."""
    return [
        UserMessage(f"{text} {number}") if number % 2 == 0 else AssistantMessage((TextPart(f"{text} {number}"),))
        for number in range(count)
    ]


def rounds(count: int, text: str = "done") -> list[Message]:
    """One long turn: a prompt, then calls and results."""
    made: list[Message] = [UserMessage("go")]
    for number in range(count):
        made.append(AssistantMessage((ToolCallPart(f"c{number}", "read", {}),)))
        made.append(ToolResultMessage((ToolResultPart(f"c{number}", "read", text),)))
    return made


async def compacted(compactor: Compactor, messages: Sequence[Message], at: ContextUsage | None = None) -> Compact:
    at = at or context_usage()
    found = checked(await compactor.compact(messages, at), messages)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("tokens", "window", "ratio", "acts"),
    [
        (799, 1_000, 0.8, False),
        (800, 1_000, 0.8, True),
        (801, 1_002, 0.8, True),
        (500, 1_000, 0.5, True),
        (999_999, None, 0.8, False),
    ],
)
def test_it_acts_when_the_ratio_of_the_window_is_reached(
    tokens: int, window: int | None, ratio: float, acts: bool
) -> None:
    assert Compactor.build(ratio=ratio).should(context_usage(tokens, window)) is acts


async def test_all_but_the_ten_newest_messages_are_summarised_by_the_agents_own_model() -> None:
    messages = talk(30)
    found = await compacted(Compactor.build(), messages)
    assert found.summary == "In short."
    assert list(found.kept) == messages[-10:]
    assert found.usage.output_tokens > 0


async def test_another_model_may_write_the_summary() -> None:
    model = scripted_model(["By another."])
    found = await compacted(Compactor.build(model, keep_recent=3), talk(20), context_usage(script=[]))
    assert found.summary == "By another."
    assert len(found.kept) == 3


async def test_the_cut_moves_to_a_place_that_splits_no_pair() -> None:
    messages = rounds(10)
    found = await compacted(Compactor.build(keep_recent=5), messages)
    assert list(found.kept) == messages[-4:]


async def test_a_long_turn_of_few_messages_is_cut_inside_where_it_fills_the_window() -> None:
    messages = rounds(4, "line of text\n" * 20)
    at = context_usage(tokens=context_tokens(messages), window=int(context_tokens(messages) / 0.8))
    found = await compacted(Compactor.build(), messages, at)
    assert 0 < len(found.kept) < len(messages)
    assert sum(map(estimate, found.kept)) <= at.tokens / 2


async def test_fewer_messages_are_kept_where_ten_fill_too_much() -> None:
    messages = talk(40, "word " * 60)
    found = await compacted(Compactor.build(), messages, context_usage(tokens=2_800))
    assert 0 < len(found.kept) < 10
    assert messages[-1] in found.kept


async def test_a_system_prompt_and_tools_that_fill_the_window_leave_less_to_keep() -> None:
    messages = talk(8, "word " * 60)
    alone = sum(map(estimate, messages))
    assert await Compactor.build().compact(messages, context_usage(alone, int(alone * 2 / 0.8) + 2, script=[])) is None
    with_tools = context_usage(2 * alone, int(alone * 2 / 0.8) + 2)
    assert len((await compacted(Compactor.build(), messages, with_tools)).kept) < 8


async def test_the_newest_prompt_is_kept_however_long_it_is() -> None:
    messages = [*talk(8), UserMessage("word " * 5_000)]
    assert list((await compacted(Compactor.build(), messages, context_usage(6_000))).kept) == messages[-1:]
    none_kept = await compacted(Compactor.build(keep_recent=0), messages, context_usage(6_000))
    assert list(none_kept.kept) == messages[-1:]


@pytest.mark.parametrize("messages", [[], talk(1), talk(10), [SummaryMessage("s"), *talk(9)]])
async def test_where_everything_is_recent_and_fits_nothing_happens(messages: list[Message]) -> None:
    assert await Compactor.build().compact(messages, context_usage(tokens=100, script=[])) is None


async def test_a_summary_alone_and_a_single_huge_prompt_cannot_be_shortened() -> None:
    assert await Compactor.build().compact([SummaryMessage("word " * 900)], context_usage(script=[])) is None
    assert await Compactor.build().compact([UserMessage("word " * 900)], context_usage(script=[])) is None


async def test_without_a_known_window_the_newest_stay() -> None:
    messages = talk(30)
    assert list((await compacted(Compactor.build(), messages, context_usage(5_000, None))).kept) == messages[-10:]


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(0, 12), st.integers(1, 400), st.booleans())
async def test_what_is_kept_is_always_the_end_of_a_valid_conversation(
    count: int, keep_recent: int, words: int, tools: bool
) -> None:
    messages = rounds(count, "word " * words) if tools else talk(count, "word " * words)
    at = context_usage(tokens=context_tokens(messages))
    found = checked(await Compactor.build(keep_recent=keep_recent).compact(messages, at), messages)
    if found is None:
        return
    kept = list(found.kept)
    assert kept == messages[len(messages) - len(kept) :]
    assert not kept or kept[0].type != "tool_result"
    assert len(kept) <= max(keep_recent, 1)


async def test_a_fact_of_the_first_summary_survives_the_second_compaction() -> None:
    """The second summary is written from the first one, among other things."""
    entries: list[Entry] = []

    def say(*messages: Message) -> None:
        for message in messages:
            entries.append(Entry(len(entries) + 1, message))

    async def compact() -> None:
        now = sent(entries)
        messages = [entry.message for entry in now]
        found = await compacted(as_compactor(repeating), messages)
        chosen = places(found.kept, messages) or []
        say(SummaryMessage(found.summary, kept=[now[place].id for place in chosen]))

    def repeating(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
        facts = [message.text for message in messages if message.type in ("user", "summary")]
        return " ".join(text for text in facts if "4711" in text), messages[-2:]

    say(UserMessage("The code is 4711."), *talk(7))
    await compact()
    say(*talk(6, "second chapter"))
    await compact()
    say(UserMessage("What is the code?"))
    last = sent(entries)
    assert isinstance(last[0].message, SummaryMessage)
    assert "4711" in last[0].message.text
    assert [entry.id for entry in last] == [16, 14, 15, 17]
    assert sum(entry.message.type == "summary" for entry in last) == 1


@pytest.mark.parametrize("script", [[Reply(error="The server is gone.")], [""], ["  \n"], []])
async def test_a_model_that_fails_or_says_nothing_raises(script: list[Reply | str]) -> None:
    with pytest.raises(CompactionError, match="none was made"):
        await Compactor.build().compact(talk(30), context_usage(script=script))


async def test_it_can_be_stopped() -> None:
    slow = ContextUsage(900, 1_000, scripted_model(["word " * 10_000], pace=0.01), ai.Client())
    task = asyncio.create_task(Compactor.build().compact(talk(30), slow))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("settings", "word"), [({"ratio": 0}, "ratio"), ({"ratio": 1.1}, "ratio"), ({"keep_recent": -1}, "-1")]
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        Compactor.build(**settings)


async def test_functions_of_every_shape_are_compactors() -> None:
    messages = talk(6)
    threads: list[str] = []

    def plain(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
        threads.append(threading.current_thread().name)
        return "plain", messages[-2:]

    async def told(messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        return Compact(f"{context_usage.tokens} tokens", messages[-1:]) if context_usage.tokens > 10 else None

    def optional(messages: Sequence[Message], keep: int = 3) -> tuple[str, Sequence[Message]]:
        return "optional", messages[-keep:]

    def may_be_told(
        messages: Sequence[Message], context_usage: ContextUsage | None = None
    ) -> tuple[str, Sequence[Message]]:
        return f"{context_usage and context_usage.tokens} tokens", []

    assert (await compacted(as_compactor(may_be_told), messages)).summary == "800 tokens"
    assert (await compacted(as_compactor(plain), messages)).kept == tuple(messages[-2:])
    assert threads != [threading.current_thread().name]
    assert (await compacted(as_compactor(told), messages)).summary == "800 tokens"
    assert await as_compactor(told).compact(messages, context_usage(5)) is None
    assert len((await compacted(as_compactor(optional), messages)).kept) == 3
    assert (await compacted(as_compactor(lambda messages: (SummaryMessage("said"), [])), messages)).summary == "said"
    assert as_compactor(plain).should(context_usage(0))
    assert not as_compactor(plain).compacts_ahead
    assert Compactor.build().compacts_ahead


@pytest.mark.parametrize("candidate", [None, "build", 5, Compactor, ContextUsage, lambda: None, lambda a, b, c: None])
def test_what_cannot_compact_is_refused(candidate: object) -> None:
    with pytest.raises(UsageError, match=r"compactor|arguments"):
        as_compactor(candidate)


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        ("only text", "returned a str"),
        ({"summary": "s"}, "returned a dict"),
        (("s", [], "more"), "returned a tuple"),
        (("", []), "empty summary"),
        (Compact("  "), "empty summary"),
        ((None, []), "must be a string"),
        (("s", None), "must be a string"),
        (("s", [UserMessage("never said")]), "not given"),
        (("s", ["not a message"]), "not given"),
        (("s", rounds(2)[::-1]), "another order"),
        (("s", rounds(2)), "every message"),
        (("s", rounds(2)[-1:]), "without its result"),
        (("s", rounds(2)[:2]), "without its result"),
    ],
)
def test_what_a_compactor_gives_is_checked(result: object, sentence: str) -> None:
    with pytest.raises(CompactionError, match=sentence):
        checked(result, rounds(2))


def test_a_checked_result_has_the_message_objects_that_were_given() -> None:
    messages = rounds(3)
    found = checked(Compact("s", rounds(3)[-2:]), messages)
    assert found is not None
    assert all(kept is given for kept, given in zip(found.kept, messages[-2:], strict=True))
    assert checked(None, messages) is None
    assert checked(("s", [messages[0], *messages[-2:]]), messages) is not None
    assert pairs(messages) == [(1, 2), (3, 4), (5, 6)]


async def test_where_another_compactor_fails_the_model_is_asked() -> None:
    async def broken(messages: Sequence[Message]) -> Compact:
        raise ConnectionResetError

    async def hanging(messages: Sequence[Message]) -> None:
        await asyncio.Event().wait()

    def garbage(messages: Sequence[Message]) -> Any:
        return {"what": "is this"}

    for first in (broken, hanging, garbage):
        compactor = Compactor.build(first=first, timeout=0.05)
        assert compactor.compacts_ahead
        assert not compactor.should(context_usage(799))
        assert (await compacted(compactor, talk(30))).summary == "In short."

    working = Compactor.build(first=lambda messages: ("From elsewhere.", messages[-1:]))
    assert (await compacted(working, talk(30), context_usage(script=[]))).summary == "From elsewhere."
    skipping = Compactor.build(first=lambda messages: None)
    assert await skipping.compact(talk(30), context_usage(script=[])) is None


async def test_a_function_that_does_not_return_is_given_up() -> None:
    stop = threading.Event()

    async def hanging(messages: Sequence[Message]) -> None:
        await asyncio.Event().wait()

    def blocking(messages: Sequence[Message]) -> None:
        stop.wait(30)

    def failing(messages: Sequence[Message]) -> None:
        raise TimeoutError("its own")

    try:
        for function in (hanging, blocking):
            with pytest.raises(CompactionError, match=rf"{function.__name__} did not return within 0\.05 s"):
                await as_compactor(function, timeout=0.05).compact(talk(3), context_usage())
    finally:
        stop.set()
    with pytest.raises(TimeoutError, match="its own"):
        await as_compactor(failing, timeout=30).compact(talk(3), context_usage())


FILES = {
    "function": "def compact(messages):\n    return f'{len(messages)} messages', messages[-1:]\n",
    "told": "async def compact(messages, context_usage):\n    return f'{len(messages)} messages', messages[-1:]\n",
    "subclass": """
from __future__ import annotations
from dataclasses import dataclass
from planck_nb.agent.context.compactor import Compact, Compactor

@dataclass
class Mine(Compactor):
    keep: int = 1
    async def compact(self, messages, context_usage):
        return Compact(f'{len(messages)} messages', messages[-self.keep:])
""",
}


@pytest.mark.parametrize("kind", [*FILES, "instance"])
async def test_a_file_defines_a_compactor(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILES["subclass"] + "mine = Mine(keep=1)\n" if kind == "instance" else FILES[kind])
    found = await compacted(Compactor.load(path if kind == "function" else str(path)), talk(4))
    assert found.summary == "4 messages"
    assert len(found.kept) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "no file"),
        ("def compact(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("x = 1\n", "no compactor"),
        ("compact = 5\n", "no compactor"),
        ("def compact():\n    pass\n", "must accept"),
        (FILES["subclass"] + "a, b = Mine(), Mine()\n", "several compactors"),
        (FILES["subclass"].replace("= 1", ""), "without arguments"),
    ],
)
def test_a_file_that_defines_none_is_refused(text: str | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as raised:
        Compactor.load(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_python_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("compact")
    with pytest.raises(ConfigError, match=r"end in \.py"):
        Compactor.load(path)
