"""`planck-nb mcp` over a workspace in another process, called with the SDK's client over stdio."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.mcp_command import mcp_client
from support.serving_kernel import running_kernel
from support.sidecar_server import server_environment, text_of

pytestmark = pytest.mark.process


async def called(client: Any, name: str, **arguments: object) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    return result.structured_content


@pytest.fixture
def runtime() -> Iterator[str]:
    """A folder whose path is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="pk-") as folder:
        yield folder


async def test_agents_of_a_running_kernel(tmp_path: Path, runtime: str) -> None:
    environment = server_environment(HOME=str(tmp_path), XDG_RUNTIME_DIR=runtime)
    async with running_kernel(tmp_path, environment) as kernel, mcp_client(tmp_path, environment=environment) as client:
        await agents_are_listed_and_prompted(client)
        await secrets_are_replaced(client)
        await calls_without_a_person_are_denied(client, tmp_path)
        await a_person_decides(client, kernel, tmp_path)
        await cancelling_aborts_the_run(client)
        await the_death_of_the_kernel_is_reported(client, kernel)
        rows = await called(client, "query_history", sql="SELECT count(*) > 0 AS stored FROM messages")
        assert rows["rows"] == [[True]]  # history goes on without the kernel


async def agents_are_listed_and_prompted(client: Any) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(count: float, _total: float | None, text: str | None) -> None:
        told.append((count, text))

    agents = (await called(client, "list_agents"))["agents"]
    result = await client.call_tool("prompt_agent", {"agent_or_team": "ada", "text": "hi"}, progress_callback=progress)
    missing = await client.call_tool("prompt_agent", {"agent_or_team": "adda", "text": "hi"})
    watched = await called(client, "watch_events", agent_or_team="ada", since=0, seconds=0)

    assert [agent["name"] for agent in agents] == ["ada", "slow", "writer", "leaky"]
    assert result.structured_content["text"] == "hello there"
    assert told == [(1, "ada started its turn"), (2, "ada: hello there"), (3, "ada ended its turn")]
    assert missing.is_error
    assert "Did you mean ada" in text_of(missing)
    assert [event["type"] for event in watched["events"]][-1] == "turn_end"
    assert {event["agent"] for event in watched["events"]} == {"ada"}


async def secrets_are_replaced(client: Any) -> None:
    answer = await called(client, "prompt_agent", agent_or_team="leaky", text="hi")
    watched = await called(client, "watch_events", agent_or_team="leaky", since=0, seconds=0, deltas=True)

    assert answer["text"] == "the key is [an Anthropic key]"
    assert "a1" * 20 not in json.dumps(watched)


async def calls_without_a_person_are_denied(client: Any, folder: Path) -> None:
    answer = await called(client, "prompt_agent", agent_or_team="writer", text="write")

    assert "nobody to ask" in answer["text"]
    assert not (folder / "made.txt").exists()


async def a_person_decides(client: Any, kernel: Any, folder: Path) -> None:
    waits = asyncio.Event()

    async def progress(_count: float, _total: float | None, text: str | None) -> None:
        if text == "write of writer waits for approval in the notebook":
            waits.set()

    kernel.send("attend")
    assert await kernel.said() == "done"
    prompt = asyncio.create_task(
        client.call_tool("prompt_agent", {"agent_or_team": "writer", "text": "write"}, progress_callback=progress)
    )
    await waits.wait()
    assert not (folder / "made.txt").exists()
    kernel.send("allow")
    assert await kernel.said() == "done"
    result = await prompt

    assert not result.is_error
    assert (folder / "made.txt").read_text() == "x"


async def cancelling_aborts_the_run(client: Any) -> None:
    async def progress(_count: float, _total: float | None, text: str | None) -> None:
        if text == "slow started its turn":
            scope.cancel()

    with anyio.CancelScope() as scope:
        await client.call_tool("prompt_agent", {"agent_or_team": "slow", "text": "go"}, progress_callback=progress)
    assert scope.cancelled_caught

    position = 0
    while True:
        watched = await called(client, "watch_events", agent_or_team="slow", since=position, seconds=1, max_events=1)
        position = watched["next"]
        if any(event["type"] == "aborted" for event in watched["events"]):
            break


async def the_death_of_the_kernel_is_reported(client: Any, kernel: Any) -> None:
    started = asyncio.Event()

    async def progress(_count: float, _total: float | None, text: str | None) -> None:
        if text == "ada ended its turn":
            started.set()

    watching = asyncio.create_task(
        client.call_tool("watch_events", {"seconds": 60, "agent_or_team": "ada"}, progress_callback=progress)
    )
    while not started.is_set():
        await called(client, "prompt_agent", agent_or_team="ada", text="again")
    kernel.process.kill()
    result = await watching
    after = await client.call_tool("list_agents", {})

    assert result.is_error
    assert "closed" in text_of(result)
    assert "%planck serve" in text_of(after)
