"""Images that calls return, as the browser is sent them: bounded, and nothing that it would have to load."""

from __future__ import annotations

from typing import Any

import pytest

from planck_nb.agent import events as ev
from planck_nb.ai.messages import ImagePart, ToolResultMessage, ToolResultPart
from planck_nb.jupyter.display.shown_images import IMAGE_CHARACTERS
from planck_nb.jupyter.live import frames
from planck_nb.jupyter.live.frames import EARLIER_IMAGE, FrameEncoder


def results(seq: int, *parts: tuple[str, ImagePart]) -> ev.AgentEvent:
    message = ToolResultMessage(tuple(ToolResultPart(call, "draw", "drawn", images=(image,)) for call, image in parts))
    return ev.MessageAppended("a", None, 0, seq, 100.0, seq, message)


def shown(*events: ev.AgentEvent) -> list[tuple[str, bool, str]]:
    encoded = FrameEncoder().encode(events)
    return [
        (image["call"], image["source"] != "", image["notice"])
        for event in encoded
        for image in event.get("display", {}).get("images", ())
    ]


def test_an_image_is_sent_once_with_its_call_and_not_in_the_message() -> None:
    [encoded] = FrameEncoder().encode([results(1, ("7", ImagePart(b"png")))])
    assert encoded["display"] == {
        "images": ({"call": "7", "source": "data:image/png;base64,cG5n", "notice": EARLIER_IMAGE},)
    }
    assert encoded["message"]["content"] == []
    plain = ToolResultMessage((ToolResultPart("8", "read", "text"),))
    [without] = FrameEncoder().encode([ev.MessageAppended("a", None, 0, 2, 100.0, 2, plain)])
    assert "display" not in without


@pytest.mark.parametrize(
    "image",
    [
        ImagePart(url="https://example.org/x.png"),
        ImagePart(b"<svg onload=alert(1)>", mime="image/svg+xml"),
        ImagePart('x" onerror="alert(1)'),
        ImagePart("A" * (IMAGE_CHARACTERS + 4)),
    ],
)
def test_what_would_be_loaded_or_run_or_is_too_large_is_a_sentence(image: ImagePart) -> None:
    [(call, has_source, notice)] = shown(results(1, ("1", image)))
    assert (call, has_source) == ("1", False)
    assert notice.startswith("[image")


def test_of_many_images_the_newest_are_sent() -> None:
    image = ImagePart("A" * IMAGE_CHARACTERS)
    assert 3 * IMAGE_CHARACTERS < frames.IMAGES_CHARACTERS <= 4 * IMAGE_CHARACTERS
    events: list[Any] = [results(at, (f"{at}-1", image), (f"{at}-2", image)) for at in (1, 2)]
    assert [found[:2] for found in shown(*events)] == [("1-1", False), ("1-2", True), ("2-1", True), ("2-2", True)]
    assert [found[1] for found in shown(events[0])] == [True, True]
