"""Loads what a request needs before there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from planck_nb.ai.messages import UserMessage, encode_message
from planck_nb.ai.registry import REGISTRY


def preload() -> Iterator[None]:
    """Load everything that the first request of a process loads, which takes about half a second of CPU.

    It may run in a thread. It yields between its steps, where the caller can stop it.
    """
    import aiohttp  # noqa: F401, PLC0415 - loaded late, because importing planck_nb must be cheap

    yield
    from planck_nb.ai import connections, transport  # noqa: F401, PLC0415

    yield
    with suppress(OSError):  # the first request raises it, with a sentence about the certificates
        connections.tls_context()
    yield
    encode_message(UserMessage(""))
    for api in REGISTRY.builtin_formats():
        yield
        REGISTRY.format(api)
