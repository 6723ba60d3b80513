"""Signing in to a server from a notebook: the address is shown, and the one at which the browser ended is typed."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from support.kernel import running_kernel
from support.oauth_server import OAuthServer

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    made = OAuthServer()
    serving = uvicorn.Server(uvicorn.Config(made.app, interface="asgi3", log_level="error"))
    thread = threading.Thread(target=serving.run, args=([made.listener],), daemon=True)
    thread.start()
    while not serving.started:
        time.sleep(0.01)  # uvicorn has no event for it
    yield made
    serving.should_exit = True
    thread.join()


def test_a_person_signs_in_when_a_sidecar_is_started(server: OAuthServer, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "notebook"
    (home / ".planck").mkdir(parents=True)
    folder.mkdir()
    (home / ".planck/mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"url": server.url}}}))
    with running_kernel(folder, PLANCK_NB_MODEL="demo", HOME=str(home)) as kernel:
        kernel.run("%load_ext planck_nb")
        cell = kernel.run("%planck sidecar start")
        assert "requires a person to sign in, and there is none; start it in a notebook with" in cell.plain
        shown = ""

        def on_message(message: dict[str, Any]) -> None:
            nonlocal shown
            if message["msg_type"] != "stream":
                return
            shown += message["content"]["text"]
            found = re.search(r"is not opened for you: (\S+)\n", shown)
            if found and not server.exchanges and kernel.question().startswith("Answer?"):
                back = httpx2.get(found[1]).headers["location"]
                kernel.answer("y")
                assert kernel.question().startswith("Address")
                kernel.answer(back)
                shown = shown.replace("is not opened", "was not opened")

        cell = kernel.finish(kernel.start("%planck sidecar start notes", allow_stdin=True), on_message=on_message)
        assert "notes: connected, 1 tool" in cell.plain
        assert server.exchanges == ["authorization_code"]
        assert "notes: connected" in kernel.run("%planck sidecar restart notes").plain  # with the stored tokens
        assert server.exchanges == ["authorization_code"]
