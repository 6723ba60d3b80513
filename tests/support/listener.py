"""A port that counts who connects to it."""

from __future__ import annotations

import contextlib
import socket
import threading


class Listener:
    """Counts connections to a port of this machine, which is the host of the payloads."""

    def __init__(self) -> None:
        self.connections = 0
        self.connected = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                self.connected.set()
                connection.close()

    def close(self) -> None:
        self._socket.close()
