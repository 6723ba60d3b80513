"""A cell is reported as ended although a message of a widget was handled meanwhile."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ipykernel.kernelbase import Kernel as IPythonKernel
from support.kernel import Kernel, running_kernel

pytestmark = pytest.mark.skipif(
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


def test_a_cell_ends_although_a_message_of_the_cell_before_was_handled_meanwhile(kernel: Kernel) -> None:
    def send_when_it_awaits(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", {"comm_id": "any", "data": {}}))

    kernel.finish(kernel.start(AWAIT_A_MESSAGE), on_message=send_when_it_awaits)
    assert kernel.run(AWAIT_ITS_END, timeout=20).text == "awaited\n"
    assert kernel.run("1 + 1").plain == "2"


def test_without_the_extension_the_kernel_has_its_own_hooks(kernel: Kernel) -> None:
    hooks = "print(sum('CellEnds' in repr(hook) for hook in (kernel.pre_handler_hook, kernel.post_handler_hook)))"
    assert kernel.run(f"kernel = get_ipython().kernel\n{hooks}").text == "2\n"
    kernel.run("%unload_ext planck_nb")
    assert kernel.run(hooks).text == "0\n"
