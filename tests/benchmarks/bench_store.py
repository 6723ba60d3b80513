"""A session of a million messages: opening it, its latest chapter, appending to it, searching it.

    python tests/benchmarks/bench_store.py [messages]

Prints what the targets are beside. The append is timed in turn with one to an empty session, the search in turn with a
bare ILIKE scan of the same table by DuckDB. Takes some minutes and 2 KB of disk a message.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from planck_nb.ai.messages import AssistantMessage, Message, SummaryMessage, TextPart, Usage, UserMessage
from planck_nb.sessions import Session, search
from planck_nb.sessions.directory import new_session_info
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.journal_file import JournalFile

CHAPTER = 60
EVERY = 2000
ROUNDS = 7
BLOCK = 20_000
WORDS = "the quick agent reads a file and writes what it found into another table of numbers while you wait".split()
MESSAGE = UserMessage("x" * 800)


def conversation(count: int) -> Iterator[Message]:
    """So many messages, a summary now and then, the last one `CHAPTER` messages before the end."""
    choose = random.Random(7).choices
    for number in range(count):
        text = f"{number} {' '.join(choose(WORDS, k=60))}"
        if number % EVERY == EVERY - CHAPTER:
            kept = range(max(1, number - 9), number + 1)
            yield SummaryMessage(text, kept=kept)
        elif number % 2:
            yield AssistantMessage((TextPart(text),), "stop", Usage(1000, 200), 0.001, "demo", "demo")
        else:
            yield UserMessage(text)


def build(directory: Path, count: int) -> str:
    """Write a session of so many messages and return its id."""
    info = new_session_info(directory, "00000000000000aa", "long")
    journal = JournalFile.create(info.path, codec.Header(info.id, info.name, info.created))
    lines: list[bytes] = []
    for number, message in enumerate(conversation(count), 1):
        lines.append(codec.encode_message_line(number, "agent", message, turn=number // 2, time=1.75e9 + number))
        if len(lines) == BLOCK or number == count:
            journal.append(b"".join(lines), sync=False)
            lines.clear()
    journal.append(b"", sync=True)
    journal.close()
    with Session.open(directory, info.id) as session:
        session.materialize()
    return info.id


def took(action: Callable[[], object]) -> float:
    """The seconds it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def milliseconds(seconds: list[float]) -> str:
    """The median and the best, which is what it takes while nothing else runs on the machine."""
    return f"{statistics.median(seconds) * 1e3:6.1f} ms, best {min(seconds) * 1e3:.1f}"


def scan(database: Path) -> int:
    """How many messages hold the words, by a bare scan of the file."""
    with duckdb.connect() as connection:
        connection.execute(f"attach '{database}' as file (read_only)")
        found = connection.execute(
            "select id, text from file.messages where text ilike '%agent%' and text ilike '%987654%'"
        ).fetchall()
        return len(found)


async def append_in_turn(long: Session, empty: Session) -> tuple[float, float]:
    """The median seconds of an append to each."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(1000):
        for session, seconds in zip((long, empty), times, strict=True):
            start = time.perf_counter()
            await session.append("agent", MESSAGE)
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        directory = Path(folder)
        built = took(lambda: build(directory, count))
        print(f"{count} messages, built and materialized in {built:.0f} s")
        opened, firsts, chapters, conversations = [], [], [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            session = Session.open(directory, "long")
            opened.append(time.perf_counter() - start)
            start = time.perf_counter()
            page = session.messages_from_latest_checkpoint()
            firsts.append(time.perf_counter() - start)
            assert page.checkpoint_id is not None
            chapters += [took(session.messages_from_latest_checkpoint) for _ in range(5)]
            conversations += [took(session.log("agent").messages) for _ in range(5)]
            session.close()
        print(f"open            {milliseconds(opened)} (at most 200)")
        print(f"first chapter   {milliseconds(firsts)} (at most 10)")
        print(f"latest chapter  {milliseconds(chapters)} (at most 10)")
        print(f"an agent starts {milliseconds(conversations)}")
        database = session.info.database
        searches, scans = [], []
        for _ in range(ROUNDS):
            scans.append(took(lambda: scan(database)))
            searches.append(took(lambda: search(directory, "agent 987654")))
        ratio = statistics.median(searches) / statistics.median(scans)
        print(f"search          {statistics.median(searches):6.2f} s, {ratio:.2f}x a bare scan (at most 1.5)")
        with Session.open(directory, "long") as session, Session.create(directory / "other") as empty:
            long, short = asyncio.run(append_in_turn(session, empty))
        print(f"append          {long * 1e6:6.0f} µs, {long / short:.2f}x that to an empty session")


if __name__ == "__main__":
    main()
