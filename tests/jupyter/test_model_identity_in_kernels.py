"""Magics that return to a session keep the server and the key of a model; `%planck queue` after a kill."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.kernel import Kernel, running_kernel
from support.wire import CHAT_HELLO

from planck_nb.sessions import list_sessions

pytestmark = pytest.mark.kernel

KEYS = {"OPENAI_API_KEY": "the-vendors-key", "MINE_API_KEY": "the-key-of-mine"}

LOAD = """
%load_ext planck_nb
import asyncio, threading
from planck_nb.jupyter.extension import _loaded
workspace = next(iter(_loaded.values()))._controller.workspace
entered = threading.Event()

def hold() -> str:
    "Wait."
    entered.set()
    threading.Event().wait()
"""


@pytest.fixture
def server() -> Iterator[tuple[str, list[str | None]]]:
    """The address of a chat server, and the authorizations that arrive there."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append(self.headers["authorization"])
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"".join(CHAT_HELLO))

        def log_message(self, *arguments: object) -> None: ...

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listener.server_port}/v1", seen
    listener.shutdown()
    thread.join()
    listener.server_close()


def said(kernel: Kernel, code: str) -> str:
    """What a cell shows; it must not fail."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.plain


def describe(folder: Path, address: str, name: str = "mine") -> None:
    """Write `models.json` with one alias, which has a key of its own."""
    model = {"id": name, "model": "qwen", "provider": "openai", "base_url": address, "identifier": "MINE"}
    (folder / ".planck").mkdir(exist_ok=True)
    (folder / ".planck/models.json").write_text(json.dumps({"models": [model]}))


def test_an_alias_keeps_its_server_and_its_key_in_the_magics(
    tmp_path: Path, server: tuple[str, list[str | None]]
) -> None:
    address, seen = server
    describe(tmp_path, address)
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0", "PLANCK_NB_TRUST": "1", **KEYS}
    with running_kernel(tmp_path, **settings) as kernel:
        said(kernel, LOAD)
        said(kernel, "%planck --agent demo hello")
        said(kernel, "%planck --agent ann --model mine hello")
        name = said(kernel, "print(workspace.session.name)").strip()
        said(kernel, "%unload_ext planck_nb")
        said(kernel, LOAD)
        assert "with demo (2 messages), ann (2 messages)." in said(kernel, f"%planck resume {name}")
        said(kernel, "%planck --agent ann again")
        said(kernel, "%planck fork copy")
        said(kernel, "%planck --agent ann again")
        first = said(kernel, "prompts = %planck rewind\nprint(prompts.id[0])").strip()
        assert "ann does not belong to this conversation" in said(kernel, f"%planck rewind {first}")
        said(kernel, "%planck rewind --return last")
        said(kernel, "%planck --agent ann again")
        assert seen == ["Bearer the-key-of-mine"] * 4
        describe(tmp_path, address, "renamed")
        said(kernel, "%unload_ext planck_nb")
        said(kernel, LOAD)
        refused = kernel.run("%planck resume copy").error
        assert "ModelError: copy cannot be resumed as it was: ann (openai:qwen): there is no model with" in refused
        assert "`%planck resume copy --model MODEL`" in refused
        assert said(kernel, "print(workspace.session_id)") == "None\n"
        said(kernel, "%planck resume copy --model renamed")
        said(kernel, "%planck --agent ann again")
        assert seen == ["Bearer the-key-of-mine"] * 5
        assert "--base-url needs --model" in kernel.run("%planck resume copy --base-url http://127.0.0.1:9").error
    stored = b"".join(file.read_bytes() for file in (tmp_path / ".planck/sessions").rglob("*") if file.is_file())
    assert not [key for key in KEYS.values() if key.encode() in stored]


def test_prompts_that_waited_in_a_killed_kernel_are_sent_with_a_command(tmp_path: Path) -> None:
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0"}
    with running_kernel(tmp_path, **settings) as kernel:
        said(kernel, LOAD)
        said(kernel, "run = %planck --background wait with @hold\nassert await asyncio.to_thread(entered.wait, 30)")
        said(kernel, "%planck steer add 1 and 2")
        said(kernel, "run = %planck --background and then hello")
        assert said(kernel, "waiting = %planck queue\nprint(*waiting.text, *waiting.state, sep='; ')").endswith(
            "add 1 and 2; and then hello; waits; waits\n"
        )
        said(kernel, "await workspace.flush()")
        kernel.kill()
    [session] = list_sessions(tmp_path / ".planck/sessions")
    with running_kernel(tmp_path, **settings) as kernel:
        said(kernel, LOAD)
        assert said(kernel, f"%planck resume {session.name}").endswith(
            "The session ended before planck answered 2 prompts: “add 1 and 2”, “and then hello”. "
            "`%planck queue planck --send` sends them now, `%planck queue planck --drop` removes them."
        )
        shown = said(kernel, "waiting = %planck queue\nprint(*waiting.text, *waiting.state, sep='; ')")
        assert shown == "add 1 and 2; and then hello; unanswered; unanswered\n"
        assert "needs either --send or --drop" in kernel.run("%planck queue --send --drop").error
        assert "demo model" in said(kernel, "%planck queue --send")
        sent = "[entry.message for entry in workspace.agent('planck').state.messages if entry.message.type == 'user']"
        assert (
            said(kernel, f"print(*(message.text for message in {sent}[-2:]), sep='; ')")
            == "add 1 and 2; and then hello\n"
        )
        assert said(kernel, "%planck queue --send") == "There are no unanswered prompts."
        assert said(kernel, "waiting = %planck queue\nprint(len(waiting))") == "0\n"
