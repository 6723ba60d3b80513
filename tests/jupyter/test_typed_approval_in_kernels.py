"""Kernels whose clicks do not arrive while a cell runs: approval is asked by `input`, and frames are sent unheard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ipykernel.kernelbase import Kernel as IPythonKernel
from support.kernel import Kernel, running_kernel

from planck_nb.jupyter import frontend
from planck_nb.jupyter.ipython import compat

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

ASK = "%planck --new --tools bash Use bash with `touch mark; echo done`"
SIMULATE_IPYKERNEL_6 = "from planck_nb.jupyter import frontend\nfrontend.kernel_handles_clicks = lambda kernel: False"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Kernel]:
    with running_kernel(folder, PLANCK_NB_MODEL="demo", PLANCK_NB_DEMO_PACE="0.02") as kernel:
        kernel.run("%load_ext planck_nb")
        kernel.run(SIMULATE_IPYKERNEL_6)
        yield kernel


@pytest.fixture
def kernel(shared: Kernel, folder: Path) -> Kernel:
    (folder / "mark").unlink(missing_ok=True)
    return shared


@pytest.mark.parametrize(("typed", "runs"), [("y", True), ("n not today", False)])
def test_approval_is_typed(kernel: Kernel, folder: Path, typed: str, runs: bool) -> None:
    sent = kernel.start(ASK, allow_stdin=True)
    assert kernel.question() == "Allow? [y]es, [n]o, [a]lways: "
    kernel.answer(typed)
    cell = kernel.finish(sent)
    assert cell.status == "ok", cell.error
    assert "bash of planck waits for approval" in cell.text
    assert "\n[a]lways allows bash to run exactly this command.\n" in cell.text
    assert ("`bash` returned" if runs else "call: not today") in cell.plain
    assert (folder / "mark").exists() == runs


def test_without_input_it_is_denied_at_once(kernel: Kernel, folder: Path) -> None:
    cell = kernel.run(ASK)
    assert "nobody to ask" in cell.plain
    assert not (folder / "mark").exists()


def test_an_interrupt_reaches_the_question(kernel: Kernel, folder: Path) -> None:
    sent = kernel.start(ASK, allow_stdin=True)
    kernel.question()
    kernel.interrupt()
    cell = kernel.finish(sent)
    assert cell.error.startswith("KeyboardInterrupt: the cell")
    assert cell.plain.rstrip().endswith("[Stopped.]")
    assert not (folder / "mark").exists()
    assert kernel.run("1 + 1").plain == "2"


def test_text_is_sent_to_browsers_that_are_not_heard(kernel: Kernel) -> None:
    sent: list[dict[str, Any]] = []

    def look(message: dict[str, Any]) -> None:
        content = message["content"].get("data", {}).get("content", {})
        if message["msg_type"] == "comm_msg" and content.get("type") in {"snapshot", "frame"}:
            sent.append(content)

    kernel.finish(kernel.start("%planck --new hello"), on_message=look)
    assert sent[0]["type"] == "snapshot"
    assert sum(content["type"] == "snapshot" for content in sent) > 1, "for a browser that has missed the first"
    assert sum(content["type"] == "frame" for content in sent) > 5
    position = 0
    for content in sent:
        if content["type"] == "frame":
            assert content["from"] == position
        position = content["to"]


def test_in_a_function_it_is_typed_with_every_kernel(kernel: Kernel, folder: Path) -> None:
    kernel.run("frontend.kernel_handles_clicks = lambda kernel: True")
    sent = kernel.start(f"def ask():\n    {ASK}\nask()", allow_stdin=True)
    kernel.question()
    kernel.answer("y")
    assert kernel.finish(sent).status == "ok"
    assert (folder / "mark").exists()
    kernel.run(SIMULATE_IPYKERNEL_6)


@pytest.mark.parametrize(
    ("installed", "handles"),
    [("6.17.1", False), ("6.29.5", False), ("6.30.0a0", False), ("7.0.0", True), ("7.1.0a1", True), ("10.0", True)],
)
def test_kernels_handle_clicks_while_a_cell_awaits_from_version_7_on(
    installed: str, handles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "version", {"ipykernel": installed}.__getitem__)
    assert frontend.kernel_handles_clicks(IPythonKernel.__new__(IPythonKernel)) is handles
    assert not frontend.kernel_handles_clicks(object())
