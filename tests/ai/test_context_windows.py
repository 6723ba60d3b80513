"""The sizes in the sentences of servers that refuse a request as too long, and what is remembered of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.wire import CHAT

from planck_nb import ai
from planck_nb.ai.context_windows import ContextWindows, Refusal, is_about_window, read_refusal

SENTENCES = [
    ("request (22019 tokens) exceeds the available context size (4096 tokens), try increasing it", 22_019, 4_096),
    ("The maximum context length is 4097 tokens. However, you requested 5000 tokens (4000 in the messages).",
     5_000, 4_097),
    ("This model's maximum context length is 128000 tokens. However, your messages resulted in 140123 tokens.",
     140_123, 128_000),
    ("prompt is too long: 208310 tokens > 200000 maximum", 208_310, 200_000),
    ("input length and `max_tokens` exceed context limit: 199999 + 21333 > 200000", 221_332, 200_000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_200_000, 1_048_576),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537_812, 131_072),
    ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 40_000, 32_768),
    ("Trying to keep the first 6000 tokens, but the model is loaded with context length of only 4096 tokens",
     6_000, 4_096),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 5_000, 4_096),
    ("Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens).", 5_000, 4_090),
    ("This model's maximum context length is 8,192 tokens, however you requested 9,001 tokens", 9_001, 8_192),
    ("the input token count is 40000 but model only supports up to 32768.", 40_000, 32_768),
    ("`inputs` must have less than 4095 tokens. Given: 5111", 5_111, 4_095),
    ("The decoder prompt (length 5120) is longer than the maximum model length of 4096.", 5_120, 4_096),
    ("The prompt (total length 5000) is too long to fit into the model (context length 4096).", 5_000, 4_096),
    ("(n_keep: 5120>= n_ctx: 4096)", None, 4_096),
    ("len(req.origin_input_ids_unpadded)=5000 => 40000 >= 32768", None, 32_768),
    ("exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens.", 300_123, 272_000),
    ("total number of tokens in the prompt cannot exceed 4081 - received 4292.", 4_292, 4_081),
    ("Input length 5000 exceeds maximum length 4096", 5_000, 4_096),
    ("input tokens to be no more than 8192, actual: 9001", 9_001, 8_192),
    ("Current length is 9012 while limit is 8192", 9_012, 8_192),
    ("size limit exceeded by 11326 tokens", None, None),
    ("Your input exceeds the context window of this model.", None, None),
    ("context length " + "9" * 400, None, None),
    ("", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("words", "tokens", "limit"), SENTENCES)
def test_the_sizes_in_a_refusal_are_read(words: str, tokens: int | None, limit: int | None) -> None:
    refusal = read_refusal(words)
    assert (refusal.tokens, refusal.limit) == (tokens, limit)


@pytest.mark.parametrize(
    ("words", "total", "read"),
    [
        ("4097 tokens. However, you requested 16000 tokens (2000 in the messages, 14000 in the reply)", 16_000, 2_000),
        ("4097 tokens. You requested about 40,000 tokens (8,000 of text input, 32,000 in the output)", 40_000, 8_000),
        ("4097 tokens, however you requested 17000 tokens (16000 in your prompt; 1000 for the reply).", 17_000, 16_000),
        ("4097 tokens. You requested a total of 40000 tokens: 1000 tokens from the input messages.", 40_000, 1_000),
        (
            "4097 tokens. However, you requested 40960 output tokens and your prompt contains 1 input tokens.",
            40_960,
            1,
        ),
        ("4097 tokens and your request has 1320 input tokens (4097 > 4097 - 1320).", 5_417, 1_320),
        ("4097 tokens, however you requested 9001 tokens", 9_001, None),
    ],
)
def test_the_input_is_told_from_the_reply_that_was_requested(words: str, total: int, read: int | None) -> None:
    assert read_refusal(f"The maximum context length is {words}") == Refusal(total, 4_097, read)


def test_the_input_of_a_sum_is_its_first_number() -> None:
    words = "input length and `max_tokens` exceed context limit: 4000 + 1000 > 4097"
    assert read_refusal(words) == Refusal(5_000, 4_097, 4_000)


@pytest.mark.parametrize(
    "words",
    ["Expected a string with maximum length 10485760, string too long", "expected maxLength: 50000, actual: 64096"],
)
def test_a_number_of_characters_is_not_the_size_of_a_window(words: str) -> None:
    assert not is_about_window(400, words)


@pytest.mark.parametrize(
    "words",
    [
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000.",
        "Request too large: 45000 tokens per minute exceeds the limit of 30000.",
        "Request too large on tokens per minute (TPM): maximum input size: 6000, requested 8123",
    ],
)
def test_a_limit_per_minute_is_not_the_size_of_a_window(words: str) -> None:
    assert read_refusal(words) == Refusal()


def test_the_smallest_size_that_was_refused_is_the_window_until_the_server_reports_another() -> None:
    windows, options = ContextWindows(), ai.Options()
    assert windows.window(CHAT, options) is None
    windows.refused(CHAT, 5_000)
    windows.refused(CHAT, 8_000)
    assert windows.window(CHAT, options) == 5_000
    assert windows.window(replace(CHAT, context_window=3_000), options) == 3_000
    assert windows.window(replace(CHAT, base_url="http://127.0.0.1:8/v1"), options) is None
    windows.forget(CHAT)
    assert windows.window(CHAT, options) is None


def test_the_window_of_ollama_is_the_one_that_the_request_sets() -> None:
    model = ai.get_model("ollama:qwen")
    options = ai.Options(extra={"options": {"num_ctx": 2_048}})
    assert ContextWindows().window(replace(model, context_window=8_192), options) == 2_048
    assert ContextWindows().window(replace(model, options=options), ai.Options()) == 2_048
