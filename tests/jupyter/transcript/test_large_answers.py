"""Large answers: rendered in a thread, once, and bounded in the notebook."""

from __future__ import annotations

import asyncio

import pytest

from planck_nb.ai.messages import AssistantMessage, TextPart
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.display.formatting import TEXT_CHARACTERS
from planck_nb.jupyter.transcript.transcript import RENDER_IN_THREAD_FROM, Transcript


def answered(text: str) -> Transcript:
    return Transcript("ana", "demo:x", "done", (AssistantMessage((TextPart(text),)),), None, None, None, 0.0)


def test_only_large_transcripts_are_rendered_in_a_thread() -> None:
    assert not answered("x" * RENDER_IN_THREAD_FROM).is_large
    assert answered("x" * (RENDER_IN_THREAD_FROM + 1)).is_large


def test_ten_megabytes_are_bounded_in_the_notebook_and_complete_in_the_answer() -> None:
    transcript = answered("first " + "](<" * 3_333_333 + " last")
    bundle = transcript.bundle()
    assert all(len(value) < 5 * TEXT_CHARACTERS for value in bundle.values())
    for value in bundle.values():
        assert "first" in value
        assert "last" in value
        assert "characters left out" in value
    [message] = transcript.messages
    assert len(message.content[0].text) == 10_000_010  # type: ignore[union-attr]


def test_a_transcript_is_rendered_once() -> None:
    transcript = answered("x")
    bundle = transcript.bundle()
    bundle["text/plain"] = "changed"
    assert transcript.bundle()["text/plain"] == "x"
    assert transcript.bundle()["text/html"] is bundle["text/html"]


@pytest.mark.slow
async def test_the_loop_goes_on_while_a_large_transcript_is_rendered() -> None:
    transcript = answered("- **a** [b](https://x.test)\n" * 1_000)
    rendering = asyncio.ensure_future(run_in_thread(transcript.bundle))
    steps = 0
    while not rendering.done():
        await asyncio.sleep(0)
        steps += 1
    assert steps > 10
