"""A session answers its own prompts again, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from support.loopback import Exchange, serving
from support.stored_teams import ask, running_team

from planck_nb import Compact, Compactor, Config, Session, Tool, Workspace, ai
from planck_nb.agent.context.compactor import ContextUsage
from planck_nb.ai.cassettes.conversations import ANSWERS_VARIABLE, conversation_cassette
from planck_nb.ai.messages import Message
from planck_nb.base.errors import CassetteError, CassetteMissError
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.workspace.stored_answers import answer_lines

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCRIPT: list[Reply | str | dict[str, object]] = [
    Reply(thinking="Hm.", text="I look.", calls=[Call("look", {"at": "ä"}), Call("look", {})]),
    "First.",
    "Second.",
    "Third.",
]
OTHER = scripted_model(["Something else."] * 9)


def look(args: dict[str, str]) -> str:
    return f"seen {args}"


LOOK = Tool(name="look", description="Look.", parameters={"type": "object"}, execute_fn=look)


async def stored(folder: Path) -> Path:
    """A session with three prompts, of which the second was asked again after a rewind."""
    async with Workspace(Config(folder / "s")) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(SCRIPT), tools=[LOOK])
        await agent.prompt("One?")
        run = await agent.prompt("Two?")
        assert run.text == "Second."
        await agent.prompt([ai.TextPart("And this?"), ai.ImagePart(PNG)])
        await workspace.session.flush()
        path = folder / "answers.jsonl"
        path.write_bytes(b"".join(answer_lines(workspace.session)))
    return path


async def test_prompts_are_answered_with_the_same_history_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANSWERS_VARIABLE, str(await stored(tmp_path)))
    async with Workspace(Config(tmp_path / "again")) as workspace:
        agent = workspace.add_agent("bob", model=OTHER, tools=[LOOK], system_prompt="Other.")
        first = await agent.prompt("One?")
        [call, _] = [call for message in first.messages if message.type == "assistant" for call in message.tool_calls]
        assert (first.text, call.args) == ("First.", {"at": "ä"})
        assert (await agent.prompt("Two?")).text == "Second."
        with pytest.raises(CassetteMissError, match="no answer of demo:script to exactly this prompt"):
            await agent.prompt("And that?")
        other = workspace.add_agent("eve", model=OTHER)
        for prompt in ("Two?", "One? "):  # another history, another prompt
            with pytest.raises(CassetteMissError):
                await other.prompt(prompt)
        again = workspace.add_agent("zoe", model=OTHER, tools=[LOOK])
        with pytest.raises(CassetteMissError):  # the one answer was given
            await again.prompt("One?")


async def test_images_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANSWERS_VARIABLE, str(await stored(tmp_path)))
    async with Workspace(Config(tmp_path / "again")) as workspace:
        agent = workspace.add_agent("bob", model=OTHER, tools=[LOOK])
        await agent.prompt("One?")
        await agent.prompt("Two?")
        assert (await agent.prompt([ai.TextPart("And this?"), ai.ImagePart(PNG)])).text == "Third."


async def test_members_of_a_team_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script: list[Reply | str] = [Reply(calls=(ask("kim", "How many?"),)), "Kim says two."]
    answers = tmp_path / "answers.jsonl"
    with Session.create(tmp_path / "one") as session:
        async with running_team(session, script, kim=["Two."]) as team:
            assert (await team["boss"].prompt("Ask Kim.")).text == "Kim says two."
        answers.write_bytes(b"".join(answer_lines(session)))
    monkeypatch.setenv(ANSWERS_VARIABLE, str(answers))
    with Session.create(tmp_path / "two") as session:
        async with running_team(session, ["Nothing."], kim=["Nothing."]) as team:
            assert (await team["boss"].prompt("Ask Kim.")).text == "Kim says two."
            assert "Two." in str(team["kim"].state.messages)


class Shorten(Compactor):
    async def compact(self, messages: Sequence[Message], usage: ContextUsage) -> Compact:
        return Compact("Short.", tuple(messages[-1:]))


async def test_what_follows_a_summary_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(folder: Path, script: list[Reply | str | dict[str, object]]) -> str:
        async with Workspace(Config(folder)) as workspace:
            agent = workspace.add_agent("ann", model=scripted_model(script), on_compact=Shorten())
            await agent.prompt("One?" + " word" * 100)
            assert await agent.compact()
            text = (await agent.prompt("Two?")).text
            await workspace.session.flush()
            (folder / "answers.jsonl").write_bytes(b"".join(answer_lines(workspace.session)))
        return text

    text = await talk(tmp_path / "one", ["First.", "Second.", "Third."])
    monkeypatch.setenv(ANSWERS_VARIABLE, str(tmp_path / "one" / "answers.jsonl"))
    assert await talk(tmp_path / "two", ["Nothing."] * 3) == text


async def test_what_a_rewind_hid_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Workspace(Config(tmp_path / "s")) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(["Hidden.", "Hidden too."]))
        await agent.prompt("One?")
        [first, *_] = workspace.session.messages()
        await agent.rewind_to_message(first.db_id)
        await agent.prompt("Other?")
        path = tmp_path / "answers.jsonl"
        path.write_bytes(b"".join(answer_lines(workspace.session)))
    monkeypatch.setenv(ANSWERS_VARIABLE, str(path))
    async with Workspace(Config(tmp_path / "again")) as workspace:
        with pytest.raises(CassetteMissError):
            await workspace.add_agent("ann", model=OTHER).prompt("One?")


async def test_nothing_is_sent_by_any_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.jsonl"
    path.touch()
    monkeypatch.setenv(ANSWERS_VARIABLE, str(path))
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(500)

    client = ai.Client(transport=httpx.MockTransport(answer), cassette=None)
    model = ai.get_model("llama_cpp", "default", base_url="http://127.0.0.1:9")
    with pytest.raises(CassetteMissError):
        await client.complete(model, ai.Context(messages=[ai.UserMessage("hi")]))
    client.cassette = ai.Cassette(tmp_path / "mine.jsonl", "record")
    assert client.cassette is conversation_cassette()
    assert await client.with_reported_window(model, refresh=True) == model
    assert seen == []
    exchanges: list[Exchange] = []

    async def note(exchange: Exchange) -> None:
        exchanges.append(exchange)

    async with serving(note) as server:
        assert await ai.discover("llama_cpp", server.url) == []
    assert exchanges == []


def test_a_broken_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"key": "a"}\n')
    monkeypatch.setenv(ANSWERS_VARIABLE, str(path))
    with pytest.raises(CassetteError, match="cannot be read; verify again"):
        conversation_cassette()
