"""The sentence about a damaged session that a resume returns, or logs later if a long journal has to be read."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from planck_nb.base.errors import SessionError
from planck_nb.base.threads import run_in_thread
from planck_nb.sessions import Damage, SessionInfo, read_damage
from planck_nb.sessions.damage import say_once


async def damage_notice(session: SessionInfo, *, seconds: float = 0.5) -> str:
    """Check a session on another thread, and return a sentence about its damage; empty if none is known yet.

    Args:
        session: The session.
        seconds: How long to wait. A check that takes longer goes on, and what it finds is logged as a warning.
    """
    found: list[Damage] = []
    late = threading.Event()

    def check() -> None:
        with suppress(SessionError):  # the session could be read a moment before
            found.append(read_damage(session))
            if late.is_set():
                say_once(session.path, found[0])

    checking = asyncio.ensure_future(run_in_thread(check))
    try:
        await asyncio.wait([checking], timeout=seconds)
    finally:
        late.set()
        checking.cancel()
    return str(found[0]) if found else ""
