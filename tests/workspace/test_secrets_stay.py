"""A secret of the environment, in thirty forms, through tools, commands, journals, exports, cassettes and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from support.agents import calling
from support.secret_forms import FORMS, SECRET, VARIABLES, has_secret
from support.wire import ASK, CHAT, chat_chunk, replying, sse

from planck_nb import Config, ToolContext, Workspace, ai, tool
from planck_nb.base.errors import CassetteError, ModelError, ProviderError, ToolError
from planck_nb.sessions import ExportFormat, export_session
from planck_nb.testing import scripted_model
from planck_nb.tools.builtin import BuiltinTools


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_SECRET", SECRET)


def texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for each in [*data, *data.values()] if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from texts(each)


def is_clean(lines: str) -> bool:
    """Whether neither the JSON lines nor what they contain has the secret."""
    rows = [json.loads(line) for line in lines.split("\n") if line.strip()]
    return not has_secret(lines) and not any(map(has_secret, texts(rows)))


@tool
async def look(form: str) -> str:
    """Look."""
    return FORMS[form]


@tool
async def fail(form: str) -> str:
    """Fail."""
    raise ToolError(FORMS[form])


@tool
async def crash(form: str) -> str:
    """Crash."""
    raise ValueError(FORMS[form])


@tool
async def table(form: str) -> dict[str, object]:
    """Make a table."""
    return {"rows": [{"value": FORMS[form]}], FORMS[form]: 1}


@tool
async def spell(context: ToolContext) -> str:
    """Spell the secret."""
    for letter in SECRET:
        context.progress(letter)
    return "spelled"


def config(folder: Path) -> Config:
    return Config.load(environment={}, directory=folder)


async def test_results_and_errors_of_tools_are_stored_without_it(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        (name, {"form": form}) for form in FORMS for name in ("look", "fail", "crash", "table")
    ]
    async with Workspace(config(tmp_path)) as workspace:
        workspace.approvals.policy = workspace.approvals.policy.allow_all()
        agent = workspace.add_agent("ann", model=scripted_model(calling(*calls)), tools=[look, fail, crash, table])
        await agent.prompt("go")
        await workspace.flush()
        (journal,) = (tmp_path / ".planck" / "sessions").glob("*.jsonl")
        text = journal.read_text()
    assert text.count("[the value of THE_SECRET]") >= 8 * len(FORMS)
    assert is_clean(text)


async def test_progress_that_spells_it_letter_by_letter_does_not_show_it(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        workspace.approvals.policy = workspace.approvals.policy.allow_all()
        agent = workspace.add_agent("ann", model=scripted_model(calling(("spell", {}))), tools=[spell])
        run = agent.prompt("go")
        shown = "".join([event.text async for event in run if event.type == "tool_progress"])
    assert shown == "[the value of THE_SECRET]"


@pytest.mark.process
async def test_commands_and_their_output_do_not_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    (tmp_path / ".env").write_text(f"THE_SECRET={SECRET}\n")
    calls: list[tuple[str, dict[str, object]]] = [("bash", {"command": "env; cat .env"}), ("read", {"path": ".env"})]
    async with Workspace(config(tmp_path)) as workspace:
        workspace.approvals.policy = workspace.approvals.policy.allow_all()
        tools = BuiltinTools.all(cwd=tmp_path)
        agent = workspace.add_agent("ann", model=scripted_model(calling(*calls)), tools=tools)
        await agent.prompt("go")
        (results,) = [entry.message for entry in agent.state.messages if entry.message.type == "tool_result"]
    for part in results.content:
        assert not has_secret(part.text)
        assert "[the value of THE_SECRET]" in part.text
    for name, value in VARIABLES.items():
        assert f"{name}=" not in results.content[0].text
        assert value not in results.content[0].text


@pytest.mark.parametrize("form", get_args(ExportFormat))
async def test_exports_are_without_it(form: ExportFormat, tmp_path: Path) -> None:
    """Also where the journal has it, because the user or the model wrote it."""
    async with Workspace(config(tmp_path)) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(["\n".join(FORMS.values()), *FORMS.values()]))
        await agent.prompt("\n".join(FORMS.values()))
        await agent.prompt(f"sk-ant-{'a1' * 20} and https://me:a-r3al-one@host/")
        await workspace.flush()
        text = export_session(workspace.session.info, form)
        (journal,) = (tmp_path / ".planck" / "sessions").glob("*.jsonl")
        assert has_secret(journal.read_text())
    assert not has_secret(text)
    assert "a1a1a1a1" not in text
    assert "a-r3al-one" not in text
    assert "THE" in text
    if form == "jsonl":
        assert is_clean(text)


@pytest.mark.parametrize("form", FORMS)
async def test_nothing_with_it_is_recorded(form: str, tmp_path: Path) -> None:
    text = FORMS[form]
    ask = ai.Context(messages=[ai.UserMessage(text)])
    args = ai.Context(
        messages=[
            ai.UserMessage("x"),
            ai.AssistantMessage((ai.ToolCallPart("c", "t", {"a": [{"b": text}]}),)),
            ai.ToolResultMessage((ai.ToolResultPart("c", "t", text),)),
        ]
    )
    letters = sse(*(chat_chunk({"content": letter}) for letter in text[-200:]), chat_chunk({}, "stop"))
    call = {"index": 0, "id": "c", "function": {"name": "t", "arguments": json.dumps({"a": {text[-200:]: 1}})}}
    pieces = [
        {"index": 0, "function": {"arguments": letter}}
        for letter in call["function"]["arguments"]  # type: ignore[index]
    ]
    spelled = sse(
        chat_chunk({"tool_calls": [{**call, "function": {"name": "t", "arguments": ""}}]}),
        *(chat_chunk({"tool_calls": [piece]}) for piece in pieces),
        chat_chunk({}, "tool_calls"),
    )
    fine = sse(chat_chunk({"content": "fine"}), chat_chunk({}, "stop"))
    for context, answer in ((ask, fine), (args, fine), (ASK, letters), (ASK, spelled)):
        cassette = ai.Cassette(tmp_path / "tape", "record")
        client = ai.Client(credentials={}, transport=replying(answer), cassette=cassette)
        with pytest.raises(CassetteError, match="contains the value of THE_SECRET"):
            await client.complete(CHAT, context)
        assert not cassette.path.exists()


@pytest.mark.parametrize("form", FORMS)
async def test_errors_of_servers_are_shown_without_it(form: str) -> None:
    text = FORMS[form][-250:]
    for body in (text, json.dumps({"error": {"message": text}}), json.dumps({"error": text})):
        client = ai.Client(
            credentials={}, transport=replying([body.encode()], status=400), retries=ai.RetryPolicy(retries=0)
        )
        with pytest.raises(ProviderError) as caught:
            await client.complete(CHAT, ASK)
        assert not has_secret(str(caught.value))


async def test_a_key_that_the_environment_does_not_have_is_a_secret_once_it_was_used(tmp_path: Path) -> None:
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", api_key="only-for-this-0123")
    fine = sse(chat_chunk({"content": "fine"}), chat_chunk({}, "stop"))
    await ai.Client(credentials={}, transport=replying(fine)).complete(model, ASK)

    @tool
    async def tell() -> str:
        """Tell the key."""
        return "it is only-for-this-0123"

    async with Workspace(config(tmp_path)) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(calling(("tell", {}))), tools=[tell])
        await agent.prompt("go")
        (results,) = [entry.message for entry in agent.state.messages if entry.message.type == "tool_result"]
    assert results.content[0].text == "it is [key]"


async def test_errors_of_agents_are_stored_without_it(tmp_path: Path) -> None:
    def sign(request: object) -> dict[str, str]:
        raise ValueError("\n".join(FORMS.values()))

    async with Workspace(config(tmp_path)) as workspace:
        agent = workspace.add_agent("ann", model=replace(CHAT, auth=sign))
        with pytest.raises(ModelError):
            await agent.prompt("go")
        await workspace.flush()
        (journal,) = (tmp_path / ".planck" / "sessions").glob("*.jsonl")
        text = journal.read_text()
    assert "The auth function" in text
    assert is_clean(text)
