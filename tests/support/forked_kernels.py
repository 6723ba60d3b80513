"""Kernels that start in a tenth of the time, because a process that has imported everything forks them.

`jupyter_client` has one function that starts kernels. After `start_from` it asks a `kernel_template`; where that is not
possible, it starts a kernel as usual. What starts kernels in processes of its own, such as `python -m planck_nb`,
is not affected, so real starts are tested there.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.connect import LocalPortCache
from jupyter_client.provisioning import local_provisioner
from support.kernel_template import NUMBER, REFUSED
from support.ports import free_port

ADDRESS = "KERNEL_TEMPLATE"
"""The environment variable by which a process of pytest is told the socket's path."""

_PROGRAM = Path(__file__).with_name("kernel_template.py")
_LAUNCHER = "ipykernel_launcher"
_start_as_usual = local_provisioner.launch_kernel
_find_port_as_usual = LocalPortCache.find_available_port


class KernelTemplate:
    """The process that forks, which is started for the first kernel."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kernels-")
        self._process: subprocess.Popen[bytes] | None = None

    def address(self) -> str:
        """The path of its socket, to which other processes may connect, too."""
        path = Path(self._folder.name) / "socket"
        if self._process is None:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                listener.listen()  # now, so that the first request waits until everything is imported
                self._process = subprocess.Popen(
                    [sys.executable, str(_PROGRAM), str(listener.fileno())],
                    env={**os.environ, "HOME": self._folder.name},
                    cwd=self._folder.name,
                    stdin=subprocess.PIPE,
                    pass_fds=[listener.fileno()],
                )
        return str(path)

    def close(self) -> None:
        """End it, and the kernels that are left."""
        if self._process is not None:
            self._process.communicate()
        self._folder.cleanup()


class ForkedKernel:
    """What `jupyter_client` uses of `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        status = self._ended(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(_LAUNCHER, timeout)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as events:
                events.register(self._connection, selectors.EVENT_READ)
                if events.select(timeout):
                    status = self._connection.recv(NUMBER.size, socket.MSG_WAITALL)
                    self.returncode = NUMBER.unpack(status)[0] if status else -signal.SIGKILL
                    self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def start_from(address: Callable[[], str]) -> None:
    """From now on, start kernels in this process by the template at an address, which is asked for with each start."""

    def start(
        cmd: list[str], *, env: dict[str, str] | None = None, cwd: str | None = None, **options: Any
    ) -> ForkedKernel | subprocess.Popen[bytes]:
        forked = None
        if cmd[:3] == [sys.executable, "-m", _LAUNCHER] and not options:
            forked = _fork(address(), env or dict(os.environ), cwd or str(Path.cwd()), cmd[2:])
        return forked or _start_as_usual(cmd, env=env, cwd=cwd, **options)

    local_provisioner.launch_kernel = start
    LocalPortCache.find_available_port = lambda *_: free_port()


def pytest_configure() -> None:
    """With `-p support.forked_kernels`, another pytest starts its kernels so; `ADDRESS` names the template."""
    address = os.environ[ADDRESS]
    start_from(lambda: address)


def start_as_usual() -> None:
    """Start kernels in this process as everywhere else."""
    local_provisioner.launch_kernel = _start_as_usual
    LocalPortCache.find_available_port = _find_port_as_usual


def _fork(address: str, env: dict[str, str], cwd: str, argv: list[str]) -> ForkedKernel | None:
    """A forked kernel; None if it needs an interpreter that starts with other settings."""
    sys.audit("subprocess.Popen", _LAUNCHER, argv, cwd, env)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    request = json.dumps({"env": env, "cwd": cwd, "argv": argv}).encode()
    socket.send_fds(connection, [NUMBER.pack(len(request))], [1, 2])
    connection.sendall(request)
    answer = connection.recv(NUMBER.size, socket.MSG_WAITALL)
    if not answer:
        raise RuntimeError("The process that forks kernels has ended; its error is above.")
    pid = NUMBER.unpack(answer)[0]
    if pid == REFUSED:
        connection.close()
        return None
    return ForkedKernel(connection, pid)
