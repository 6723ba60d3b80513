"""A conversation goes on after a document, an image or a video of a prompt was refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.wire import CHAT, CHAT_HELLO, chat_chunk, client, sse

from planck_nb import Agent, Session
from planck_nb.ai.messages import FilePart, ImagePart, TextPart, UserPart, VideoPart
from planck_nb.ai.models import Model
from planck_nb.ai.request import Options
from planck_nb.base.errors import BadRequestError, UnsupportedFeatureError

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BAD = FilePart(b"%PDF-1.4 bad", name="bad.pdf")
GOOD = FilePart(b"%PDF-1.4 good", name="good.pdf")
OTHER = replace(CHAT, id="other")
NOTE = "[file bad.pdf: left out, because the model could not read it]"


def reading(part: UserPart) -> list[UserPart]:
    return [TextPart("Read it."), part]


class Server:
    """Refuses requests with certain documents, by model; at first none."""

    def __init__(self) -> None:
        self.refused: dict[str, Sequence[FilePart]] = {}
        self.asked: list[str] = []
        self.words = "Could not process PDF"
        self.client = client(httpx.MockTransport(self._answer))

    def agent(self, model: Model = CHAT, **settings: object) -> Agent:
        return Agent(model=model, client=self.client, **settings)  # type: ignore[arg-type]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        sent = json.dumps(body["messages"])
        self.asked.append(sent)
        if any(str(part.data) in sent for part in self.refused.get(body["model"], ())):
            return httpx.Response(400, json={"error": {"message": self.words}})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._hello())

    async def _hello(self) -> AsyncIterator[bytes]:
        for chunk in CHAT_HELLO:
            yield chunk

    def sent(self, *parts: FilePart) -> list[bool]:
        """Whether the newest request had each of the documents."""
        return [str(part.data) in self.asked[-1] for part in parts]


async def test_the_prompt_of_a_refused_document_fails_with_a_sentence_and_the_next_ones_are_answered() -> None:
    server = Server()
    server.refused = {CHAT.id: [BAD]}
    agent = server.agent()
    with pytest.raises(BadRequestError, match="could not read a document of the request"):
        await agent.prompt(reading(BAD))
    assert len(server.asked) == 1
    run = agent.prompt("And now?")
    warnings = [event.text async for event in run if event.type == "warning"]
    assert (await run).text == "Hello"
    problem = "because the model could not read it"
    assert warnings == [f"The document 'bad.pdf' is not sent to {CHAT}, {problem}; it reads a note in its place."]
    assert len(server.asked) == 2
    assert NOTE in server.asked[-1]
    assert "Read it." in server.asked[-1]
    assert agent.state.messages[0].message.content == tuple(reading(BAD))  # the history keeps it
    with pytest.raises(BadRequestError):  # it is tried again if it is sent again
        await agent.prompt(reading(BAD))
    assert (await agent.prompt(reading(GOOD))).text == "Hello"
    assert server.sent(BAD, GOOD) == [False, True]


async def test_the_prompt_of_an_image_that_a_server_cannot_read_fails_and_the_next_ones_are_answered() -> None:
    asked: list[bool] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append("image_url" in request.content.decode())
        if asked[-1]:
            return httpx.Response(400, json={"error": {"message": "Could not process image"}})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    agent = Agent(model=CHAT, client=client(httpx.MockTransport(answer)))
    with pytest.raises(BadRequestError, match="could not read an image of the request"):
        await agent.prompt(reading(ImagePart(PIXEL)))
    assert (await agent.prompt("And now?")).text == "Hello"
    assert asked == [True, False]
    with pytest.raises(BadRequestError):  # it is tried again if it is sent again
        await agent.prompt(reading(ImagePart(PIXEL)))
    assert (await agent.prompt("And now?")).text == "Hello"


async def test_an_image_of_a_tool_that_a_server_cannot_read_is_left_out_and_the_turn_goes_on() -> None:
    asked: list[str] = []
    call = {"index": 0, "id": "a", "function": {"name": "word", "arguments": "{}"}}
    calls = sse(chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls"))

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content.decode())
        if PIXEL in asked[-1]:
            return httpx.Response(400, json={"error": {"message": "Could not process image"}})
        chunks = calls if len(asked) in {1, 3} else CHAT_HELLO  # a call in the second round, too
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(chunks))

    def word() -> ImagePart:
        """Draw a word."""
        return ImagePart(PIXEL)

    agent = Agent(model=CHAT, client=client(httpx.MockTransport(answer)), tools=[word])
    assert (await agent.prompt("Draw twice.")).text == "Hello"
    assert [PIXEL in request for request in asked] == [False, True, False, True, False]
    assert asked[-1].count("[image png, 70 bytes: left out, because the model could not read it]") == 2
    assert sum(PIXEL in str(each.message) for each in agent.state.messages) == 2  # the history keeps them
    assert (await agent.prompt("And now?")).text == "Hello"
    assert len(asked) == 6


async def test_what_was_read_before_is_still_sent_if_only_the_image_of_a_tool_is_refused() -> None:
    asked: list[str] = []
    call = {"index": 0, "id": "a", "function": {"name": "word", "arguments": "{}"}}
    calls = sse(chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls"))
    read = ImagePart("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "image/gif")

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content.decode())
        if PIXEL in asked[-1]:
            return httpx.Response(400, json={"error": {"message": "Could not process image"}})
        chunks = calls if len(asked) == 2 else CHAT_HELLO
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(chunks))

    def word() -> ImagePart:
        """Draw a word."""
        return ImagePart(PIXEL)

    agent = Agent(model=CHAT, client=client(httpx.MockTransport(answer)), tools=[word])
    await agent.prompt(reading(read))
    assert (await agent.prompt("Draw a word.")).text == "Hello"
    assert [(str(read.data) in request, PIXEL in request) for request in asked] == [
        (True, False),
        (True, False),
        (True, True),
        (True, False),
    ]


async def test_a_stored_conversation_with_a_refused_document_goes_on(tmp_path: Path) -> None:
    server = Server()
    server.refused = {CHAT.id: [BAD]}
    with Session.start("a" * 16, name="s", directory=tmp_path) as session:
        agent = server.agent(id="ann", session=session)
        with pytest.raises(BadRequestError):
            await agent.prompt(reading(BAD))
        await agent.stop()
    with Session.open(tmp_path, "s") as session:
        agent = server.agent(id="ann", session=session)
        assert (await agent.prompt(reading(GOOD))).text == "Hello"
        assert server.sent(BAD, GOOD) == [False, True]
        assert (await agent.prompt("more")).text == "Hello"
        assert len(server.asked) == 4  # refused, refused once more, and twice answered
        await agent.stop()


async def test_what_another_model_has_read_is_left_out_for_this_one_only() -> None:
    server = Server()
    server.refused = {OTHER.id: [GOOD]}
    agent = server.agent()
    await agent.prompt(reading(GOOD))
    agent.model = OTHER
    assert (await agent.prompt("And you?")).text == "Hello"
    assert server.sent(GOOD) == [False]
    agent.model = CHAT
    await agent.prompt("And now?")
    assert server.sent(GOOD) == [True]
    agent.model = OTHER
    await agent.prompt("Again.")
    assert len(server.asked) == 5  # it was refused once


async def test_an_earlier_document_is_sent_again_if_that_of_the_prompt_is_the_bad_one() -> None:
    server = Server()
    server.refused = {CHAT.id: [BAD]}
    agent = server.agent()
    await agent.prompt(reading(GOOD))
    with pytest.raises(BadRequestError):
        await agent.prompt(reading(BAD))
    assert server.sent(GOOD, BAD) == [False, True]
    assert (await agent.prompt("more")).text == "Hello"
    assert server.sent(GOOD, BAD) == [True, False]


async def test_no_single_document_is_blamed_if_it_could_be_any_of_several() -> None:
    server = Server()
    server.refused = {CHAT.id: [BAD]}
    agent = server.agent()
    with pytest.raises(BadRequestError):
        await agent.prompt([GOOD, BAD])
    await agent.prompt("more")
    for name in ("good.pdf", "bad.pdf"):
        assert f"[file {name}: left out, because the model could not read one of the documents]" in server.asked[-1]


WHOLE = FilePart(b"%PDF-1.4 whole\n%%EOF\n", name="whole.pdf")
CUT = FilePart(b"%PDF-1.4 cut", name="cut.pdf")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (BAD, "messages.0.content.2.pdf.source.base64.data: The PDF specified was not valid."),
        (BAD, "Invalid file data: 'messages[1].content[2].file.file_data'. Expected a base64-encoded data URL."),
        (BAD, "Failed to parse bad.pdf: invalid PDF structure"),
        (CUT, "Could not process PDF"),
        (FilePart(b"%PDF-1.4 /Encrypt 5 0 R\n%%EOF", name="locked.pdf"), "The PDF is password protected."),
        (CUT, "messages.0.content.0.pdf: The PDF specified was not valid."),  # which is the position of a text
    ],
)
async def test_only_the_bad_one_of_several_documents_is_left_out_if_it_is_known(bad: FilePart, words: str) -> None:
    server = Server()
    server.refused, server.words = {CHAT.id: [bad]}, words
    agent = server.agent()
    with pytest.raises(BadRequestError):
        await agent.prompt([TextPart("Read them."), WHOLE, bad, TextPart("Now.")])
    assert (await agent.prompt("more")).text == "Hello"
    assert server.sent(WHOLE, bad) == [True, False]
    assert f"[file {bad.name}: left out, because the model could not read it]" in server.asked[-1]
    assert len(server.asked) == 2


async def test_if_the_wrong_document_is_blamed_all_are_left_out() -> None:
    server = Server()
    server.refused, server.words = {CHAT.id: [WHOLE]}, "Failed to parse cut.pdf"
    agent = server.agent()
    with pytest.raises(BadRequestError):
        await agent.prompt([WHOLE, CUT])
    assert (await agent.prompt("more")).text == "Hello"
    assert server.sent(WHOLE, CUT) == [False, False]
    assert len(server.asked) == 3


async def test_a_second_bad_document_is_left_out_too() -> None:
    server = Server()
    server.refused, server.words = {CHAT.id: [BAD, CUT]}, "Failed to parse bad.pdf"
    agent = server.agent()
    with pytest.raises(BadRequestError):
        await agent.prompt([WHOLE, BAD, CUT])
    server.words = "Failed to parse cut.pdf"
    assert (await agent.prompt("more")).text == "Hello"
    assert server.sent(WHOLE, BAD, CUT) == [True, False, False]
    assert len(server.asked) == 3


async def test_an_earlier_prompt_is_sent_without_its_image_and_without_its_document() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent = request.content.decode()
        asked.append(sent)
        words = (
            "Could not process image" if PIXEL in sent else "Failed to parse bad.pdf" if str(BAD.data) in sent else ""
        )
        if words and OTHER.id in sent:
            return httpx.Response(400, json={"error": {"message": words}})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    agent = Agent(model=CHAT, client=client(httpx.MockTransport(answer)))
    await agent.prompt([ImagePart(PIXEL), GOOD, BAD])
    agent.model = OTHER
    assert (await agent.prompt("more")).text == "Hello"
    assert len(asked) == 4, "answered, refused for the image, refused for the document, answered"
    assert [part in asked[-1] for part in (PIXEL, str(BAD.data), str(GOOD.data))] == [False, False, True]


async def test_a_fallback_may_read_the_document_of_the_prompt() -> None:
    server = Server()
    server.refused = {CHAT.id: [BAD]}
    agent = server.agent(fallbacks=(OTHER,))
    assert (await agent.prompt(reading(BAD))).text == "Hello"
    assert server.sent(BAD) == [True]
    assert (await agent.prompt("more")).text == "Hello"
    assert server.sent(BAD) == [False]
    assert len(server.asked) == 3


async def test_without_a_document_the_refusal_is_reported() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(400, json={"error": {"message": "Could not process PDF"}})

    agent = Agent(model=CHAT, client=client(httpx.MockTransport(answer)))
    with pytest.raises(BadRequestError, match="could not read a document"):
        await agent.prompt("Hi.")


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (ImagePart(PIXEL), "[image png, 70 bytes: left out, because the model could not be sent the prompt as it was]"),
        (BAD, "[file bad.pdf: left out, because the model could not be sent the prompt as it was]"),
        (VideoPart(b"film"), "[video video/mp4: left out, because the model could not be sent the prompt as it was]"),
    ],
)
async def test_a_prompt_that_cannot_be_sent_does_not_block_the_next_ones(part: UserPart, note: str) -> None:
    server = Server()
    agent = server.agent(replace(CHAT, modalities=("text",)))
    with pytest.raises(UnsupportedFeatureError):
        await agent.prompt(reading(part))
    assert server.asked == []
    assert (await agent.prompt("And now?")).text == "Hello"
    assert note in server.asked[-1]


async def test_a_model_without_documents_continues_the_conversation_of_one_that_has_them() -> None:
    server = Server()
    agent = server.agent()
    await agent.prompt(reading(GOOD))
    agent.model = replace(CHAT, modalities=("text", "image"))
    # The image of the prompt is not to blame.
    assert (await agent.prompt(reading(ImagePart(PIXEL)))).text == "Hello"
    assert PIXEL in server.asked[-1]
    assert server.sent(GOOD) == [False]


async def test_a_wrong_option_leaves_nothing_out() -> None:
    server = Server()
    agent = server.agent(tools=[word], options=Options(tool_choice="unknown"))
    with pytest.raises(UnsupportedFeatureError, match="tool_choice"):
        await agent.prompt(reading(ImagePart(PIXEL)))
    agent.options = Options()
    await agent.prompt("And now?")
    assert PIXEL in server.asked[-1]


def word() -> str:
    """Say a word."""
    return "word"
