"""The settings of retries reach the requests of a workspace, also when they change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.loopback import Exchange, serving
from support.wire import CHAT

from planck_nb import Config, Workspace
from planck_nb.base.errors import ProviderUnavailableError


@pytest.mark.parametrize(("seconds", "requests"), [("0", 1), ("0.3", 2)])
async def test_settings_decide_how_long_requests_are_sent_again(seconds: str, requests: int, tmp_path: Path) -> None:
    async def overloaded(exchange: Exchange) -> None:
        await exchange.answer("529 Overloaded", "{}")

    environment = {"PLANCK_NB_FIRST_RETRY_SECONDS": seconds, "OPENAI_API_KEY": "k"}
    config = Config.load(environment=environment, directory=tmp_path, home=tmp_path)
    async with serving(overloaded) as server, Workspace(config) as workspace:
        agent = workspace.add_agent("ann", model=replace(CHAT, base_url=server.url))
        with pytest.raises(ProviderUnavailableError):
            await agent.prompt("hi")
    assert len(server.exchanges) == requests
