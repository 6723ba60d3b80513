"""Servers that do not accept images: their sentences, and the request that is sent again without images."""

from __future__ import annotations

import json

import httpx
import pytest
from support.wire import CHAT, CHAT_HELLO, client

from planck_nb import ai
from planck_nb.ai.dialects.google_common import http_failure
from planck_nb.ai.retries.known_servers import KnownServers
from planck_nb.ai.retries.retry import is_passing
from planck_nb.ai.status_errors import body_error, is_about_images, is_about_unreadable_images
from planck_nb.ai.stream_events import StreamWarning
from planck_nb.base.errors import (
    BadRequestError,
    NotFoundError,
    ProviderStatusError,
    ProviderUnavailableError,
    UnsupportedFeatureError,
)
from planck_nb.testing import scripted_model

REFUSALS = {
    "llama.cpp": (
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ),
    "Ollama": (500, "this model is missing data required for image input"),
    "vLLM": (400, "At most 0 image(s) may be provided in one prompt."),
    "vLLM, another model": (400, "qwen3 is not a multimodal model"),
    "OpenRouter": (404, "No endpoints found that support image input"),
    "OpenAI": (400, "Invalid content type. image_url is only supported by certain models."),
    "DeepSeek": (422, "Failed to deserialize: messages[0]: unknown variant `image_url`, expected `text`"),
    "Mistral": (400, "Image input is not enabled for this model"),
    "LM Studio": (400, "Model does not support images. Please use a model that does."),
    "Anthropic": (400, "This model does not support image inputs."),
}
UNREADABLE = {
    "Anthropic": (400, "Could not process image"),
    "Anthropic, its size": (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes"),
    "OpenAI": (400, "You uploaded an unsupported image. Please make sure your image is valid."),
    "OpenAI, its data": (400, "The image data you provided does not represent a valid image."),
    "Google": (400, "Unable to process input image. Please retry or report in a new issue."),
    "Google, another": (400, "Provided image is not valid."),
    "llama.cpp": (400, "Failed to load image or audio file"),
    "Ollama": (500, "image: unknown format"),
    "vLLM": (400, "cannot identify image file <_io.BytesIO object at 0x7f>"),
    "Mistral": (400, "Image, 'data', could not be loaded as a valid image"),
}
OTHERS = {
    "an image that cannot be read": (400, "Could not process image"),
    "a format": (400, "The image was specified using the image/png media type, but it appears to be a jpeg"),
    "too many": (400, "messages.0.content: too many images: 101 > 100 maximum"),
    "text": (500, "Internal server error"),
    "a parameter": (400, "response_format is not supported by this model"),
}
PIXEL = ai.ImagePart(b"\x89PNG", "image/png")
DRAWN: list[ai.Message] = [
    ai.UserMessage("Draw it."),
    ai.AssistantMessage((ai.ToolCallPart("c", "draw", {}),)),
    ai.ToolResultMessage((ai.ToolResultPart("c", "draw", "drawn", images=(PIXEL,)),)),
]


class Blind:
    """A server that refuses images."""

    def __init__(self, status: int = 500, words: str = REFUSALS["llama.cpp"][1]) -> None:
        self.asked: list[str] = []
        self.transport = httpx.MockTransport(self._answer)
        self._status, self._words = status, words

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.dumps(json.loads(request.content)["messages"]))
        if "image_url" in self.asked[-1]:
            return httpx.Response(self._status, json={"error": {"message": self._words}})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))


@pytest.mark.parametrize("failure", [body_error, http_failure])
@pytest.mark.parametrize("server", REFUSALS)
def test_a_refusal_is_one_sentence_and_is_not_retried(server: str, failure: object) -> None:
    status, words = REFUSALS[server]
    assert callable(failure)
    error = failure(CHAT, status, {}, json.dumps({"error": {"message": words}}).encode())
    assert isinstance(error, ProviderStatusError)
    assert isinstance(error, {500: ProviderUnavailableError, 404: NotFoundError}.get(status, BadRequestError))
    assert is_about_images(error)
    assert not is_passing(error)
    assert "openai does not accept images for some-model" in str(error)
    assert str(error).endswith("leave them out or choose another model.")


@pytest.mark.parametrize("failure", [body_error, http_failure])
@pytest.mark.parametrize("server", UNREADABLE)
def test_an_unreadable_image_is_one_sentence_and_is_not_retried(server: str, failure: object) -> None:
    status, words = UNREADABLE[server]
    assert callable(failure)
    error = failure(CHAT, status, {}, json.dumps({"error": {"message": words}}).encode())
    assert is_about_unreadable_images(error)
    assert not is_about_images(error)
    assert not is_passing(error)
    assert "openai could not read an image of the request for some-model" in str(error)
    assert str(error).endswith("check the file or choose another model.")


@pytest.mark.parametrize("server", REFUSALS)
def test_a_model_without_images_is_not_an_image_that_cannot_be_read(server: str) -> None:
    status, words = REFUSALS[server]
    error = body_error(CHAT, status, {}, json.dumps({"error": {"message": words}}).encode())
    assert not is_about_unreadable_images(error)


@pytest.mark.parametrize("name", OTHERS)
def test_something_else(name: str) -> None:
    status, words = OTHERS[name]
    assert not is_about_images(body_error(CHAT, status, {}, json.dumps({"error": {"message": words}}).encode()))


async def test_images_of_tools_are_left_out_once_and_visibly() -> None:
    server = Blind()
    http = client(server.transport, retries=3)
    stream = http.stream(CHAT, ai.Context(messages=DRAWN))
    events = [event async for event in stream]
    assert stream.message.text == "Hello"
    warnings = [event.text for event in events if isinstance(event, StreamWarning)]
    assert warnings == [f"{CHAT} does not accept images; the request is sent again without them."]
    assert ["image_url" in asked for asked in server.asked] == [True, False]
    assert "drawn" in server.asked[1]
    # Later requests have none from the start, and other models at the same server keep theirs.
    again = await http.complete(CHAT, ai.Context(messages=DRAWN))
    assert again.text == "Hello"
    assert ["image_url" in asked for asked in server.asked] == [True, False, False]
    assert not http.accepting(CHAT).takes("image")
    assert http.accepting(ai.get_model("openai", "other", base_url="http://127.0.0.1:9/v1")).takes("image")


async def test_an_image_of_the_person_is_refused_with_a_sentence() -> None:
    server = Blind()
    http = client(server.transport, retries=3)
    asked = ai.Context(messages=[ai.UserMessage([ai.TextPart("What is it?"), PIXEL])])
    with pytest.raises(UnsupportedFeatureError, match="cannot look at images; leave them out or choose another model"):
        await http.complete(CHAT, asked)
    assert len(server.asked) == 1


async def test_a_server_that_says_so_without_having_been_sent_an_image_is_reported() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(400, json={"error": {"message": "this is not a multimodal model"}})

    http = client(httpx.MockTransport(answer))
    with pytest.raises(BadRequestError, match="does not accept images"):
        await http.complete(CHAT, ai.Context(messages=DRAWN[:1]))
    assert http.accepting(CHAT).takes("image")


def test_a_model_without_an_address_stays_as_it_is() -> None:
    servers = KnownServers()
    servers.refused_images(ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1"))
    demo = scripted_model(["Here."])
    assert servers.accepting(demo) is demo
