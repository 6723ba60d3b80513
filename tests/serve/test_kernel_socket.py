"""The socket of a kernel: who may use it, and what hostile clients get."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Config, Workspace
from planck_nb.agent.approval.secret_files import is_secret_path
from planck_nb.base.errors import AgentError, ConfigError, UsageError
from planck_nb.serve import open_kernel_socket, start_kernel_socket
from planck_nb.serve.kernel_client import KernelClient
from planck_nb.serve.runtime_folder import KernelAddress, open_kernels
from planck_nb.testing import scripted_model
from planck_nb.tools.private_folders import runtime_folder


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder whose path is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="pk-") as folder:
        yield Path(folder) / "run"


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with Workspace(Config.load(directory=tmp_path, home=tmp_path)) as made:
        made.add_agent("ada", model=scripted_model(["hello"] * 5))
        made.add_agent("slow", model=scripted_model(["word " * 2_000], pace=0.05))
        yield made


def client_of(workspace: Workspace, runtime: Path, chosen: str = "") -> KernelClient:
    return KernelClient(runtime, workspace.config.root, workspace.sessions_dir, chosen)


async def exchange(path: Path, data: bytes) -> Any:
    """Send bytes to a socket and return its answer."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(data)
        return json.loads(await reader.readline())
    finally:
        writer.close()


def request(token: str, method: object = "list_agents", params: object = None) -> bytes:
    return json.dumps({"token": token, "method": method, "params": {} if params is None else params}).encode() + b"\n"


async def test_only_its_user_can_reach_it(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        file = opened.path.with_suffix(".json")
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (runtime, opened.path, file)]
        token = json.loads(file.read_text())["token"]
        assert token not in repr(opened)
        assert token not in repr(open_kernels(runtime))

    assert modes == [0o700, 0o600, 0o600]
    assert len(token) >= 32
    assert not opened.path.exists()
    assert not file.exists()


