"""A stored session with every payload in every place that a model, a tool, a server or a file can fill."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from planck_nb.agent.preview_types import HtmlPreview, Preview, TablePreview
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
    UserMessage,
)
from planck_nb.sessions import Session, SessionInfo

PIXEL = b"\x89PNG"


def turn(text: str) -> list[Message]:
    """A turn with the text as prompt, answer, thinking, names, arguments, results, attachments, ids and errors."""
    calls = (ToolCallPart("1", text, {text: text, "path": text}), ToolCallPart("2", "g", {}, invalid=text))
    images = (ImagePart(PIXEL, f"image/png{text}"), ImagePart(text, "image/png"), ImagePart(url=text), ImagePart(PIXEL))
    attached = (TextPart(text), FilePart(PIXEL, "text/plain", name=text), FilePart(url=text, name=text), *images)
    return [
        UserMessage(attached),
        AssistantMessage((ThinkingPart(text), TextPart(text), *calls), "tool_use", provider=text, model=text),
        ToolResultMessage(
            (
                ToolResultPart("1", text, text, images=images),
                ToolResultPart("2", "g", text, is_error=True),
            )
        ),
        AssistantMessage((TextPart(text),), "error", error=text),
        SummaryMessage(text),
        UserMessage(text, sender_id="b", sender_name=text),
    ]


def hostile_session(directory: Path, texts: Sequence[str]) -> SessionInfo:
    """Store the session; each text is also the id of an agent, and all are part of the session's name."""

    async def fill() -> SessionInfo:
        with Session.create(directory, name="hostile") as session:
            appended = [session.append("main", message) for text in texts for message in turn(text)]
            appended += [session.append(text, message) for text in texts for message in turn(text)[1:4]]
            await asyncio.gather(*appended)
            return session.info

    return replace(asyncio.run(fill()), name=" ".join(texts))


def previews(text: str) -> tuple[Preview, ...]:
    """A table and an HTML document that consist of the text."""
    return (TablePreview("", (text,), (text,), (False,), 0, ((text,),), 1, 1), HtmlPreview("", text))
