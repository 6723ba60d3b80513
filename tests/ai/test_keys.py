"""Keys as people set them: with white space around them, with typographic quotes, or just some word."""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx
import pytest
from support.wire import ASK, CHAT_HELLO

from planck_nb import ai
from planck_nb.base.errors import MissingCredentialError, ModelError, NotFoundError
from planck_nb.base.secrets import redact

MODEL = ai.get_model("openai", "gpt-4o", api="chat")


def client(credentials: Mapping[str, str], seen: list[httpx.Request]) -> ai.Client:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    return ai.Client(credentials=credentials, transport=httpx.MockTransport(handle))


async def test_white_space_around_a_key_is_left_out() -> None:
    seen: list[httpx.Request] = []
    await client({"OPENAI_API_KEY": " sk-abc\r\n"}, seen).complete(MODEL, ASK)
    assert seen[0].headers["authorization"] == "Bearer sk-abc"
    with pytest.raises(MissingCredentialError):
        await client({"OPENAI_API_KEY": " \n"}, seen).complete(MODEL, ASK)


@pytest.mark.parametrize("key", ["sk-abc\u2019", "\u201csk-abc\u201d", "sk-a\nbc", "sk-\x7fabc"])
async def test_a_key_that_no_header_can_carry_is_reported_without_showing_it(key: str) -> None:
    seen: list[httpx.Request] = []
    for asking, source in (
        (client({"OPENAI_API_KEY": key}, seen).complete(MODEL, ASK), "OPENAI_API_KEY"),
        (client({}, seen).complete(ai.get_model("openai", "gpt-4o", api_key=key), ASK), "api_key"),
    ):
        with pytest.raises(
            ModelError, match=f"^{source} contains characters that are not allowed in a key; set it again.$"
        ) as caught:
            await asking
        assert caught.value.__cause__ is caught.value.__context__ is None
    assert seen == []


@pytest.mark.parametrize("key", ["x", "error", "ollama"])
async def test_a_word_in_place_of_a_key_stays_in_sentences(key: str) -> None:
    words = "error: ollama has no model x"
    body = json.dumps({"error": {"message": words}})
    transport = httpx.MockTransport(lambda _: httpx.Response(404, json=json.loads(body)))
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", api_key=key)
    with pytest.raises(NotFoundError, match=words):
        await ai.Client(transport=transport).complete(model, ASK)


def test_a_word_in_place_of_a_local_servers_key_is_not_a_secret() -> None:
    local, far = "http://127.0.0.1:1234/v1", "https://gateway.example/v1"
    for word, url, replaced in [
        ("lm-studio-local", local, False),
        ("far-away-word", far, True),
        ("generated-0123456789", local, True),
    ]:
        ai.Client(credentials={}).key_for(ai.get_model("openai:any", base_url=url, api_key=word))
        assert (redact(f"it is {word}") != f"it is {word}") is replaced
