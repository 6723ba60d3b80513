"""A sidecar written with planck_nb, used through the link of a kernel."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.sidecar_links import FAST, SERVERS, Events, until_file
from support.sidecar_server import until_ended

from planck_nb import Agent
from planck_nb.base.errors import ToolError
from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.testing import Call, Reply, scripted_model

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]


async def test_tools_compactors_and_observers_of_a_sidecar_of_ours(tmp_path: Path) -> None:
    environment = {"STATE": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(SERVERS), str(ROOT)])}
    spec = SidecarSpec(
        "own", command=sys.executable, args=("-m", "planck_nb.sidecars", "own_sidecar:sidecar"), env=environment
    )
    events = Events()
    sidecars = Sidecars(timing=FAST, on_event=events, session_id=lambda: "s1")
    sidecars.add(spec)
    (status,) = await sidecars.start()
    try:
        assert (status.state, status.reason) == ("connected", "")
        assert (status.server, status.compactors) == ("own 3", ("newest",))
        tools = {tool.name: tool for tool in sidecars.all_tools()}
        assert set(tools) == {"shout", "count", "fail", "sleep"}
        runs = {item.name: (item.runs, item.timeout_ms) for item in sidecars.link("own").definitions()}
        assert runs["shout"] == ("async", 5_000)
        assert runs["count"][0] == "process"

        model = scripted_model([Reply(calls=[Call("shout", {"text": "hi"}), Call("count", {"text": "abc"})]), "done"])
        async with Agent(model=model, tools=sidecars.tools()) as agent:
            async for event in (run := agent.prompt("go")):
                sidecars.observe(event)
            result = await run
        answers = [part for message in result.messages if message.type == "tool_result" for part in message.content]
        assert [part.text for part in answers] == ["HI", "3"]
        await sidecars.flush()
        noted = (tmp_path / "noted").read_text()
        assert noted.startswith("s1 ")
        assert "s1 tool_end\n" in noted

        with pytest.raises(ToolError, match=r"^this cannot be done$"):
            await tools["fail"].run({})

        call = asyncio.create_task(tools["sleep"].run({"path": str(tmp_path / "pid")}))
        child = int(await until_file(tmp_path / "pid"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until_ended([child])

        model = replace(scripted_model(["word " * 200] * 30), context_window=2_000)
        async with Agent(model=model, on_compact=sidecars.compactor("newest", ratio=0.5)) as agent:
            for _ in range(6):
                await agent.prompt("word " * 200)
            messages = [entry.message for entry in agent.state.messages]
        summaries = [message.text for message in messages if message.type == "summary"]
        assert summaries
        assert all(text.endswith(" messages") for text in summaries)
        assert "compactor_failed" not in events.kinds
    finally:
        await sidecars.aclose()
