"""Older versions of IPython, simulated; `tests/project/try_versions.py` tries real ones."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ipykernel.kernelbase import Kernel as IPythonKernel
from IPython.core import async_helpers, completer
from jupyter_client import BlockingKernelClient
from support.kernel import Kernel, running_kernel

from planck_nb.config import Config
from planck_nb.jupyter.completion import matcher
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.ipython.compat import idle_loop
from planck_nb.jupyter.notebook import Notebook
from planck_nb.workspace import Workspace
from planck_nb.workspace.installation_findings import kernel_fault


@pytest.mark.parametrize(
    ("line", "text", "offered"),
    [
        ("%planck mod", "mod", ["model", "models"]),
        ("%planck model demo:s", "s", ["script"]),  # IPython takes what follows a colon for a word
        ("%%planck --mo", "--mo", ["--model", "--models"]),
        ("x = 1 + mod", "mod", []),
    ],
)
async def test_completion_before_ipython_8(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, text: str, offered: list[str]
) -> None:
    for name in ("context_matcher", "SimpleCompletion", "SimpleMatcherResult", "CompletionContext"):
        monkeypatch.delattr(completer, name)
    async with Workspace(Config(root=tmp_path, sessions_dir=tmp_path)) as workspace:
        notebook = Notebook(Controller(workspace))
        shell: Any = SimpleNamespace(Completer=SimpleNamespace(text_until_cursor=line))
        assert matcher(shell, lambda: notebook)(text) == offered


def test_the_event_loop_before_ipython_8(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    monkeypatch.delattr(async_helpers, "get_asyncio_loop")
    monkeypatch.setattr(async_helpers, "_asyncio_runner", SimpleNamespace(loop=loop))
    assert idle_loop() is loop
    loop.close()


def test_the_event_loop_of_ipython() -> None:
    assert idle_loop() is async_helpers.get_asyncio_loop()


# A cell is reported as ended although a message of a widget was handled meanwhile.

handles_messages_meanwhile = pytest.mark.skipif(
    "concurrent" not in inspect.signature(IPythonKernel.dispatch_shell).parameters,
    reason="this ipykernel handles no messages of widgets while a cell awaits",
)

AWAIT_A_MESSAGE = """import asyncio
kernel = get_ipython().kernel
arrived, handled = asyncio.Event(), asyncio.Event()
async def handle(*message):
    arrived.set()
    await handled.wait()
kernel.shell_handlers["comm_msg"] = handle
print("awaits")
await arrived.wait()"""
AWAIT_ITS_END = """handled.set()
for _ in range(100):
    await asyncio.sleep(0)
print("awaited")"""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with running_kernel(tmp_path, PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb")
        yield kernel


@handles_messages_meanwhile
def test_a_cell_ends_although_a_message_of_the_cell_before_was_handled_meanwhile(kernel: Kernel) -> None:
    def send_when_it_awaits(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", {"comm_id": "any", "data": {}}))

    kernel.finish(kernel.start(AWAIT_A_MESSAGE), on_message=send_when_it_awaits)
    assert kernel.run(AWAIT_ITS_END, timeout=20).text == "awaited\n"
    assert kernel.run("1 + 1").plain == "2"


MESSAGES = 300
AWAIT_MESSAGES = """import asyncio
kernel = get_ipython().kernel
arrived, loop, complete = [], asyncio.get_running_loop(), asyncio.Event()
def handle(stream, identity, message):
    arrived.append(message)
    if len(arrived) == {}:
        loop.call_soon_threadsafe(complete.set)
kernel.shell_handlers["comm_info_request"] = handle
print("awaits")
await complete.wait()"""


def send_to_subshell(client: BlockingKernelClient, subshell: str) -> str:
    request = client.session.msg("comm_info_request")
    request["header"]["subshell_id"] = subshell
    client.shell_channel.send(request)
    return str(request["header"]["msg_id"])


@handles_messages_meanwhile
def test_the_kernel_is_busy_after_a_subshell_was_created_for_a_widget(kernel: Kernel) -> None:
    client, states = kernel.client, list[tuple[bool, str]]()
    cell = kernel.start(AWAIT_MESSAGES.format(1))
    while (True, "idle") not in states:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "stream":
            client.control_channel.send(client.session.msg("create_subshell_request"))
        elif message["msg_type"] == "status":
            state = (message["parent_header"].get("msg_id") == cell, message["content"]["execution_state"])
            states.append(state)
            if len(states) == 4:  # only now the cell may end
                send_to_subshell(client, client.get_control_msg(timeout=60)["content"]["subshell_id"])
    assert states[:4] == [(True, "busy"), (False, "busy"), (False, "idle"), (True, "busy")]


@handles_messages_meanwhile
def test_the_kernel_is_busy_until_the_cell_ends_although_a_subshell_handles_messages(kernel: Kernel) -> None:
    client = kernel.client
    client.control_channel.send(client.session.msg("create_subshell_request"))
    subshell = client.get_control_msg(timeout=60)["content"]["subshell_id"]

    def states_until_idle(request: str) -> list[tuple[bool, str]]:
        states: list[tuple[bool, str]] = []
        while (True, "idle") not in states:
            message = client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "stream":
                for _ in range(MESSAGES):
                    send_to_subshell(client, subshell)
            elif message["msg_type"] == "status":
                parent = message["parent_header"].get("msg_id")
                states.append((parent == request, message["content"]["execution_state"]))
        return states

    for _ in range(3):
        states = states_until_idle(kernel.start(AWAIT_MESSAGES.format(MESSAGES)))
        following = [after for state, after in pairwise(states) if state == (False, "idle")]
        assert following.count((True, "busy")) >= MESSAGES - 2  # the last ones end with the cell
        assert set(following) <= {(True, "busy"), (True, "idle")}
        after_the_cell = states_until_idle(send_to_subshell(client, subshell))
        assert after_the_cell[-2:] == [(True, "busy"), (True, "idle")]
        assert after_the_cell[:-2] in ([], [(False, "idle")])  # of the last message, which ended with the cell


@handles_messages_meanwhile
def test_without_the_extension_the_kernel_has_its_own_hooks(kernel: Kernel) -> None:
    hooks = "print(sum('planck_nb' in repr(hook) for hook in (kernel.pre_handler_hook, kernel.post_handler_hook)))"
    assert kernel.run(f"kernel = get_ipython().kernel\n{hooks}").text == "2\n"
    kernel.run("%unload_ext planck_nb")
    assert kernel.run(hooks).text == "0\n"


# `%load_ext` warns of versions of ipykernel that stop answering by themselves.

WARNING = (
    "ipykernel 7.2.0 can stop answering in the middle of a notebook. "
    "Run `%pip install -U ipykernel`, then restart the kernel.\n"
)


@pytest.mark.kernel
@pytest.mark.parametrize("installed", ["7.0.0", "7.0.0a1", "7.1.0", "7.2", "7.3.1"])
def test_versions_that_stop_answering(installed: str) -> None:
    assert installed in kernel_fault(installed)


@pytest.mark.kernel
@pytest.mark.parametrize("installed", ["", "6.17.1", "6.31.0", "7.4.0", "7.10.0", "7.30", "8.0.1", "17.1.0"])
def test_versions_that_go_on_answering(installed: str) -> None:
    assert kernel_fault(installed) == ""


@pytest.mark.kernel
def test_the_warning_stands_in_the_cell_and_the_extension_works(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("from planck_nb.jupyter.ipython import compat\ncompat.version = lambda name: '7.2.0'")

        assert kernel.run("%load_ext planck_nb").text == WARNING
        assert kernel.run("%planck -- hello").status == "ok"
