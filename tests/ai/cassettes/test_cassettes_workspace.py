"""Cassettes by configuration, and conversations that take more than one request for an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.loopback import Exchange, serving
from support.wire import CHAT_HELLO, MESSAGES, MESSAGES_TOOLS, client, replying, sse

from planck_nb import Config, Workspace, ai
from planck_nb.base.errors import CassetteMissError, ConfigError

ASK = ai.Context(messages=[ai.UserMessage("hi")])


async def record(path: Path, transport: httpx.AsyncBaseTransport, context: ai.Context = ASK) -> ai.AssistantMessage:
    live = client(transport)
    live.cassette = ai.Cassette(path, "record", environment={})
    return await live.complete(MESSAGES, context)


def answering(*answers: httpx.Response) -> httpx.MockTransport:
    waiting = list(answers)
    return httpx.MockTransport(lambda _: waiting.pop(0))


def stream(*chunks: bytes) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(chunks))


def messages_text(text: str, stop: str) -> bytes:
    return b"".join(
        sse(
            {"type": "message_start", "message": {"usage": {"input_tokens": 7}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}},
            {"type": "message_stop"},
        )
    )


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_an_answer_with_a_pause_is_replayed_whole(mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    parts = [stream(messages_text("one ", "pause_turn")), stream(messages_text("two", "end_turn"))]
    live = await record(path, answering(*parts))
    assert live.text == "one two"
    assert [json.loads(line)["complete"] for line in path.read_text().splitlines()] == [True, True]
    replay = ai.Client(credentials={}, transport=answering(), cassette=ai.Cassette(path, mode, environment={}))
    again = await replay.complete(MESSAGES, ASK)
    assert (again.text, again.usage) == (live.text, live.usage)


async def test_refused_thinking_is_left_out_in_replay_too(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    first = await record(path, replying(MESSAGES_TOOLS))
    words = "messages.1.content.0: `thinking` blocks in the latest assistant message cannot be modified"
    refusal = httpx.Response(400, json={"type": "error", "error": {"type": "invalid_request_error", "message": words}})

    def follow_up(reply: ai.AssistantMessage) -> ai.Context:
        results = ai.ToolResultMessage(
            tuple(ai.ToolResultPart(call.id, call.name, "12:00") for call in reply.tool_calls)
        )
        return ai.Context(messages=[*ASK.messages, reply, results])

    live = await record(path, answering(refusal, stream(messages_text("fine", "end_turn"))), follow_up(first))
    replay = ai.Client(credentials={}, transport=answering(), cassette=ai.Cassette(path, "replay"))
    replayed = await replay.complete(MESSAGES, ASK)
    events = [event.type async for event in replay.stream(MESSAGES, follow_up(replayed))]
    assert events[0] == "warning"
    assert live.text == "fine"


def test_settings_name_file_and_mode(tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path)
    assert config.cassette is None
    environment = {"PLANCK_NB_CASSETTE": "tapes/a.jsonl"}
    config = Config.load(environment=environment, directory=tmp_path)
    assert (config.cassette, config.cassette_mode) == (tmp_path / "tapes/a.jsonl", "auto")
    environment["PLANCK_NB_CASSETTE_MODE"] = "replay"
    assert Config.load(environment=environment, directory=tmp_path).cassette_mode == "replay"
    config = Config.load(environment=environment, directory=tmp_path, cassette="b.jsonl", cassette_mode="record")
    assert (config.cassette, config.cassette_mode) == (tmp_path / "b.jsonl", "record")
    environment["PLANCK_NB_CASSETTE_MODE"] = "rewind"
    with pytest.raises(ConfigError, match="MODE is 'rewind'; it must be one of off, record, replay, auto"):
        Config.load(environment=environment, directory=tmp_path)


async def test_a_workspace_replays_with_the_model_that_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    live = client(replying(CHAT_HELLO))
    live.cassette = ai.Cassette(path, "record", environment={})
    model = ai.get_model("openai", "gpt-5.4", api="chat", base_url="http://127.0.0.1:9")
    async with Workspace(Config(tmp_path / "s"), client=live) as workspace:
        await workspace.add_agent("ann", model=model).prompt("hi")
    # What cannot be known is the address: it has no share in the recording.
    async with Workspace(Config(tmp_path / "s", cassette=path, cassette_mode="replay")) as workspace:
        found, notice = await workspace.default_model()
        assert (str(found), notice) == ("openai:gpt-5.4", "")
        result = await workspace.add_agent("ann", model=model).prompt("hi")
        assert result.text == "Hello"
        with pytest.raises(CassetteMissError, match=r"message 2 \(assistant\)|message 3 \(user\)"):
            await workspace.agent("ann").prompt("and?")
    assert workspace.cassette is not None


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "left-alone"])
async def test_an_aborted_run_is_aborted_again(stopped: bool, tmp_path: Path) -> None:
    """By whoever aborted it, or by itself when nobody does."""
    path = tmp_path / "tape.jsonl"

    async def answer(served: Exchange) -> None:
        await served.head()
        await served.send(CHAT_HELLO[1])
        await served.closed()

    async def run(mode: Any, *, stop: bool) -> tuple[str, bool]:
        config = Config(tmp_path / "s", cassette=path, cassette_mode=mode)
        async with Workspace(config) as workspace:
            assert workspace.cassette is not None
            workspace.cassette.margin = 600.0 if stopped else 0.05
            run = workspace.add_agent("ann", model=model).prompt("hi")
            async for event in run:
                if stop and event.type == "text_delta":
                    run.abort()
            result = await run
            return result.text, result.aborted

    async with serving(answer) as server:
        model = ai.get_model("openai", "some", base_url=server.url)
        live = await run("record", stop=True)
    assert live == ("Hel", True)
    assert await run("replay", stop=stopped) == live


async def test_the_cassette_of_a_workspace_can_be_changed_while_agents_live(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    asked: list[Any] = []
    model = ai.get_model("openai", "some", base_url="http://127.0.0.1:9")
    async with Workspace(Config(tmp_path / "s"), client=client(replying(CHAT_HELLO, seen=asked))) as workspace:
        agent = workspace.add_agent("ann", model=model)
        assert workspace.cassette is None
        workspace.cassette = ai.Cassette(path, "auto", environment={})
        await agent.prompt("hi")
        workspace.cassette = ai.Cassette(path, "off")
        await agent.prompt("hi")
        workspace.cassette = None
        await agent.prompt("hi")
    assert len(asked) == 3
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_a_session_is_resumed_without_a_key_if_a_recording_answers(tmp_path: Path, mode: Any) -> None:
    path, config = tmp_path / "tape.jsonl", Config(tmp_path / "s")
    model = ai.get_model("anthropic", "some-model", base_url="https://api.example.test")
    with_key = client(answering(stream(messages_text("Hello", "end_turn"))))
    async with Workspace(config, client=with_key) as workspace:
        workspace.cassette = ai.Cassette(path, "record", environment={})
        await workspace.add_agent("ann", model=model).prompt("hi")
        name = workspace.session.name
    without_key = ai.Client(credentials={}, transport=answering())
    async with Workspace(config, client=without_key) as workspace:
        workspace.cassette = ai.Cassette(path, mode, environment={})
        await workspace.resume(name)
        assert list(workspace.agents) == ["ann"]
