"""Ports for servers that are started later."""

from __future__ import annotations

import itertools
import random
import socket
from contextlib import suppress

_PORTS = range(10_000, 32_000)
"""Below those that the system gives to whoever asks for any: such a one may be given away again before it is used."""

_next = itertools.cycle(_PORTS)
for _ in range(random.SystemRandom().randrange(len(_PORTS))):  # not where the other processes of a run begin
    next(_next)


def free_port() -> int:
    """A port of this computer that nothing listens on, another one each time."""
    for port in _next:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError
