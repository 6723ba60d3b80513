"""Servers that report nonsense to agents: every turn ends, no nonsense counts towards limits, and sessions go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.dialects import WIRES, Reply, Say
from support.hostile import NONSENSE
from support.ledger import check_ledger

from planck_nb import Config, Limits, Workspace, ai
from planck_nb.testing import scripted_model

VALUES = ("a fraction", "a huge fraction", "a negative number", "a huge number", "true", "a word", "a nested object")


class Hostile(httpx.AsyncBaseTransport):
    """Answers as the wire format of the present model, with one value in place of both counts."""

    name = ""
    value: Any = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        wire = WIRES[self.name]
        body = b"".join(wire.write(Reply((Say(("fine",)),), usage=(self.value, self.value))))
        return httpx.Response(200, headers={"content-type": wire.kind}, content=body)


@pytest.mark.slow
async def test_agents_of_hostile_servers(tmp_path: Path) -> None:
    server, names, before = Hostile(), list(WIRES), dict[str, ai.Usage]()
    config = Config.load(environment={}, directory=tmp_path)
    async with Workspace(config, client=ai.Client(credentials={}, transport=server)) as workspace:
        workspace.limits = Limits(tokens=10_000, session_tokens=100_000, session_cost=1.0)
        for name in names:
            model = replace(WIRES[name].model, pricing=ai.Pricing(3.0, 15.0))
            agent = workspace.add_agent(name, model=model)
            server.name = name
            for what in VALUES:
                server.value = NONSENSE[what]
                run = agent.prompt(what)
                told = [event.text async for event in run if event.type == "warning"]
                warnings = [text for text in told if "did not say how many tokens" not in text]
                assert (await run).output == "fine"
                assert len(warnings) == 1
                assert "cannot be right" in warnings[0]
            estimated = agent.state.usage
            server.value = 5
            assert (await agent.prompt("and now")).usage == ai.Usage(5, 5)
            assert agent.state.usage == estimated + ai.Usage(5, 5)
            before[name] = agent.state.usage
        requests = len(names) * (len(VALUES) + 1)
        assert workspace.agent_factory.session_spend.tokens < 100 * requests  # an estimate in place of the nonsense
        await check_ledger(workspace)
    async with Workspace(config) as workspace:
        await workspace.resume(model=scripted_model([*[""] * (len(VALUES) + 1), "and on"]))
        await check_ledger(workspace)
        for name in names:
            agent = workspace.agent(name)
            assert agent.state.usage == before[name]
            assert len(agent.state.messages) == 2 * (len(VALUES) + 1)
        assert (await agent.prompt("on")).output == "and on"
