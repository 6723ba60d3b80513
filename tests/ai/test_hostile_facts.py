"""Numbers and names from servers' lists, models files, cassettes and headers that cannot be right are unknown."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.hostile import NONSENSE, raw
from support.loopback import Exchange, serving

from planck_nb import ai
from planck_nb.ai.cassettes.cassette_file import read_entries
from planck_nb.ai.message_builder import MessageBuilder, parse_arguments
from planck_nb.ai.model_lookup.user_models import read_models
from planck_nb.ai.numbers import MAX_TOKENS, MAX_WAIT, http_status, token_count
from planck_nb.ai.retries.rate_limit_headers import retry_after
from planck_nb.ai.status_errors import status_error
from planck_nb.ai.stream_events import Finish, TextChunk, ToolCallStart, UsageUpdate
from planck_nb.base.errors import CassetteError

MODEL = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("what", NONSENSE)
async def test_a_context_length_or_an_id_that_cannot_be_right(what: str) -> None:
    value = NONSENSE[what]
    rows = [{"id": value}, value, {"id": "good", "max_model_len": value, "meta": value}]
    text = raw(json.dumps({"data": rows}))

    async def answer(exchange: Exchange) -> None:
        await exchange.answer("200 OK", text)

    async with serving(answer) as server:
        found = await ai.discover("openai", server.url)
    ids = [model.id for model in found]
    if what not in {
        "a number that Python refuses to read",
        "not a number",
        "minus infinity",
        "half of a surrogate pair",
    }:
        assert ids[-1] == "good"  # the others are not JSON at all
    assert all(isinstance(name, str) and name.isprintable() and len(name) <= 500 for name in ids)
    assert all(model.context_window is None or 0 < model.context_window <= MAX_TOKENS for model in found)


@pytest.mark.parametrize("what", NONSENSE)
def test_a_models_file_with_a_number_that_cannot_be_right(what: str) -> None:
    value = json.loads(raw(json.dumps(NONSENSE[what]))) if "refuses" not in what else "9" * 5000
    for change in (
        {"context_window": value},
        {"max_output": value},
        {"price": {"input": value, "output": 1.0}},
        {"price": {"input": 1.0, "output": 1.0, "steps": [{"above": value, "input": 1.0, "output": value}]}},
        {"options": {"max_tokens": value, "temperature": value}},
    ):
        found = read_models({"models": [{"id": "mine", "provider": "openai", "model": "m", **change}]})
        assert all(len(warning) < 1000 for warning in found.warnings)
        for model in found.models:
            assert model.context_window is None or 0 < model.context_window <= MAX_TOKENS
            cost = model.cost(ai.Usage(10**9, 10**9, 10**8, 10**8))
            assert cost is None or 0 <= cost < 10**16


@pytest.mark.parametrize("price", [float("nan"), float("inf"), -3.0, 1e308])
def test_a_cost_that_is_not_an_amount_is_unknown(price: float) -> None:
    model = ai.Model("openai", "m", "chat", pricing=ai.Pricing(price, price))
    assert model.cost(ai.Usage(1_000_000, 1_000_000)) is None


@pytest.mark.parametrize("field", ["status", "occurrence", "v", "end_ms", "chunks", "headers"])
@pytest.mark.parametrize("what", NONSENSE)
def test_a_cassette_with_a_number_that_cannot_be_right(field: str, what: str, tmp_path: Path) -> None:
    entry: dict[str, Any] = {"v": 1, "key": "k", "occurrence": 0, "provider": "openai", "api": "chat", "model": "m"}
    entry |= {"request": {"model": "openai:m"}, "status": 200, "headers": {}, "chunks": [[0.5, "x"]], "end": "eof"}
    entry |= {"message": "", "end_ms": 0.1, "complete": True}
    value = NONSENSE[what]
    entry[field] = [[value, "x"]] if field == "chunks" else {"retry-after": value} if field == "headers" else value
    (tmp_path / "tape").write_text(raw(json.dumps(entry)) + "\n")
    with suppress(CassetteError):
        (found,) = read_entries(tmp_path / "tape")
        assert 0 <= found.duration < MAX_WAIT * 1000
        assert found.status is None or 100 <= found.status < 600


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("1e308", MAX_WAIT),
        ("9" * 5000, MAX_WAIT),
        ("Fri, 01 Jan 9999 00:00:00 GMT", MAX_WAIT),
        ("Fri, 99 Jan 99999 99:00:00 GMT", None),
        ("Fri, 01 Jan 1999 00:00:00 GMT", 0.0),
        ("nan", None),
        ("-5", None),
        ("\x00", None),
        ("1.5", 1.5),
        ("0x10", None),
        ("1_0", 10.0),
        ("999999999", MAX_WAIT),
        ("5s", 5.0),
        ("1500ms", 1.5),
        ("1m30s", 90.0),
        ("-5s", None),
        ("1999-01-01T00:00:00Z", 0.0),
        ("9999-01-01T00:00:00Z", MAX_WAIT),
        ("1600000000", 0.0),
        ("1600000000000", 0.0),
    ],
)
def test_a_time_to_wait_is_a_time(header: str, wait: float | None) -> None:
    assert retry_after({"retry-after": header}) == wait
    assert retry_after({"retry-after-ms": "nan"}) is None
    assert retry_after({"retry-after-ms": "inf"}) == MAX_WAIT
    sentence = str(status_error(MODEL, 429, "no", headers={"retry-after": header}))
    assert len(sentence) < 200


@pytest.mark.parametrize("milliseconds", ["soon", "", "nan", "-1"])
def test_invalid_milliseconds_do_not_hide_the_seconds(milliseconds: str) -> None:
    assert retry_after({"retry-after-ms": milliseconds, "retry-after": "7"}) == 7.0


@pytest.mark.parametrize("written", ["{:.0f}", "{:.3f}", "{:.0f}000"])
def test_a_time_to_wait_until_is_seconds_since_1970(written: str) -> None:
    assert retry_after({"retry-after": written.format(time.time() + 30)}) == pytest.approx(30, abs=5)


@pytest.mark.parametrize("code", [NONSENSE[what] for what in NONSENSE if not str(NONSENSE[what]).startswith("\x00")])
def test_a_status_inside_of_a_stream_is_a_status(code: object) -> None:
    assert http_status(code) is None
    assert http_status(529) == http_status("529") == http_status(529.0) == 529


@pytest.mark.slow
def test_words_of_a_server_are_short_and_visible() -> None:
    sentence = str(status_error(MODEL, 400, "\x1b]52;c;aGk=\x07 a\u202eb\x9b31m " + "word " * 40_000))
    assert sentence.isprintable()
    assert len(sentence) < 500


def test_usage_of_a_dialect_of_another_package_is_checked_too() -> None:
    builder = MessageBuilder(MODEL)
    event = UsageUpdate(ai.Usage(-50_000_000, 1))
    builder.feed([TextChunk(0, "x"), event, Finish("stop")])
    assert builder.build().usage is None
    assert not event.is_known
    assert asdict(event.usage) == asdict(ai.Usage())


@pytest.mark.parametrize("given", ["", "x" * 100_000, "a\x1b[31mb", "a\nb", "\u202e", 5, None, ["x"]])
def test_ids_and_names_of_calls_are_usable(given: Any) -> None:
    builder = MessageBuilder(MODEL)
    builder.feed([ToolCallStart(0, given, given), ToolCallStart(1, given, given)])
    calls = builder.build().tool_calls
    assert len({call.id for call in calls}) == 2
    for call in calls:
        assert call.id.isprintable()
        assert 0 < len(call.id) <= 512
        assert call.name.isprintable()
        assert len(call.name) <= 128


def test_arguments_without_a_number_are_no_arguments() -> None:
    assert parse_arguments('{"a": 1e999}') is None
    assert parse_arguments('{"a": [NaN]}') is None
    assert parse_arguments('{"a": 1e308}') == {"a": 1e308}


def test_counts() -> None:
    assert [token_count(value) for value in (0, 5, 12.0, MAX_TOKENS)] == [0, 5, 12, MAX_TOKENS]
    assert [token_count(value) for value in (True, 1.5, -1, "5", None, MAX_TOKENS + 1, float("nan"))] == [None] * 7
