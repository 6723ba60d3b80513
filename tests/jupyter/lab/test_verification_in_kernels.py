"""A page verifies an accepted set: the notebook runs in a scratch kernel, and models are never asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from support.kernel import Kernel, running_kernel

from planck_nb.jupyter.lab.protocol import PROTOCOL

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(240),
    pytest.mark.skipif(int(version("ipykernel").partition(".")[0]) < 7, reason="it answers between cells only"),
]

LOAD = "%load_ext planck_nb"
ACCEPTED = """from planck_nb.jupyter.extension import _loaded
from planck_nb.jupyter.lab.protocol import CellChange, ChangeSet, Decision
[extension] = _loaded.values()
book = extension._link.book
book.put(ChangeSet("s1", "analyst", "a1", "work.ipynb", 1.0, (CellChange("x1", "change", "c1", before="a"),)))
book.decide("s1", [Decision("x1", "accepted")], "")"""


class VerifyingPage:
    """A page on which a person verifies."""

    def __init__(self, kernel: Kernel) -> None:
        self._client = kernel.client
        self._ask, self._talk = uuid4().hex, uuid4().hex
        self._client.control_channel.send(self._client.session.msg("create_subshell_request"))
        self._subshell = self._client.get_control_msg(timeout=60)["content"]["subshell_id"]
        client = uuid4().hex
        self._send("comm_open", self._ask, target_name="planck.ask", data={"client": client})
        hello = {"client": client, "path": "work.ipynb", "version": "1", "protocol": PROTOCOL}
        self._send("comm_open", self._talk, target_name="planck.lab", data=hello, subshell="")
        self.numbers: list[int] = []

    def offer(self) -> dict[str, Any]:
        self.say({"type": "check wanted", "set": "s1"})
        return self.wait("check offer")

    def start(self, *cells: tuple[str, list[Any] | None], copied: bool = True) -> None:
        checked = [
            {"id": f"c{at}", "number": at, "source": source, "outputs": outputs}
            for at, (source, outputs) in enumerate(cells, 1)
        ]
        self.say({"type": "check started", "set": "s1", "cells": checked, "total": len(cells), "copied": copied})

    def verify(self, *cells: tuple[str, list[Any] | None], copied: bool = True) -> dict[str, Any]:
        self.start(*cells, copied=copied)
        return self.wait("check result")

    def say(self, data: dict[str, Any]) -> None:
        self._send("comm_msg", self._talk, data=data, subshell="")

    def ask(self, kind: str) -> None:
        self._send("comm_msg", self._ask, data={"type": kind, "set": "s1", "request": uuid4().hex})

    def wait(self, kind: str, number: int = 0) -> dict[str, Any]:
        """Wait for a message, and follow progress meanwhile."""
        while True:
            message = self._client.get_iopub_msg(timeout=90)
            content = message["content"]
            if message["msg_type"] != "comm_msg" or content["comm_id"] != self._talk:
                continue
            data = dict(content["data"])
            if data["type"] == "check progress":
                self.numbers.append(data["number"])
                self.ask("check seen")
            if data["type"] == kind and data.get("number", 0) >= number:
                return data

    def _send(self, kind: str, comm: str, *, subshell: str | None = None, **content: object) -> None:
        message = self._client.session.msg(kind, {"comm_id": comm, **content})
        message["header"]["subshell_id"] = self._subshell if subshell is None else (subshell or None)
        self._client.shell_channel.send(message)


def stream(text: str) -> list[Any]:
    return [{"output_type": "stream", "name": "stdout", "text": text}]


def result(text: str) -> list[Any]:
    return [{"output_type": "execute_result", "data": {"text/plain": text}, "metadata": {}, "execution_count": 7}]


def shown(kernel: Kernel, source: str) -> tuple[str, list[Any]]:
    """Run a cell in the notebook, and return it with its outputs."""
    outputs: list[Any] = []

    def keep(message: dict[str, Any]) -> None:
        if message["msg_type"] in ("stream", "display_data", "execute_result", "error"):
            outputs.append({"output_type": message["msg_type"], **message["content"]})

    kernel.finish(kernel.start(source), on_message=keep)
    return source, outputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@contextmanager
def verifying(folder: Path, **environment: str) -> Iterator[tuple[Kernel, VerifyingPage]]:
    """A kernel with an accepted set, and its page. Its temporary files are beside its folder."""
    temporary = folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    with running_kernel(folder, TMPDIR=str(temporary), **environment) as kernel:
        kernel.run(LOAD)
        assert kernel.run(ACCEPTED).status == "ok"
        yield kernel, VerifyingPage(kernel)


def leftovers(folder: Path) -> list[str]:
    """Wait until no check has a folder or a process."""
    deadline = time.monotonic() + 20
    found = ["?"]
    while found and time.monotonic() < deadline:
        folders = [path.name for path in (folder.parent / "tmp").glob("planck-verify-*")]
        processes = [
            f"{process.pid} {' '.join(process.info['cmdline'] or ())}"
            for process in psutil.process_iter(["cmdline"])
            if str(folder.parent / "tmp" / "planck-verify-") in " ".join(process.info["cmdline"] or ())
        ]
        found = [*folders, *processes]
        time.sleep(0.05)
    return found


def test_the_third_cell_differs(folder: Path) -> None:
    (folder / "data.txt").write_text("12")
    with verifying(folder) as (_, page):
        offer = page.offer()
        assert (offer["folder"], offer["files"], offer["size"], offer["copied"]) == (str(folder), 1, 2, True)
        found = page.verify(
            ("a = int(open('data.txt').read()); open('data.txt', 'w').write('13')", result("2")),
            ("import os\nprint(os.getcwd(), object())", stream(f"{folder} <object object at 0x7f00000000a0>\n")),
            ("print(a)", stream("11\n")),
            ("print('never')", stream("")),
        )
        assert (found["state"], found["cell"], found["text"]) == ("different", "c3", "Cell 3 has another output.")
        assert (found["before"], found["after"]) == ("11", "12")
        assert page.numbers[-1] == 3
        assert leftovers(folder) == []
    assert (folder / "data.txt").read_text() == "12"


def test_errors_and_syntax_errors_as_before_are_no_difference(folder: Path) -> None:
    with verifying(folder) as (kernel, page):
        cells = [shown(kernel, source) for source in ("1 / 0", "def (", "import sys; print('x', file=sys.stderr)", "")]
        found = page.verify(*cells[:3], ("1 + 1", None), cells[3])
        assert (found["state"], found["text"]) == (
            "same",
            "All 4 cells as before; 1 had not been run, or had too long outputs.",
        )


class Counting(BaseHTTPRequestHandler):
    """Answers as a Chat Completions server, and counts."""

    seen: list[str]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).seen.append(self.path)
        number = len(self.seen)
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": f"Answer {number}."}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
        ]
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        type(self).seen.append(self.path)
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []
    handler = type("Handler", (Counting,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_prompts_are_answered_from_the_session_and_no_server_is_asked(
    folder: Path, server: tuple[str, list[str]]
) -> None:
    url, seen = server
    with verifying(folder, OPENAI_API_KEY="sk-verify-0123456789abcdef0123456789") as (kernel, page):
        cells: list[tuple[str, list[Any] | None]] = [(LOAD, None)]
        cells += [
            shown(kernel, source)
            for source in (
                f"%planck model openai:some --base-url {url}",
                "%%planck\nSay one.",
                "%%planck\nSay two.",
                "import os; print(sorted(name for name in os.environ if 'KEY' in name and 'OPENAI' in name))",
            )
        ]
        assert "Answer 1." in str(cells[2])
        assert "Answer 2." in str(cells[3])
        asked = len(seen)
        cells[4] = cells[4][0], stream("[]\n")  # the scratch kernel has no key
        found = page.verify(*cells)
        assert (found["state"], found["text"]) == (
            "same",
            "All 4 cells as before; 1 had not been run, or had too long outputs.",
        ), found
        missing = page.verify(*cells[:3], ("%%planck\nSay three.", None), cells[4])
        assert (missing["state"], missing["cell"]) == ("ended", "c4")
        assert missing["text"] == (
            "Cell 4: The session has no answer of openai:some to exactly this prompt and conversation; no model is "
            "asked while a notebook is verified."
        )
        direct = (
            "from planck_nb import ai\n"
            f"model = ai.get_model('openai', 'some', base_url={url!r}, api_key='none')\n"
            "await ai.Client(cassette=None).complete(model, ai.Context(messages=[ai.UserMessage('Say four.')]))"
        )
        assert page.verify((LOAD, None), ("%planck cassette off", None), (direct, None))["cell"] == "c3"
        assert len(seen) == asked


def test_scripted_replies_come_from_the_session(folder: Path) -> None:
    add = (
        "import planck_nb\nfrom planck_nb.testing import Call, Reply, scripted_model\n"
        "script = [Reply(thinking='Hm.', calls=[Call('read', {'path': 'data.txt'})]), 'Hello.', 'Again.']\n"
        "planck_nb.get_workspace().add_agent('ann', model=scripted_model(script), tools=planck_nb.BuiltinTools.all())"
    )
    other = add.replace("'Again.'", "'Other.'").replace("'Hello.'", "'Nothing.'")
    (folder / "data.txt").write_text("12")
    with verifying(folder) as (kernel, page):
        cells = [shown(kernel, source) for source in (add, "%%planck ann\nRead it.", "a = %planck ann And?", "a.text")]
        assert "Hello." in str(cells[1])
        assert "Again." in str(cells[3])
        found = page.verify((LOAD, None), (other, None), *cells[1:])
        assert (found["state"], found["text"][:22]) == ("same", "All 3 cells as before;"), found


def test_what_is_trusted_is_trusted_in_the_copy(folder: Path) -> None:
    (folder / ".planck").mkdir()
    models = {"models": [{"id": "mine", "provider": "llama_cpp", "base_url": "http://127.0.0.1:9"}]}
    (folder / ".planck" / "models.json").write_text(json.dumps(models))
    look = "import planck_nb; planck_nb.get_workspace().require_trust()"
    with verifying(folder) as (kernel, page):
        waiting = shown(kernel, look)
        assert "TrustError" in str(waiting[1])
        assert page.verify((LOAD, None), waiting)["state"] == "same"
        kernel.run("planck_nb.get_workspace().trust()")
        trusted = shown(kernel, look)
        assert trusted[1] == []
        assert page.verify((LOAD, None), trusted)["state"] == "same"
        assert page.verify((LOAD, None), waiting)["state"] == "different"
        remembered = kernel.run("print((planck_nb.get_workspace().config.user_folder / 'trust.json').read_text())").text
        assert list(json.loads(remembered)["folders"]) == [str(folder)]


def test_a_call_that_was_approved_ends_the_check(folder: Path) -> None:
    add = (
        "import planck_nb\nfrom planck_nb.testing import Call, Reply, scripted_model\n"
        "script = [Reply(calls=[Call('bash', {'command': 'touch made'})]), 'Done.']\n"
        "tools = [planck_nb.BuiltinTools.bash()]\n"
        "ann = planck_nb.get_workspace().add_agent('ann', model=scripted_model(script), tools=tools)"
    )
    approve = (
        "run = ann.prompt('Make it.')\nasync for event in run:\n    if event.type == 'approval_request':\n"
        "        ann.decide(event.id, allow=True)"
    )
    with verifying(folder, PLANCK_NB_ASK="bash") as (kernel, page):
        assert kernel.run(f"{add}\n{approve}").status == "ok"
        (folder / "made").unlink()
        found = page.verify((LOAD, None), (add, None), ("%%planck ann\nMake it.", None))
        assert (found["state"], found["cell"]) == ("ended", "c3"), found


def test_what_a_check_cannot_do_is_said(folder: Path) -> None:
    with (folder / "large.bin").open("wb") as file:
        file.truncate(5_000_000_000)
    with verifying(folder) as (kernel, page):
        assert page.offer()["copied"] is False
        changed = page.verify(("1", None))
        assert changed["text"] == "The folder's size has changed since you were asked; press Verify again."
        cells = ("import os; print(os.listdir())", stream("[]\n")), ("input('name?')", None)
        asks = page.verify(*cells, copied=False)
        assert asks["text"] == "Cell 2 asks a person for input, which a check cannot give."
        (folder / "large.bin").unlink()
        none = page.verify(("1", None))
        assert none["text"] == "The cells run, but none had an output to compare."
        dies = page.verify(("import os; os._exit(1)", None))
        assert dies["text"] == "The kernel ended in cell 1."

        page.start(("import time\nwhile True: time.sleep(0.01)", None))
        page.wait("check progress", 1)
        assert page.offer()["problem"] == "A check is running; stop it first, or wait for its end."
        page.start()
        assert page.wait("check result")["text"] == "A check is running; stop it first, or wait for its end."
        page.ask("check stopped")
        assert page.wait("check result")["text"] == "Stopped."

        page.start(("while True: print('x' * 10_000)", None))
        page.wait("check progress", 1)
        page.wait("check progress", 1)
        assert kernel.run("1 + 1").plain == "2"
        page.ask("check stopped")
        assert page.wait("check result")["text"] == "Stopped."

        page.start(("import time\nwhile True: time.sleep(0.01)", None))
        page.wait("check progress", 1)
        page.ask("taken back")
        assert page.wait("check result")["text"] == "Stopped."
        assert page.offer()["problem"] == "The changes are not in the notebook any more."
        assert leftovers(folder) == []
        assert kernel.run("1 + 1").status == "ok"


def test_nothing_is_left_if_the_kernel_is_killed_during_a_check(folder: Path) -> None:
    with verifying(folder) as (kernel, page):
        page.start(("import time\nwhile True: time.sleep(0.01)", None))
        page.wait("check progress", 1)
        assert list((folder.parent / "tmp").glob("planck-verify-*"))
        kernel.kill()
        assert leftovers(folder) == []


def test_a_check_ends_without_a_page(folder: Path) -> None:
    with verifying(folder) as (kernel, page):
        page.start(("import time\nwhile True: time.sleep(0.01)", None))
        page.wait("check progress", 1)
        # From here on the page is silent, as one which was closed.
        assert leftovers_within(kernel, folder) == []


def leftovers_within(kernel: Kernel, folder: Path) -> list[str]:
    """Wait longer, because a page has some time to answer."""
    assert kernel.run("1 + 1").status == "ok"
    return leftovers(folder) and leftovers(folder)


def test_stale_cells_are_told(folder: Path) -> None:
    with verifying(folder) as (_, page):
        cells = [{"id": f"c{at}", "source": text} for at, text in enumerate(("a = 1", "b = a", "c = b", "def ("))]
        page.say(
            {"type": "changed cells", "request": "r1", "cells": cells, "before": [{"id": "c0", "source": "a = 0"}]}
        )
        assert page.wait("stale cells")["cells"] == {"c1": ["a"]}
