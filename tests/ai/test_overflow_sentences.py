"""What servers answer when a conversation is too long, and what sounds like it and is something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.wire import ASK, CHAT, client, replying, sse

from planck_nb.ai.dialects.google_common import http_failure
from planck_nb.ai.status_errors import body_error
from planck_nb.base.errors import ContextOverflowError, QuotaExceededError, RateLimitError

SENTENCES: dict[str, dict[str, tuple[int, str | dict[str, Any]]]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "overflow_sentences.json").read_text()
)
OVERFLOWS, OTHERS = SENTENCES["overflows"], SENTENCES["others"]


def body(said: str | dict[str, Any]) -> bytes:
    return json.dumps({"error": {"message": said} if isinstance(said, str) else said}).encode()


@pytest.mark.parametrize("name", OVERFLOWS)
@pytest.mark.parametrize("failure", [body_error, http_failure])
def test_a_conversation_that_is_too_long(name: str, failure: object) -> None:
    status, said = OVERFLOWS[name]
    assert callable(failure)
    error = failure(CHAT, status, {}, body(said))
    assert isinstance(error, ContextOverflowError), str(error)
    assert "shorten it or choose a model with a larger context window" in str(error)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("failure", [body_error, http_failure])
def test_something_else(name: str, failure: object) -> None:
    status, said = OTHERS[name]
    assert callable(failure)
    assert not isinstance(failure(CHAT, status, {}, body(said)), ContextOverflowError)


@pytest.mark.parametrize(
    "said",
    [
        "Insufficient Balance",
        "This request requires more credits, or fewer max_tokens.",
        "Payment Required",
        "",
        "Your account is not active, please check your billing details.",
    ],
)
def test_payment_required_is_an_account_without_quota(said: str) -> None:
    error = body_error(CHAT, 402, {}, body(said))
    assert isinstance(error, QuotaExceededError)
    assert "has no quota left (402)" in str(error)
    assert "add credit or choose another model" in str(error)


@pytest.mark.parametrize("name", ["LM Studio", "vLLM", "SGLang", "llama-cpp-python"])
async def test_the_same_sentence_inside_a_stream(name: str) -> None:
    _, said = OVERFLOWS[name]
    with pytest.raises(ContextOverflowError):
        await client(replying(sse({"error": {"message": said}}))).complete(CHAT, ASK)


def test_too_early_is_not_a_bad_request() -> None:
    assert "could not take the request yet (425)" in str(body_error(CHAT, 425, {}, b""))
    assert type(body_error(CHAT, 429, {}, b"")) is RateLimitError
