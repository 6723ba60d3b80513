"""A real kernel for tests: run cells, read what they showed, interrupt and kill."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client import BlockingKernelClient, KernelManager

TIMEOUT = 60.0


@dataclass
class Cell:
    """What one execution showed."""

    status: str = "ok"
    outputs: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    error: str = ""
    seconds: float = 0.0

    def data(self, mime: str) -> list[Any]:
        """Everything shown in one MIME type."""
        return [output["data"][mime] for output in self.outputs if mime in output.get("data", {})]

    @property
    def plain(self) -> str:
        """Printed and shown text, one after another."""
        return self.text + "\n".join(self.data("text/plain"))


class Kernel:
    """One kernel and the client that talks to it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(directory), env={**os.environ, **environment})
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def start(self, code: str, *, allow_stdin: bool = False, attended: bool = True) -> str:
        """Send a cell, as a notebook application does if `attended`; returns at once, with the id for `finish`."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }
        metadata = {"cellId": "cell"} if attended else {}
        request = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(request)
        return str(request["header"]["msg_id"])

    def question(self) -> str:
        """Wait until the cell calls `input`, and give its prompt."""
        return str(self.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"])

    def answer(self, line: str) -> None:
        """Type a line for `input`."""
        self.client.input(line)

    def finish(
        self, message_id: str, *, on_message: Callable[[dict[str, Any]], None] | None = None, timeout: float = TIMEOUT
    ) -> Cell:
        """Wait until the kernel is idle again and give what the cell showed."""
        cell = Cell()
        began = time.monotonic()
        while True:
            left = began + timeout - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"the cell did not end within {timeout} s; so far: {cell}")
            try:
                message = self.client.get_iopub_msg(timeout=left)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != message_id:
                continue
            if on_message:
                on_message(message)
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    cell.text += content["text"]
                case "display_data" | "execute_result":
                    cell.outputs.append(content)
                case "error":
                    cell.status = "error"
                    cell.error = "\n".join(content["traceback"])
                case "status" if content["execution_state"] == "idle":
                    cell.seconds = time.monotonic() - began
                    return cell
                case _:
                    pass

    def run(self, code: str, *, timeout: float = TIMEOUT) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.start(code), timeout=timeout)

    def interrupt(self) -> None:
        """Press ■."""
        self.manager.interrupt_kernel()

    def kill(self) -> None:
        """End the kernel as `kill -9` does."""
        pid = self.manager.provisioner.pid
        os.kill(pid, signal.SIGKILL)
        self.manager.shutdown_kernel(now=True)

    def close(self) -> None:
        """End the kernel and the channels to it."""
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


def touching(file: Path) -> str:
    """Code that makes a file: nothing can be asked of a kernel that is blocked."""
    return f"import pathlib; pathlib.Path({str(file)!r}).touch()"


def wait_until_blocked(kernel: Kernel, begun: Path, code: str) -> None:
    """Wait until code runs that comes after the code that makes the file."""
    deadline = time.monotonic() + TIMEOUT
    while not begun.exists():
        assert time.monotonic() < deadline, f"{begun.name} was not made"
        time.sleep(0.005)
    # Python hears a signal before and during `time.sleep`, but not in the moment in which that calls the system.
    state = Path(f"/proc/{kernel.manager.provisioner.pid}/wchan")
    while "time.sleep(" in code and "nanosleep" not in state.read_text():
        time.sleep(0.005)


@contextmanager
def running_kernel(directory: Path, **environment: str) -> Iterator[Kernel]:
    """A kernel in `directory` that ends with the block."""
    kernel = Kernel(directory, environment)
    try:
        yield kernel
    finally:
        kernel.close()
