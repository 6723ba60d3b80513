"""What a kernel tells a side panel, idle and while a cell blocks it, and decisions that come from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.kernel import Kernel, running_kernel, touching, wait_until_blocked

from planck_nb.jupyter.lab.protocol import PROTOCOL

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(180),
    pytest.mark.skipif(int(version("ipykernel").partition(".")[0]) < 7, reason="it answers between cells only"),
]

ADD = """import planck_nb
from planck_nb.testing import Call, Reply, scripted_model
planck_nb.get_workspace().add_agent("analyst", model=scripted_model([{}]))"""
CALL = "Reply(calls=[Call('bash', {'command': 'echo one'})]), 'Done.'"


class PanelPage:
    """A page whose side panel is open."""

    def __init__(self, kernel: Kernel) -> None:
        self._client = kernel.client
        self._ask, self._talk = uuid4().hex, uuid4().hex
        self._client.control_channel.send(self._client.session.msg("create_subshell_request"))
        self._subshell = self._client.get_control_msg(timeout=60)["content"]["subshell_id"]
        client = uuid4().hex
        self._send("comm_open", self._ask, target_name="planck.ask", data={"client": client})
        hello = {"client": client, "path": "work.ipynb", "version": "1", "protocol": PROTOCOL}
        self._send("comm_open", self._talk, target_name="planck.lab", data=hello, subshell="")

    def overview(self, stored: int = 0) -> dict[str, Any]:
        """Ask for the overview, and wait for it."""
        return self.question(type="overview wanted", stored=stored)

    def approve(self, **decision: object) -> str:
        """Decide about a call, and wait for what the kernel says."""
        self._send("comm_msg", self._talk, data={"type": "approve", **decision}, subshell="")
        return str(self._wait(self._talk, lambda found: found["type"] == "not approved")["problem"])

    def trust(self, *keys: str) -> str:
        """Trust what has these keys, and wait for what the kernel says."""
        self._send("comm_msg", self._talk, data={"type": "trust", "keys": keys}, subshell="")
        return str(self._wait(self._talk, lambda found: found["type"] == "trust settled")["problem"])

    def untrusted(self, *commands: str) -> list[dict[str, Any]]:
        """Ask until tools with these commands wait for trust."""
        while True:
            history = self.overview()["history"] or {}
            entries = history.get("untrusted", [{"lines": [["", ""]]}])
            if [entry["lines"][0][1] for entry in entries] == [f"command: {command}" for command in commands]:
                return list(entries)

    def question(self, **question: object) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        request = uuid4().hex
        self._send("comm_msg", self._ask, data={"request": request, **question})
        return self._wait(self._ask, lambda found: found["request"] == request)

    def _wait(self, comm: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = self._client.get_iopub_msg(timeout=60)
            content = message["content"]
            if message["msg_type"] == "comm_msg" and content["comm_id"] == comm and fits(content["data"]):
                return dict(content["data"])

    def _send(self, kind: str, comm: str, *, subshell: str | None = None, **content: object) -> None:
        message = self._client.session.msg(kind, {"comm_id": comm, **content})
        message["header"]["subshell_id"] = self._subshell if subshell is None else (subshell or None)
        self._client.shell_channel.send(message)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with running_kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext planck_nb").status == "ok"
        yield kernel


def test_agents_and_sessions_are_told_also_while_a_cell_blocks(kernel: Kernel, tmp_path: Path) -> None:
    page = PanelPage(kernel)
    kernel.run(ADD.format("'Hello.'"))
    assert kernel.run("%%planck analyst\nHi.").status == "ok"
    found = page.overview()
    assert [(agent["name"], agent["status"]) for agent in found["agents"]] == [("analyst", "idle")]
    assert found["running"] is False
    history: dict[str, Any] | None = None
    while not history or not history["sessions"] or not history["sessions"][0]["messages"]:
        history = page.overview()["history"]
    [session] = history["sessions"]
    assert session["messages"] == 2
    code = f"{touching(tmp_path / 'begun')}; import time\nwhile not pathlib.Path('on').exists(): time.sleep(0.05)"
    cell = kernel.start(code)
    wait_until_blocked(kernel, tmp_path / "begun", code)
    first, second = page.overview(), page.overview()
    assert first["running"] is True
    assert second["age"] > first["age"], "the copy of the moment before the cell"
    assert [agent["name"] for agent in second["agents"]] == ["analyst"]
    assert second["history"]["sessions"] == [session]
    assert page.overview(stored=second["stored"])["history"] is None
    (tmp_path / "on").touch()
    kernel.finish(cell)
    while page.overview()["running"]:
        pass


def test_a_waiting_call_is_edited_and_allowed_and_a_late_decision_is_refused(kernel: Kernel) -> None:
    page = PanelPage(kernel)
    kernel.run(ADD.format(CALL))
    kernel.start("%%planck analyst --tools bash\nGo.")
    waiting: list[dict[str, Any]] = []
    while not waiting:
        waiting = page.overview()["waiting"]
    [call] = waiting
    assert (call["agent_name"], call["name"], call["role"]) == ("analyst", "bash", "")
    assert ["command", "echo one", "text"] in call["display"]["arguments"]
    decision = {"agent_id": call["agent"], "id": call["id"], "allow": True, "args": {"command": "echo two"}}
    assert page.approve(**decision, scope="role", remember=True) != "", "the agent is in no team"
    assert page.approve(**decision) == ""
    while page.overview()["running"]:
        pass
    assert page.approve(**decision) == "The call is not waiting any more; it was decided or stopped."
    assert page.overview()["waiting"] == []
    told = kernel.run("print(planck_nb.get_workspace().agents['analyst'].state.messages[2].message.content[0].text)")
    assert "two" in told.text


def test_what_was_shown_is_trusted_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / ".planck/tools/say/TOOL.json"
    file.parent.mkdir(parents=True)

    def write(command: str) -> None:
        tool = {"name": "say", "description": "Speak.", "command": command, "parameters": {"type": "object"}}
        file.write_text(json.dumps(tool), "utf-8")

    status = "print([file.status for file in planck_nb.get_workspace().trust_items()])"
    write("echo one")
    with running_kernel(tmp_path) as kernel:
        kernel.run("import planck_nb\n%load_ext planck_nb")
        page = PanelPage(kernel)
        [entry] = page.untrusted("echo one")
        assert (entry["status"], entry["path"]) == ("not trusted", ".planck/tools/say/TOOL.json")
        write("echo two")
        assert "not as they were shown" in page.trust(entry["key"])
        assert "['new']" in kernel.run(status).text
        [second] = page.untrusted("echo two")
        assert page.trust() != "", "nothing was chosen"
        assert page.trust(second["key"]) == ""
        assert "['trusted']" in kernel.run(status).text
        assert page.untrusted() == []


def test_settings_are_read_and_written_while_a_cell_blocks(kernel: Kernel, tmp_path: Path) -> None:
    page = PanelPage(kernel)
    file = tmp_path / ".planck/config.toml"
    code = f"{touching(tmp_path / 'begun')}; import time\nwhile not pathlib.Path('on').exists(): time.sleep(0.05)"
    cell = kernel.start(code)
    wait_until_blocked(kernel, tmp_path / "begun", code)
    before = {entry["name"]: entry for entry in page.question(type="settings wanted")["settings"]}
    assert before["max_workers"]["source"] == "default"
    assert not file.exists()
    saved = page.question(type="save settings", scope="project", values={"max_workers": "7", "deny": "bash"})
    after = {entry["name"]: entry for entry in saved["settings"]}
    assert (saved["ok"], after["max_workers"]["value"]) == (True, "7")
    assert after["max_workers"]["source"] == after["deny"]["source"] == ".planck/config.toml"
    written = file.read_text("utf-8")
    refused = page.question(type="save settings", scope="project", values={"max_workers": "many"})
    assert not refused["ok"]
    assert refused["problem"].startswith("max_workers is 'many'; it ")
    key = "sk-ant-api03-" + "x7" * 40
    refused = page.question(type="save settings", scope="project", values={"default_model": key})
    assert "settings files hold no secrets" in refused["problem"]
    assert key not in json.dumps(refused)
    assert file.read_text("utf-8") == written
    removed = page.question(type="save settings", scope="project", values={"max_workers": ""})
    assert {"name": "max_workers", **removed["settings"][[*before].index("max_workers")]} == before["max_workers"]
    (tmp_path / "on").touch()
    kernel.finish(cell)


def test_stored_messages_are_found_and_read_while_a_cell_blocks(kernel: Kernel, tmp_path: Path) -> None:
    page = PanelPage(kernel)
    kernel.run(ADD.format("'The pipe burst.'"))
    assert kernel.run("%%planck analyst\nWhy is it wet?").status == "ok"
    code = f"{touching(tmp_path / 'begun')}; import time\nwhile not pathlib.Path('on').exists(): time.sleep(0.05)"
    cell = kernel.start(code)
    wait_until_blocked(kernel, tmp_path / "begun", code)
    [hit] = page.question(type="search wanted", words="PIPE")["hits"]
    assert (hit["agent"], hit["role"], hit["excerpt"]) == ("analyst", "assistant", "The pipe burst.")
    transcript = page.question(type="transcript wanted", session=hit["session"])
    assert [(item["kind"], item["text"]) for item in transcript["items"]] == [
        ("prompt", "Why is it wet?"),
        ("prose", "The pipe burst."),
    ]
    (tmp_path / "on").touch()
    kernel.finish(cell)
