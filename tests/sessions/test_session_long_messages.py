"""Messages of many megabytes are stored like all others, and encoded without blocking the event loop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from planck_nb.ai import messages
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
)
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session
from planck_nb.sessions.journal import codec

LONG = 'é"\n\\ 漢 😀 \x00 word ' * 70_000
IMAGE = ImagePart(bytes(range(256)) * 6_000)
CALL = ToolCallPart("c", "write", {"text": LONG, "numbers": [1, 2.5, float("nan"), float("inf"), None], "more": {}})
MESSAGES: dict[str, Message] = {
    "text": UserMessage(LONG),
    "files": UserMessage([TextPart("Look."), IMAGE, FilePart(b"x" * 900_000, name="a.pdf")]),
    "reply": AssistantMessage((ThinkingPart(LONG), TextPart(LONG), CALL), usage=Usage(5, 2), cost=0.25, model="m"),
    "result": ToolResultMessage((ToolResultPart("c", "draw", "drawn", images=(IMAGE, IMAGE)),)),
    "summary": SummaryMessage(LONG),
    "empty": UserMessage([]),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_line_in_pieces_is_the_same_line(name: str) -> None:
    message = MESSAGES[name]
    fields = codec.encode_message_fields(message, time=12.25)
    assert fields is not None
    whole = codec.encode_message_line(7, "a", message, turn=3, time=12.25)
    assert codec.encode_message_line(7, "a", message, turn=3, time=12.25, fields=fields) == whole


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which messages are converted to JSON."""
    found: list[int] = []
    convert = messages.message_json, messages.encode_message

    def message_json(message: Message) -> bytes:
        found.append(threading.get_ident())
        return convert[0](message)

    def encode_message(message: Message) -> dict[str, object]:
        found.append(threading.get_ident())
        return convert[1](message)

    monkeypatch.setattr(codec, "message_json", message_json)
    monkeypatch.setattr(codec, "encode_message", encode_message)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text", "files", "reply", "result", "summary"])
async def test_a_long_message_is_encoded_in_a_thread(name: str, tmp_path: Path, threads: list[int]) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a1")
        first = await log.append(UserMessage("short"), turn=0, time=1.0)
        assert threads == [threading.get_ident()]
        second = await log.append(MESSAGES[name], turn=0, time=2.0)
        assert threading.get_ident() not in threads[1:]
        assert len(threads) == 2
        third = await log.append(UserMessage("short"), turn=0, time=3.0)
        assert first < second < third
        ids = [message_id for message_id, _ in log.messages()]
        assert ids == ([second, third] if name == "summary" else [first, second, third])
        stored = next(row.message for row in session.messages() if row.db_id == second)
        assert (
            messages.encode_message(stored) == messages.encode_message(MESSAGES[name]) or name == "reply"
        )  # it has NaN


async def test_a_long_text_without_utf_8_form_is_stored_as_before(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await session.log("a1").append(UserMessage(f"{LONG}\ud800"), turn=0, time=1.0)
        [row] = session.messages()
        assert row.message == UserMessage(f"{LONG}?")


async def test_a_session_that_is_closed_meanwhile_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session.create(tmp_path)
    encode = codec.encode_message_fields

    def closing(message: Message, *, time: float) -> bytes | None:
        session.close()
        return encode(message, time=time)

    monkeypatch.setattr(codec, "encode_message_fields", closing)
    with pytest.raises(SessionError, match="closed"):
        await session.log("a1").append(UserMessage(LONG), turn=0, time=1.0)
