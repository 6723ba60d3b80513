"""Videos: Gemini is sent them, and every other wire format refuses them with one sentence."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from planck_nb import Agent, Session, ai
from planck_nb.agent.context.sendable import SendableHistory
from planck_nb.agent.tokens import VIDEO_TOKENS, estimate
from planck_nb.base.errors import UnsupportedFeatureError
from planck_nb.testing import scripted_model

CLIP = ai.VideoPart(b"\0\0\0\x18ftypisom")
REMOTE = ai.VideoPart(url="https://www.youtube.com/watch?v=x")


async def body(model: ai.Model, *parts: ai.UserPart) -> str:
    async with ai.Client(
        credentials={f"{name}_API_KEY": "k" * 20 for name in ("OPENAI", "ANTHROPIC", "GOOGLE", "GEMINI")}
    ) as client:
        preview = await client.preview(model, ai.Context("", [ai.UserMessage([ai.TextPart("Watch."), *parts])]))
    return json.dumps(preview.body)


@pytest.mark.parametrize("api", ["generate_content", "interactions"])
async def test_gemini_watches_videos(api: str) -> None:
    model = ai.get_model("google", "gemini-2.5-flash", api=api)
    sent = await body(model, CLIP, REMOTE)
    assert base64.b64encode(b"\0\0\0\x18ftypisom").decode() in sent
    assert "video/mp4" in sent
    assert "https://www.youtube.com/watch?v=x" in sent
    if api == "interactions":
        assert sent.count('"type": "video"') == 2
    with pytest.raises(UnsupportedFeatureError, match="The video has neither data nor url"):
        await body(model, ai.VideoPart())


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("openai:gpt-5", "responses"),
        ("openai:gpt-4o", "chat"),
        ("anthropic:claude-sonnet-4-6", None),
        ("ollama:x", None),
    ],
)
async def test_others_refuse_videos_with_one_sentence(name: str, api: str | None) -> None:
    model = ai.get_model(name, api=api)
    with pytest.raises(UnsupportedFeatureError, match=rf"^{name} cannot watch videos; choose a Gemini model, or send"):
        await body(model, CLIP)


def test_a_conversation_with_a_video_goes_on_with_another_model() -> None:
    model = scripted_model([])
    asked: list[ai.Message] = [ai.UserMessage([CLIP])]
    assert SendableHistory().fit(asked, model) is asked
    answered = [*asked, ai.AssistantMessage((ai.TextPart("A cat."),)), ai.UserMessage("And now?")]
    assert "[video video/mp4: left out, because the model cannot watch videos]" in str(
        SendableHistory().fit(answered, model)
    )
    google = replace(model, provider="google")
    assert SendableHistory().fit(answered, google) is answered
    assert estimate(asked[0]) >= VIDEO_TOKENS


async def test_a_video_is_stored(tmp_path: Path) -> None:
    with Session.start("a" * 16, name="s", directory=tmp_path) as session:
        agent = Agent(model=scripted_model(["ok"]), session=session)
        await agent.prompt([ai.TextPart("Watch."), CLIP])
        await agent.stop()
        assert "video" in session.export("markdown")
        assert session.messages()[0].message == ai.UserMessage([ai.TextPart("Watch."), CLIP])
