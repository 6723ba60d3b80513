"""A process that has imported what a kernel needs, and forks a kernel for each request.

    python kernel_template.py DESCRIPTOR     # of a Unix socket that listens

Importing takes most of the time in which a kernel starts, and the tests start hundreds. What is forked is a real
ipykernel in a session of its own. `forked_kernels` is the other side: a connection is a kernel; it sends the request
with the files for standard output and errors, and receives the process id and, at the end, the exit status. The kernel
is killed when the connection ends first, that is with the process that has started it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

NUMBER = struct.Struct("i")
REFUSED = -1
_MODULES = ("ipykernel.kernelapp", "ipykernel.zmqshell", "anywidget", "duckdb", "pandas", "planck_nb.jupyter.extension")
_AT_START = {name: value for name, value in os.environ.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}


class _Forked(BaseException):
    """Raised in the child: leaves the loop of its parent."""

    def __init__(self, connection: socket.socket, request: dict[str, object]) -> None:
        self.connection = connection
        self.request = request


class _Template:
    """The loop that forks kernels, and waits for them and for the processes that have started them."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._events = selectors.DefaultSelector()
        self._kernels: dict[socket.socket, tuple[int, int]] = {}
        """The process id and its file descriptor, by connection."""

    def run(self) -> None:
        """Serve until standard input ends."""
        self._events.register(self._listener, selectors.EVENT_READ, self._accept)
        self._events.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in self._events.select():
                if key.data is None:
                    return
                key.data()

    def close(self) -> None:
        """Close what belongs to this process alone."""
        self._events.close()
        self._listener.close()
        for connection, (_, ended) in self._kernels.items():
            connection.close()
            os.close(ended)

    def end_kernels(self) -> None:
        """Kill the kernels that are left."""
        for pid, _ in self._kernels.values():
            _kill(pid)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        with suppress(OSError):  # the other side has gone
            head, files, _, _ = socket.recv_fds(connection, NUMBER.size, 2)
            request = json.loads(connection.recv(NUMBER.unpack(head)[0], socket.MSG_WAITALL))
            own = {name: value for name, value in request["env"].items() if name.startswith("PYTHON")}
            own.pop("PYTHONPATH", None)
            if own != _AT_START:  # the interpreter reads these only when it starts
                connection.sendall(NUMBER.pack(REFUSED))
                connection.close()
            elif pid := os.fork():
                ended = os.pidfd_open(pid)
                self._kernels[connection] = pid, ended
                self._events.register(ended, selectors.EVENT_READ, lambda: self._ended(connection))
                self._events.register(connection, selectors.EVENT_READ, lambda: self._left(connection))
            else:
                os.setsid()
                for target, file in enumerate(files, 1):
                    os.dup2(file, target)
                    os.close(file)
                raise _Forked(connection, request)
            for file in files:
                os.close(file)

    def _ended(self, connection: socket.socket) -> None:
        pid, ended = self._kernels.pop(connection)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for file in (ended, connection):
            with suppress(KeyError):
                self._events.unregister(file)
        os.close(ended)
        with suppress(OSError):
            connection.sendall(NUMBER.pack(status))
        connection.close()

    def _left(self, connection: socket.socket) -> None:
        if connection in self._kernels:
            self._events.unregister(connection)
            _kill(self._kernels[connection][0])


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _become_kernel(forked: _Forked, own_path: list[str]) -> None:
    request = forked.request
    environment = request["env"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(str(request["cwd"]))
    sys.path[:] = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *own_path]
    argv = request["argv"]
    assert isinstance(argv, list)
    sys.argv = argv
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    forked.connection.sendall(NUMBER.pack(os.getpid()))
    forked.connection.close()
    with suppress(SystemExit):
        # ipykernel looks for the parent, and ipywidgets registers its comm, when they are imported: here, too early.
        app = import_module("ipykernel.kernelapp").IPKernelApp.instance(parent_handle=os.getppid())
        app.initialize()
        import_module("ipywidgets").register_comm_target()
        app.start()


def _exit() -> NoReturn:
    """End this process as the interpreter does, but leave its memory to the system: freeing it takes 0.3 s."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)


def main(descriptor: int) -> None:
    """Import everything, then fork."""
    added = {str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    added -= {entry for entry in added if entry.startswith((sys.prefix, sys.base_prefix))}  # named there, and its own
    own_path = [entry for entry in sys.path if entry not in added]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    for name in _MODULES:
        import_module(name)
    import_module("pandas").set_option("display.max_columns", 20)  # its default in kernels; here it sees none
    for _ in import_module("planck_nb.jupyter.ipython.warm_up").first_prompt():
        pass
    gc.collect()
    gc.freeze()  # kernels share this memory as long as the garbage collector does not write to it
    template = _Template(socket.socket(fileno=descriptor))
    try:
        template.run()
        template.end_kernels()
    except _Forked as request:
        forked = request
    else:
        _exit()
    finally:
        template.close()
    try:
        _become_kernel(forked, own_path)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        os._exit(1)
    _exit()


if __name__ == "__main__":
    main(int(sys.argv[1]))
