"""What differs between the versions of IPython that are supported."""

from __future__ import annotations

import asyncio


def idle_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop in which IPython runs async cells, for where none is running."""
    try:
        from IPython.core.async_helpers import get_asyncio_loop  # noqa: PLC0415 - not before IPython 8
    except ImportError:
        from IPython.core.async_helpers import _asyncio_runner  # noqa: PLC0415

        loop: asyncio.AbstractEventLoop = _asyncio_runner.loop
    else:
        loop = get_asyncio_loop()
    return loop
