"""The estimated size of a conversation, against what providers counted."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recordings import body_of, recorded

from planck_nb import ai
from planck_nb.agent.tokens import (
    FILE_TOKENS,
    IMAGE_TOKENS,
    context_tokens,
    estimate,
    estimate_request,
    estimate_text,
    tokens_per_estimate,
)
from planck_nb.ai.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    SummaryMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    VideoPart,
)
from planck_nb.base.errors import PlanckError

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
LONG_ENOUGH = 200
"""Characters below which a single token is too much of the whole."""


def said(text: str, usage: Usage | None = None, **more: Any) -> AssistantMessage:
    return AssistantMessage((TextPart(text),), usage=usage, **more)


@settings(deadline=None)
@given(st.text(), st.text())
def test_more_text_never_takes_less_and_no_more_than_its_pieces(left: str, right: str) -> None:
    whole = estimate_text(left + right)
    assert max(estimate_text(left), estimate_text(right)) <= whole <= estimate_text(left) + estimate_text(right)


def hundredths_of(character: str) -> int:
    """What a character is estimated to take, apart from the words that it is part of, in hundredths of a token."""
    if re.fullmatch("[a-zA-Z]", character):
        return 10
    by_itself = {" ": 3, "\t": 3, "\r": 3, "\n": 90}
    if character in by_itself:
        return by_itself[character]
    if re.fullmatch("[0-9]", character):
        return 80
    return next(
        weight for last, weight in ((0x7F, 40), (0x7FF, 60), (0xFFFF, 110), (0x10FFFF, 250)) if ord(character) <= last
    )


@settings(deadline=None)
@given(st.text() | st.text(alphabet="aAbBzZ 09_-\n\té漢😀\ud800"))
def test_an_estimate_is_the_sum_of_words_and_characters(text: str) -> None:
    hundredths = 75 * len(WORD.findall(text)) + sum(map(hundredths_of, text))
    assert estimate_text(text) == -(-hundredths // 100)


def test_a_very_long_text_is_estimated_in_a_fraction_of_the_time_that_its_words_take_to_find() -> None:
    text = "the quick brown fox jumps. " * 100_000
    began = time.process_time()
    WORD.findall(text)
    found = time.process_time()
    estimate_text(text)
    assert time.process_time() - found < (found - began) / 2


LINES = {
    "prose": "The quick brown fox jumps over the lazy dog, as foxes do.\n" * 20_000,
    "numbers": "".join(f"{number}, {number * 7919 % 1_000_003}, 0.{number}\n" for number in range(50_000)),
    "Japanese": "今日は良い天気です。" * 100_000,
    "camelCase": "aVariableName(ANOTHER_NAME) = 12\n" * 40_000,
}


@pytest.mark.parametrize(
    "text",
    [
        *LINES.values(),
        "".join(LINES.values()),
        "".join(text[place : place + 5_000] for place in range(0, 900_000, 5_000) for text in LINES.values()),
        "word " * 200_000 + "漢" * 30_000,
        ("word " * 30 + "9" * 3_450) * 1_000,  # records as long as the shares that pieces are taken of
    ],
    ids=[*LINES, "one after the other", "in turns", "different at the end", "records"],
)
def test_a_long_text_is_estimated_by_pieces_within_two_percent(text: str) -> None:
    parts = (text[place : place + 500_000] for place in range(0, len(text), 500_000))
    exact = sum(map(estimate_text, parts))
    assert estimate_text(text) == pytest.approx(exact, rel=0.02)
    assert estimate_text(text) == estimate_text(str(text.encode(), "utf-8"))


def test_the_time_for_a_long_text_does_not_grow_with_it() -> None:
    long, longer = "the quick brown fox. " * 50_000, "the quick brown fox. " * 1_000_000
    times: list[float] = []
    for text in (long, longer):
        began = time.process_time()
        for _ in range(5):
            estimate_text(text)
        times.append(time.process_time() - began)
    assert times[1] < 5 * times[0]


def test_only_empty_text_takes_no_tokens() -> None:
    assert estimate_text("") == 0
    assert all(estimate_text(chr(code)) > 0 for code in range(0x3000))
    assert estimate_text("\ud800") > 0  # a lone surrogate, as a model may write one


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("今天天气很好、我们去公园散步吧。", 12, 20),
        ("일본어와 한국어는 다릅니다.", 9, 20),
        ("Привет, как дела? Сегодня хорошая погода.", 10, 25),
        ("👍🏽🎉", 5, 9),
        ("Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4", 20, 40),
        ("def add(a: int, b: int) -> int:\n    return a + b\n", 16, 28),
    ],
)
def test_scripts_and_code_that_four_characters_a_token_get_wrong(text: str, least: int, most: int) -> None:
    assert least <= estimate_text(text) <= most


@pytest.mark.slow
async def test_prose_is_estimated_within_15_percent_of_what_its_provider_counted() -> None:
    errors = [error for row in RECORDED if (error := await _error_of(row)) is not None]
    assert len(errors) > 25
    assert sum(errors) / len(errors) < 0.08
    assert sum(error < 0.15 for error in errors) > 0.9 * len(errors)
    assert max(errors) < 0.25


RECORDED = recorded(
    "stream", ("anthropic", "messages"), ("openai", "chat"), ("openai", "responses"), ("ollama", "chat")
)


async def _error_of(parameter: Any) -> float | None:
    """By how much of it the estimate misses what was counted, None where the count is of more than text."""
    row = parameter and parameter.values[0]
    reply = await _replayed(body_of(row), row or {})
    if reply is None or reply.usage is None or reply.tool_calls or reply.thinking or len(reply.text) < LONG_ENOUGH:
        return None
    counted = reply.usage.output_tokens - reply.usage.thinking_tokens
    return abs(estimate_text(reply.text) / counted - 1)


async def _replayed(body: bytes, row: dict[str, Any]) -> AssistantMessage | None:
    dialect = {"messages": None, "chat": "chat", "responses": "responses"}[row["api"]]
    api: Any = {"api": dialect} if row["provider"] == "openai" else {}
    model = ai.get_model(row["provider"], row["model"] or "x", base_url="http://127.0.0.1:9", api_key="k", **api)
    answer = httpx.Response(200, headers={"content-type": row["content_type"]}, content=body)
    async with ai.Client(transport=httpx.MockTransport(lambda _: answer)) as client:
        try:
            return await client.complete(model, ai.Context(messages=[UserMessage("hi")]))
        except PlanckError:
            return None


def test_images_files_thinking_calls_and_results_count() -> None:
    empty = estimate(UserMessage(()))
    assert estimate(UserMessage([ImagePart(b"png")])) == empty + IMAGE_TOKENS
    assert estimate(UserMessage([FilePart(b"pdf")])) == empty + FILE_TOKENS
    assert estimate(AssistantMessage((ThinkingPart("long and winding thoughts"),))) > empty
    call = AssistantMessage((ToolCallPart("1", "read", {}),))
    longer = AssistantMessage((ToolCallPart("1", "read", {"path": "notes/long/and/winding.txt"}),))
    broken = AssistantMessage((ToolCallPart("1", "read", {}, invalid="{notes/long/and/winding.txt"),))
    assert estimate(call) > empty
    assert estimate(longer) > estimate(call) + 5
    assert estimate(broken) > estimate(call) + 5
    result = ToolResultPart("1", "plot", "done")
    imaged = ToolResultMessage((replace(result, images=(ImagePart(b"png"),)),))
    assert estimate(imaged) == estimate(ToolResultMessage((result,))) + IMAGE_TOKENS


@pytest.mark.parametrize("part", [ImagePart(b"png"), FilePart(b"pdf"), VideoPart(b"mp4")])
def test_what_media_take_does_not_show_how_a_model_counts_text(part: ImagePart | FilePart | VideoPart) -> None:
    reply = said("A cat.", Usage(input_tokens=170_000, output_tokens=5))
    assert tokens_per_estimate([UserMessage((part, TextPart("What is this?"))), reply], 1) == 1.0


def test_the_system_prompt_and_the_tools_are_part_of_a_request() -> None:
    tool = ai.ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    hello = UserMessage("hello")
    bare = estimate_request(ai.Context(messages=[hello]))
    assert bare == estimate(hello)
    assert estimate_request(ai.Context("Be brief, please.", [hello])) == bare + estimate_text("Be brief, please.")
    assert estimate_request(ai.Context("", [hello], [tool])) > bare + 10
    assert context_tokens([hello], "Be brief.", [tool]) == estimate_request(ai.Context("Be brief.", [hello], [tool]))


def test_the_estimate_starts_from_the_providers_last_count() -> None:
    old: list[Message] = [UserMessage("x" * 50_000), said("y", Usage(100, 20)), UserMessage("go on")]
    newest = said("fine", Usage(input_tokens=300, output_tokens=40, cache_read_tokens=250))
    later: list[Message] = [UserMessage("and now?")]
    assert context_tokens([*old, newest]) == 340
    assert context_tokens([*old, newest, *later]) == 340 + estimate(later[0])
    assert context_tokens([*old, newest, *later], system="ignored, for it was counted") == 340 + estimate(later[0])


def test_a_reply_without_a_count_is_estimated_after_the_one_before() -> None:
    uncounted = said("a local server counts nothing")
    zero = said("nor does this one", Usage())
    half = said("this one knows what it wrote alone", Usage(output_tokens=9_000))
    later = [uncounted, zero, half]
    assert context_tokens([said("y", Usage(100, 20)), *later]) == 120 + sum(map(estimate, later))


def test_a_reply_that_was_cut_counts_at_least_what_it_says() -> None:
    text = "as far as it came " * 20
    cut = said(text, Usage(100, 1), stop_reason="aborted")
    assert context_tokens([cut]) == 100 + estimate(cut)
    assert context_tokens([replace(cut, stop_reason="stop")]) == 101


def test_counts_from_before_a_summary_are_ignored() -> None:
    kept = said("kept word for word", Usage(90_000, 10))
    summary = SummaryMessage("Much was said.", kept=[7])
    question = UserMessage("next")
    assert context_tokens([summary, kept, question]) == estimate(summary) + estimate(kept) + estimate(question)
    answer = said("here", Usage(60, 5))
    assert context_tokens([summary, kept, question, answer]) == 65


def test_with_a_count_the_earlier_messages_are_not_looked_at() -> None:
    class Walked(list[Message]):
        read = 0

        def __getitem__(self, index: Any) -> Any:
            Walked.read += 1
            return super().__getitem__(index)

    history = Walked([UserMessage("x")] * 10_000 + [said("y", Usage(100, 20)), UserMessage("z")])
    assert context_tokens(history) == 120 + estimate(UserMessage("z"))
    assert Walked.read < 5
