"""Conversations to put into a session."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from planck_nb.agent import events
from planck_nb.ai.messages import (
    AssistantMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.sessions import Session
from planck_nb.sessions.database.materialize import BUSY_TIMEOUT, PAUSE, ROWS, SEGMENT_BYTES, Materializer
from planck_nb.sessions.database.paging import Pager
from planck_nb.sessions.reader import SessionReader

Reader = TypeVar("Reader", bound=SessionReader)

START = 1_750_000_000.25


def with_updates(
    session: Session,
    *,
    pause: float = PAUSE,
    rows: int = ROWS,
    segment_bytes: int = SEGMENT_BYTES,
    busy_timeout: float = BUSY_TIMEOUT,
) -> Session:
    """Replace the thread that updates a session's DuckDB file."""
    session._materializer.close()
    writer = session._writer
    session._materializer = Materializer(
        session.info,
        writer.sync,
        writer.start_segment,
        pause=pause,
        rows=rows,
        segment_bytes=segment_bytes,
        busy_timeout=busy_timeout,
    )
    return session


def with_pages(reader: Reader, last_bytes: Sequence[int] = ()) -> Reader:
    """Read a short session like a long one, whose last lines do not have the whole chapter."""
    reader._pager = Pager(reader._info, last_bytes=last_bytes)
    return reader


def make_old(directory: Path) -> None:
    """Let DuckDB files look as if they had not been written lately."""
    for database in directory.glob("*.duckdb"):
        os.utime(database, (0, 0))


def reply(text: str) -> AssistantMessage:
    """A model's answer that cost something."""
    return AssistantMessage((TextPart(text),), "stop", Usage(10, 5, 4, 1, 2), 0.25, "demo", "small")


async def converse(session: Session, agent_id: str = "a1", *, turn: int = 0) -> list[int]:
    """One turn with a tool call that took two seconds; the ids of its four messages."""
    log = session.log(agent_id)
    at = START + 100 * turn
    if turn == 0:
        log.record(
            events.AgentStarted(
                agent_id,
                session.id,
                0,
                0,
                at,
                name="Ada",
                agent_type="worker",
                model="demo:small",
                system_prompt="",
                tools=(),
            )
        )
    call = AssistantMessage(
        (
            ThinkingPart("hm"),
            TextPart("Let me look."),
            ToolCallPart("call_1", "weather", {"city": "Łódź", "unit": None}),
        ),
        "tool_use",
        Usage(7, 3),
        0.5,
        "demo",
        "small",
    )
    ids = [await log.append(UserMessage(f"question {turn}"), turn=turn, time=at)]
    ids.append(await log.append(call, turn=turn, time=at + 1))
    log.record(events.ToolStart(agent_id, session.id, turn, 1, at + 2, id="call_1", name="weather", args={}))
    log.record(
        events.ToolEnd(
            agent_id, session.id, turn, 2, at + 4, id="call_1", name="weather", result=f"{turn} °C", error=False
        )
    )
    results = ToolResultMessage((ToolResultPart("call_1", "weather", f"{turn} °C"),))
    ids.append(await log.append(results, turn=turn, time=at + 4))
    ids.append(await log.append(reply(f"answer {turn}"), turn=turn, time=at + 5))
    return ids


def write_forever(directory: str, name: str, rate: float = float("inf"), **updates: Any) -> None:
    """Append numbered messages to a new session, so many a second, and print each id once it is acknowledged.

    `updates` are limits for `with_updates`. For child processes.
    """
    import asyncio

    async def run() -> None:
        session = with_updates(Session.create(Path(directory), name=name), **updates)
        log = session.log("writer")
        number = 0
        start = time.monotonic()
        while True:
            number += 1
            await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
            log.record(events.Queued("writer", session.id, number, number, time.time(), prompt_id="p", text="x"))
            message_id = await log.append(UserMessage(f"message {number}"), turn=number, time=time.time())
            print(message_id, number, flush=True)

    asyncio.run(run())
