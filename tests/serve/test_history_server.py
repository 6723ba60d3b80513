"""The server of `planck-nb mcp` over sessions on disk, called with the SDK's client."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp.shared.exceptions import MCPError
from support.mcp_command import history_client, mcp_client
from support.sidecar_server import MODES, Mode, server_environment, text_of, until_ended
from support.stored import converse

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import QueryError
from planck_nb.serve.bounds import bounded_data
from planck_nb.serve.history import History
from planck_nb.serve.query_process import run_query
from planck_nb.sessions import Session

pytestmark = pytest.mark.process

KEY = "sk-ant-" + "k9" * 20


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A project with a session that has two turns and a secret."""
    with Session.create(tmp_path / ".planck" / "sessions", name="research") as session:
        await converse(session)
        await converse(session, turn=1)
        await session.append("a1", UserMessage(f"my key is {KEY}"))
        await session.append("a1", UserMessage("set PASSWORD=hunter2hunter2"))
    return tmp_path


async def called(client: Any, name: str, **arguments: object) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


async def refused(client: Any, name: str, **arguments: object) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error, text_of(result)
    sentence = text_of(result)
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


@pytest.mark.parametrize("mode", MODES)
async def test_history_is_read(folder: Path, mode: Mode) -> None:
    async with history_client(folder, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        [session] = (await called(client, "list_sessions"))["sessions"]
        rows = await called(client, "query_history", sql="SELECT role, ts, input_tokens FROM messages ORDER BY id")
        transcript = await called(client, "read_transcript", session="research", agent="Ada", last=3)
        [resource] = (await client.list_resources()).resources
        [template] = (await client.list_resource_templates()).resource_templates
        document = (await client.read_resource(resource.uri)).contents[0].text

    assert tools.keys() == {
        "query_history",
        "list_sessions",
        "read_transcript",
        "list_agents",
        "prompt_agent",
        "watch_events",
    }
    assert [name for name, tool in tools.items() if not tool.annotations.read_only_hint] == ["prompt_agent"]
    assert session["name"] == "research"
    assert rows["columns"] == ["role", "ts", "input_tokens"]
    assert rows["rows"][1] == ["assistant", "2025-06-15T15:06:41.250000", 7]
    assert [message["agent"] for message in transcript["messages"]] == ["Ada"] * 3
    assert transcript["messages"][0]["text"] == "answer 1"
    assert transcript["left_out"] == 7
    assert resource.uri == f"planck://session/{session['session_id']}"
    assert template.uri_template == "planck://session/{id}"
    assert "question 0" in document


async def test_secrets_are_replaced(folder: Path) -> None:
    environment = server_environment(HOME=str(folder), MY_PASSWORD="hunter2hunter2")
    async with mcp_client(folder, environment=environment) as client:
        texts = [
            json.dumps(await called(client, "query_history", sql="SELECT text, content FROM messages")),
            json.dumps(await called(client, "query_history", sql="SELECT list(text), max({a: text}) FROM messages")),
            json.dumps(await called(client, "read_transcript", session="research", last=200)),
            (await client.read_resource("planck://session/research")).contents[0].text,
        ]

    for text in texts:
        assert KEY not in text
        assert "hunter2" not in text
        assert "an Anthropic key" in text


async def test_results_are_bounded(folder: Path) -> None:
    with Session.create(folder / ".planck" / "sessions", name="long") as session:
        for _ in range(60):
            await session.append("a1", UserMessage("word " * 1_000))
    async with history_client(folder) as client:
        few = await called(client, "query_history", sql="SELECT * FROM range(5)", limit=3)
        wide = await called(client, "query_history", sql="SELECT text FROM messages", limit=1_000)
        transcript = await called(client, "read_transcript", session="long", last=200)
        document = (await client.read_resource("planck://session/long")).contents[0].text

    assert few == {"columns": ["range"], "rows": [[0], [1], [2]], "truncated": True}
    assert wide["truncated"]
    assert len(json.dumps(wide)) < 300_000
    assert len(json.dumps(transcript)) < 300_000
    assert transcript["left_out"] + len(transcript["messages"]) == 60
    assert len(document) < 210_000
    assert "characters left out" in document


def test_a_long_list_and_a_wide_object_say_what_is_left_out() -> None:
    shown = bounded_data({"list": list(range(1_003)), "wide": {str(key): key for key in range(2_500)}})
    assert shown["list"][-2:] == [999, "… and 3 more"]
    assert list(shown["wide"].items())[-2:] == [("999", 999), ("…", "… and 1,500 more")]
    exact = {"list": list(range(1_000))}
    assert bounded_data(exact) == exact


async def test_hostile_calls_get_a_sentence(folder: Path) -> None:
    (folder / "notes.csv").write_text("a\n1\n")
    async with history_client(folder) as client:
        for sql in (
            "FROM 'notes.csv'",
            "COPY messages TO 'stolen.csv'",
        ):
            await refused(client, "query_history", sql=sql)
        assert "sql" in await refused(client, "query_history", sql="x" * 30_000)
        assert "sql" in await refused(client, "query_history")
        assert "limit" in await refused(client, "query_history", sql="SELECT 1", limit=10**9)
        assert "file" in await refused(client, "query_history", sql="SELECT 1", file="x")
        assert "No session" in await refused(client, "read_transcript", session="../../etc/passwd")
        assert "Did you mean Ada" in await refused(client, "read_transcript", session="research", agent="Adda")
        assert "%planck serve" in await refused(client, "list_agents")
        assert "%planck serve" in await refused(client, "prompt_agent", agent_or_team="ada", text="hi")
        for uri in ("planck://session/", "planck://session/../x", "file:///etc/hostname"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("no_such_tool", {})
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="-1")
        assert (await called(client, "query_history", sql="SELECT 1 AS one"))["rows"] == [[1]]
    assert not (folder / "stolen.csv").exists()


async def test_modules_of_the_project_are_not_imported(folder: Path) -> None:
    for name in ("duckdb", "json", "resource", "signal"):
        (folder / f"{name}.py").write_text("import os; os.abort()")
    environment = server_environment(HOME=str(folder))
    async with mcp_client(folder, "--folder", str(folder), environment=environment, safe_path=True) as client:
        assert (await called(client, "query_history", sql="SELECT 1 AS one"))["rows"] == [[1]]


async def test_cancelling_kills_the_process_of_a_query(folder: Path) -> None:
    def is_query(process: psutil.Process) -> bool:
        try:
            return "planck_nb.serve.query_process" in process.cmdline()
        except psutil.NoSuchProcess:  # another child, which has ended
            return False

    def queries() -> list[psutil.Process]:
        return [each for each in psutil.Process().children() if is_query(each)]

    sql = "SELECT count(*) FROM range(100000000000000)"
    running = asyncio.create_task(run_query(folder, sql, limit=1, seconds=60))
    while not queries():
        assert not running.done(), running  # it would be waited for without end
        await asyncio.sleep(0.01)
    [process] = queries()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    await until_ended([process.pid])


@pytest.mark.parametrize(
    ("sql", "seconds"),
    [("SELECT count(*) FROM range(100000000000000)", 0.5), ("SELECT repeat('x', 100000000) FROM range(1000)", 2)],
)
async def test_huge_queries_are_ended(folder: Path, sql: str, seconds: float) -> None:
    with pytest.raises(QueryError, match="select less"):
        await History(folder, seconds=seconds).query(sql)


@pytest.mark.skipif(sys.platform == "win32", reason="systems with file modes")
async def test_the_directory_need_not_exist(tmp_path: Path) -> None:
    async with history_client(tmp_path) as client:
        assert await called(client, "list_sessions") == {"sessions": [], "total": 0}
        assert (await called(client, "query_history", sql="SELECT count(*) FROM messages"))["rows"] == [[0]]

    assert not (tmp_path / ".planck").exists()
