"""Whatever ends a command in a kernel, nothing that it started is left, as seen from outside."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.kernel import Kernel, running_kernel
from support.stubborn import MARK, everything_ends, marked, put_program, until, wait_until_started

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]


class Notebook:
    """A kernel whose processes are told by a mark."""

    def __init__(self, kernel: Kernel, folder: Path, mark: str) -> None:
        self.kernel = kernel
        self.folder = folder
        self.mark = mark
        self.command = put_program(folder)

    @property
    def pid(self) -> int:
        return int(self.kernel.manager.provisioner.pid)

    def prompt(self, *options: str) -> str:
        head = " ".join(["%%planck --tools bash --allow bash", *options])
        return f"{head}\nUse bash with `{self.command}`"

    def start_in_background(self) -> None:
        """Let the command run while the kernel is free for other cells."""
        assert self.kernel.run(self.prompt("--background")).status == "ok"
        self.has_started()

    def has_started(self) -> None:
        wait_until_started(self.folder)
        assert len(self.left()) >= 3  # so that the mark is seen to find them

    def left(self, *, kernel: bool = True) -> list[psutil.Process]:
        return marked(self.mark, kernel=self.pid if kernel else None)

    def is_alive(self) -> None:
        """The kernel goes on, and so does its agent."""
        for name in ("command", "deaf", "apart"):
            (self.folder / name).unlink()
        assert "returned `alive`" in self.kernel.run("%planck Use bash with `printf alive`").plain


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    mark = secrets.token_hex(8)
    settings = {MARK: mark, "PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0"}
    with running_kernel(tmp_path, **settings) as kernel:
        kernel.run("%load_ext planck_nb")
        yield Notebook(kernel, tmp_path, mark)
    everything_ends(mark)


def test_abort_from_another_cell(notebook: Notebook) -> None:
    notebook.start_in_background()
    cell = notebook.kernel.run("%planck stop")
    assert "Stopped planck." in cell.plain
    assert notebook.left() == []  # already: the verb returns when all is over
    notebook.is_alive()


def test_interrupt_of_the_cell(notebook: Notebook) -> None:
    running = notebook.kernel.start(notebook.prompt())
    notebook.has_started()
    notebook.kernel.interrupt()
    cell = notebook.kernel.finish(running)
    assert "KeyboardInterrupt: the cell" in cell.error
    assert notebook.left() == []
    notebook.is_alive()


def test_unloading_the_extension(notebook: Notebook) -> None:
    notebook.start_in_background()
    assert notebook.kernel.run("%unload_ext planck_nb").status == "ok"
    assert notebook.left() == []


def test_restart(notebook: Notebook) -> None:
    notebook.start_in_background()
    before = notebook.pid
    notebook.kernel.manager.restart_kernel(now=False)
    notebook.kernel.client.wait_for_ready(timeout=60)
    until(lambda: not notebook.left(), "the command ends with its kernel")
    assert notebook.pid != before


def _shut_down(kernel: Kernel) -> None:
    kernel.manager.shutdown_kernel(now=False)


@pytest.mark.parametrize("end", [_shut_down, Kernel.kill], ids=["shutdown", "kill -9"])
def test_end_of_the_kernel(notebook: Notebook, end: Callable[[Kernel], None]) -> None:
    notebook.start_in_background()
    end(notebook.kernel)
    until(lambda: not notebook.left(kernel=False), "everything ends with the kernel")
