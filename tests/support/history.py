"""A large stored history, written directly into journals and DuckDB files."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from planck_nb.agent import events
from planck_nb.ai.messages import (
    AssistantMessage,
    SummaryMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.sessions import SessionInfo
from planck_nb.sessions.database.duckdb import connect
from planck_nb.sessions.database.materialize import copy_rows, materialize
from planck_nb.sessions.directory import new_session_info
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import Position

WORDS = "the quick agent reads a file and writes what it found into another table of numbers while you wait".split()
TOOLS = ("read", "bash", "edit", "search")
MODELS = (("demo", "small"), ("demo", "large"))
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_PER_TURN = 4
_SUMMARY_EVERY = 100


def lines_of(
    messages: int, *, begin: float, seed: int = 7, agent_id: str = "agent", spacing: float = 1.0
) -> Iterator[bytes]:
    """Yield the journal lines of a session with about so many messages: turns of a prompt, a tool call and a reply."""
    choose = random.Random(seed)
    row_id, turn, written, at = 0, 0, 0, begin

    def event(kind: type[events.EventBase], **fields: object) -> bytes:
        nonlocal row_id, at
        row_id, at = row_id + 1, at + spacing / 8
        return codec.encode_event_line(row_id, kind(agent_id, None, turn, row_id, at, **fields))  # type: ignore[arg-type]

    def message(content: UserMessage | AssistantMessage | ToolResultMessage | SummaryMessage) -> bytes:
        nonlocal row_id, at, written
        row_id, at, written = row_id + 1, at + spacing / 8, written + 1
        return codec.encode_message_line(row_id, agent_id, content, turn=turn, time=at)

    total = Usage()
    yield event(
        events.AgentStarted, name="Ada", agent_type="worker", model="demo:small", system_prompt="Be brief.", tools=TOOLS
    )
    while written < messages:
        provider, model = MODELS[choose.random() < 0.2]
        said = " ".join(choose.choices(WORDS, k=60))
        call, tool, usage = f"call_{turn}", choose.choice(TOOLS), Usage(1000 + turn % 97, 200, 400, 10, 20)
        total += usage
        counted = {"delta": usage, "total": total, "cost": 0.001, "total_cost": 0.001 * turn}
        yield event(events.TurnStart, index=turn, model=f"{provider}:{model}")
        yield message(UserMessage(f"{turn} {said}"))
        if turn % 50 == 17:
            yield event(events.Retry, attempt=1, delay=0.5, reason="The server is overloaded.")
        asked = (TextPart("Let me look."), ToolCallPart(call, tool, {"path": f"/data/{turn}.csv", "n": turn}))
        yield message(AssistantMessage(asked, "tool_use", usage, 0.001, provider, model))
        yield event(events.UsageDelta, **counted)
        by = "user" if turn % 10 == 9 else "rule"
        if by == "user":
            request = {
                "args": {"path": f"/data/{turn}.csv"},
                "touches": (),
                "reason": "It reads a file.",
                "deadline": at,
            }
            yield event(events.ApprovalRequest, id=call, name=tool, **request)
        # A person has the rule remembered once, which then decides about later calls.
        rule = "tool:read" if by == "rule" or turn == 9 else ""
        yield event(events.ApprovalDecision, id=call, name=tool, allowed=True, by=by, rule=rule)
        yield event(events.ToolStart, id=call, name=tool, args={"path": f"/data/{turn}.csv", "n": turn})
        failed = turn % 20 == 3
        yield event(events.ToolEnd, id=call, name=tool, result=said, error=failed)
        yield message(ToolResultMessage((ToolResultPart(call, tool, said, is_error=failed),)))
        final = AssistantMessage((TextPart(f"{turn} {said}"),), "stop", usage, 0.001, provider, model)
        final = replace(final, ttft_s=0.1 + turn % 7 / 10, latency_s=1.0 + turn % 5)
        yield message(final)
        yield event(events.UsageDelta, **counted)
        yield event(events.TurnEnd, message=final, usage=usage)
        turn += 1
        if turn % _SUMMARY_EVERY == 0 and written < messages - _PER_TURN:
            yield message(SummaryMessage(f"Summary {turn} {said}", kept=range(max(1, row_id - 9), row_id + 1)))


def write_journal(directory: Path, session_id: str, name: str, lines: bytes, created: datetime) -> SessionInfo:
    """Write a journal of these lines."""
    info = new_session_info(directory, session_id, name)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    info.path.write_bytes(codec.encode_header(codec.Header(info.id, info.name, created)) + lines)
    info.path.chmod(0o600)
    return info


def write_history(directory: Path, sessions: int, messages: int, *, first: int = 0) -> None:
    """Write so many sessions of so many messages, each begun three hours after the one before.

    The sessions have the same rows but for their times, names and agents, so that most lines are encoded once only.
    """
    begin = FIRST.timestamp()
    template = b"".join(lines_of(messages, begin=begin, agent_id="agent@@@@@@"))
    hour = f'"ts":"{FIRST:%Y-%m-%dT%H:}'.encode()
    assert template.count(b'"ts":') - 1 <= template.count(hour), "a session is shorter than an hour"
    connection = connect(threads=1)
    connection.execute("set fsync_mode = 'NONE'")
    for number in range(first, first + sessions):
        created = FIRST + timedelta(hours=3 * number)
        lines = template.replace(b"agent@@@@@@", f"agent{number:06d}".encode())
        lines = lines.replace(hour, f'"ts":"{created:%Y-%m-%dT%H:}'.encode())
        session_id = f"{random.Random(number).getrandbits(64):016x}"
        info = write_journal(directory, session_id, f"session-{number}", lines, created)
        copy_rows(connection, info, Position(1, info.path.stat().st_size))
    connection.close()


def write_long(directory: Path, messages: int) -> SessionInfo:
    """Write one session of so many messages."""
    info = new_session_info(directory, "00000000000000aa", "long")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal = JournalFile.create(info.path, codec.Header(info.id, info.name, info.created))
    waiting: list[bytes] = []
    for line in lines_of(messages, begin=FIRST.timestamp()):
        waiting.append(line)
        if len(waiting) == 20_000:
            journal.append(b"".join(waiting), sync=False)
            waiting.clear()
    journal.append(b"".join(waiting), sync=True)
    end = Position(1, journal.size)
    journal.close()
    materialize(info, end=end)
    return info


if __name__ == "__main__":
    import sys

    start = time.perf_counter()
    kind, where, *numbers = sys.argv[1:]
    if kind == "many":
        write_history(Path(where), *map(int, numbers[:2]), first=int(numbers[2]) if len(numbers) > 2 else 0)
    else:
        write_long(Path(where), int(numbers[0]))
    print(json.dumps({"seconds": time.perf_counter() - start}))