async def test_the_token_is_required(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        token = open_kernels(runtime)[0].token
        for wrong in ("", "x", token[:-1], token + "x", "tökén", token.swapcase()):
            answer = await exchange(opened.path, request(wrong, "prompt", {"name": "ada", "text": "hi"}))
            assert "token" in answer["error"]["message"]
        for nothing in (b"{}\n", b'{"token": null}\n', b'{"token": ["x"]}\n'):
            assert "token" in (await exchange(opened.path, nothing))["error"]["message"]
        assert "result" in await exchange(opened.path, request(token))
        assert workspace.agents["ada"].info().turn == -1


async def test_an_invalid_request_gets_a_sentence(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        token = open_kernels(runtime)[0].token
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"[]\n",
            b"\xff\xfe\n",
            b"[" * 100_000 + b"\n",
            request(token, "execute", {"code": "1"}),
            request(token, "__class__"),
            request(token, ["prompt"]),
            request(token, "prompt", []),
            request(token, "prompt", {"name": "ada"}),
            request(token, "prompt", {"name": "ada", "text": "x" * 300_000}),
            request(token, "prompt", {"name": "ada", "text": " "}),
            request(token, "prompt", {"name": "nobody", "text": "hi"}),
            request(token, "watch", {"name": "nobody"}),
        ):
            answer = await exchange(opened.path, data)
            assert "\n" not in answer["error"]["message"]
            assert answer["error"]["message"]
        answer = await exchange(opened.path, request(token, "prompt", {"name": "Ada", "text": "hi"}))
        assert "Did you mean ada" in answer["error"]["message"]
        assert workspace.agents["ada"].info().turn == -1


async def test_a_silent_client_keeps_nobody_waiting(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        silent = [await asyncio.open_unix_connection(str(opened.path)) for _ in range(5)]
        assert (await client_of(workspace, runtime).call("list_agents", {}))["agents"]
        for _, writer in silent:
            writer.close()


async def test_closing_the_connection_aborts_the_run(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime), workspace.subscribe() as events:
        call = asyncio.create_task(client_of(workspace, runtime).call("prompt", {"name": "slow", "text": "go on"}))
        async for event in events:
            if event.type == "text_delta":
                call.cancel()
                break
        async for event in events:
            if event.type == "aborted":
                break
    assert workspace.agents["slow"].status == "idle"


async def test_closing_the_socket_ends_its_calls(workspace: Workspace, runtime: Path) -> None:
    opened = start_kernel_socket(workspace, folder=runtime)
    async with workspace.subscribe() as events:
        call = asyncio.create_task(client_of(workspace, runtime).call("prompt", {"name": "slow", "text": "go on"}))
        async for event in events:
            if event.type == "text_delta":
                break
        opened.close()
        opened.close()
        assert not opened.is_open
        assert not opened.path.exists()
        with pytest.raises(AgentError, match=r"closed"):
            await call
        await opened.aclose()
    with pytest.raises(UsageError, match="%planck serve"):
        await client_of(workspace, runtime).call("list_agents", {})


async def test_events_are_watched_without_a_gap(workspace: Workspace, runtime: Path) -> None:
    client = client_of(workspace, runtime)
    async with open_kernel_socket(workspace, folder=runtime):
        first = await client.call("watch", {"since": 0, "max_events": 1, "seconds": 10})
        told: list[str] = []

        async def progress(text: str) -> None:
            told.append(text)

        answer = await client.call("prompt", {"name": "ada", "text": "hi"}, progress)
        rest = await client.call("watch", {"since": first["next"], "seconds": 0, "name": "ada"})
        again = await client.call("watch", {"since": rest["next"], "seconds": 0})
        beyond = await client.call("watch", {"since": 10**9, "seconds": 0})

    assert answer["text"] == "hello"
    assert told == ["ada started its turn", "ada: hello", "ada ended its turn"]
    assert [event["type"] for event in first["events"]] == ["agent_started"]
    assert [event["type"] for event in rest["events"]] == [
        "turn_start",
        "message",
        "message",
        "usage_delta",
        "turn_end",
    ]
    assert again["events"] == []
    assert beyond["next"] == again["next"]


async def test_a_kernel_is_found_by_its_folder(workspace: Workspace, runtime: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        assert client_of(workspace, runtime).address().socket == opened.path
        assert KernelClient(runtime, other, other, str(os.getpid())).address().socket == opened.path
        assert KernelClient(tmp_path, other, other, str(opened.path)).address().socket == opened.path
        with pytest.raises(UsageError, match=f"{os.getpid()} in {tmp_path}"):
            KernelClient(runtime, other, other).address()
        with pytest.raises(UsageError, match="No kernel 1 "):
            KernelClient(runtime, other, other, "1").address()


async def test_folders_that_others_can_enter_are_refused(workspace: Workspace, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    linked = tmp_path / "linked"
    (tmp_path / "target").mkdir(mode=0o700)
    linked.symlink_to(tmp_path / "target")
    file = tmp_path / "file"
    file.touch()
    for folder in (shared, linked, file):
        with pytest.raises(ConfigError):
            start_kernel_socket(workspace, folder=folder)
        with pytest.raises(ConfigError):
            open_kernels(folder)
    with pytest.raises(ConfigError, match="too long"):
        start_kernel_socket(workspace, folder=tmp_path / ("x" * 100))


async def test_folders_of_another_user_are_refused(
    workspace: Workspace, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kernel_socket(workspace, folder=runtime):
        monkeypatch.setattr(os, "getuid", lambda: 54_321)
        with pytest.raises(ConfigError, match="another user"):
            open_kernels(runtime)
        with pytest.raises(ConfigError, match="another user"):
            start_kernel_socket(workspace, folder=runtime)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="Linux")
async def test_clients_of_another_user_are_refused(
    workspace: Workspace, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        token = open_kernels(runtime)[0].token
        monkeypatch.setattr(os, "getuid", lambda: 54_321)
        answer = await exchange(opened.path, request(token))
    assert "Only the user of the kernel" in answer["error"]["message"]


async def test_files_that_are_not_a_kernels_are_ignored(workspace: Workspace, runtime: Path, tmp_path: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        file = opened.path.with_suffix(".json")
        content = file.read_text()
        for wrong in ("", "{}", "[]", "[" * 100_000, '{"token": 1}', content.replace('"pid": ', '"pid": "x')):
            file.write_text(wrong)
            assert open_kernels(runtime) == []
        file.write_text(content)
        file.chmod(0o644)
        assert open_kernels(runtime) == []
        file.chmod(0o600)
        assert len(open_kernels(runtime)) == 1
        other = tmp_path / "elsewhere.json"
        other.write_text(content)
        other.chmod(0o600)
        file.unlink()
        file.symlink_to(other)
        assert open_kernels(runtime) == []
        os.mkfifo(runtime / "pipe.json", 0o600)
        assert open_kernels(runtime) == []


def test_what_a_dead_kernel_left_is_removed(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    path = runtime / "1.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    path.chmod(0o600)
    KernelAddress(path, "token", 2**22 + 1, "/", "/", 0).write()

    assert open_kernels(runtime) == []
    assert list(runtime.iterdir()) == []


def dead_kernel(runtime: Path, workspace: Workspace) -> Path:
    """The socket of a killed kernel of the workspace, the newest, whose process id another process has now."""
    runtime.mkdir(mode=0o700, exist_ok=True)
    path = runtime / "kernel-0.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    path.chmod(0o600)
    KernelAddress(path, "token", os.getpid(), str(workspace.config.root), "/", 2e12).write()
    return path


async def test_a_dead_kernel_does_not_hide_a_living_one(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        dead = dead_kernel(runtime, workspace)
        assert client_of(workspace, runtime).address().socket == dead

        assert (await client_of(workspace, runtime).call("list_agents", {}))["agents"]
        assert [kernel.socket for kernel in open_kernels(runtime)] == [opened.path]


async def test_a_dead_kernel_whose_files_cannot_be_removed_is_named(
    workspace: Workspace, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = dead_kernel(runtime, workspace)
    monkeypatch.setattr(KernelAddress, "remove", lambda _: None)  # as in a folder that was made read-only
    with pytest.raises(UsageError, match=f"{dead} cannot be removed; delete it"):
        await client_of(workspace, runtime).call("list_agents", {})


async def test_agents_may_not_read_the_token(workspace: Workspace, runtime: Path) -> None:
    async with open_kernel_socket(workspace, folder=runtime) as opened:
        assert is_secret_path(opened.path.with_suffix(".json"))


def test_the_runtime_folder_is_the_systems(tmp_path: Path) -> None:
    assert runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "planck-nb"
    assert runtime_folder({"XDG_RUNTIME_DIR": "relative"}).name == f"planck-nb-{os.getuid()}"
    assert runtime_folder({}).name == f"planck-nb-{os.getuid()}"


async def test_outside_an_event_loop_it_is_not_opened(workspace: Workspace, runtime: Path) -> None:
    with pytest.raises(UsageError, match="event loop"):
        await asyncio.to_thread(start_kernel_socket, workspace, folder=runtime)
