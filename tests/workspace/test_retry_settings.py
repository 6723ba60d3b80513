"""The settings of retries reach the requests of a workspace, also when they change."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from support.wire import CHAT

from planck_nb import Config, Workspace
from planck_nb.ai import transport
from planck_nb.base.errors import ProviderUnavailableError


class Overloaded(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return httpx.Response(529, content=b"{}")


@pytest.mark.parametrize(("seconds", "requests"), [("0", 1), ("0.3", 2)])
async def test_settings_decide_how_long_requests_are_sent_again(
    seconds: str, requests: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Overloaded()

    async def route(_self: object, _url: str) -> Overloaded:
        return server

    monkeypatch.setattr(transport.Transport, "_route", route)
    environment = {"PLANCK_NB_FIRST_RETRY_SECONDS": seconds, "OPENAI_API_KEY": "k"}
    config = Config.load(environment=environment, directory=tmp_path, home=tmp_path)
    async with Workspace(config) as workspace:
        agent = workspace.add_agent("ann", model=CHAT)
        with pytest.raises(ProviderUnavailableError):
            await agent.prompt("hi")
    assert server.requests == requests
