"""A session written to in every way at once, to be killed at any moment, and what must be true of it then."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

import duckdb
from support.stored import with_updates

from planck_nb.agent import events
from planck_nb.ai.messages import SummaryMessage, UserMessage
from planck_nb.base.errors import SessionError, SessionNotFoundError
from planck_nb.sessions import Session, find_session, query
from planck_nb.sessions.journal.records import read_records

Node: TypeAlias = "tuple[int, Node] | None"
"""A conversation: its last message's id and the conversation before."""


def storm(directory: Path, name: str, seed: int, most: int = 0) -> None:
    """Write without end, and print each row's id and text once it is acknowledged. For child processes.

    With `most` no file may have more bytes than that.
    """
    if most:
        _limit_files(most)
    asyncio.run(_storm(directory, name, random.Random(seed)))


def _limit_files(most: int) -> None:
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


async def _storm(directory: Path, name: str, chance: random.Random) -> None:
    try:
        session = Session.open(directory, find_session(directory, name).id)
    except SessionNotFoundError:
        session = Session.create(directory, name=name)
    with_updates(session, segment_bytes=60_000, pause=0.02, rows=20)
    print("ready", flush=True)
    weather = _Storm(session, chance)
    actions = (weather.say, weather.summarise, weather.keep, weather.rewind, weather.go_back, weather.materialize)
    while True:
        [action] = chance.choices(actions, (80, 6, 5, 4, 2, 3))
        try:
            await action()
        except SessionError:
            print("full", flush=True)


class _Storm:
    def __init__(self, session: Session, chance: random.Random) -> None:
        self._session = session
        self._chance = chance
        self._ids = [row.db_id for row in session.messages()] or [1]
        self._materializing: set[asyncio.Task[None]] = set()

    async def say(self) -> None:
        """Three agents at once, after an event."""
        text = self._text()
        log = self._session.log("a")
        log.record(events.Queued("a", self._session.id, 0, 0, 0.0, prompt_id="p", text=text))
        said = [self._session.append(agent, UserMessage(text)) for agent in "abc"]
        for row_id in await asyncio.gather(*said):
            self._ids.append(row_id)
            print(row_id, text, flush=True)

    async def summarise(self) -> None:
        text = self._text()
        self._ids.append(await self._session.append("a", SummaryMessage(text, kept=self._ids[-3:])))
        print(self._ids[-1], text, flush=True)

    async def keep(self) -> None:
        decision = events.ApprovalDecision("a", self._session.id, 0, 0, 0.0, "1", "bash", allowed=True, by="user")
        await self._session.log("a").keep(decision)

    async def rewind(self) -> None:
        await self._session.truncate_after(self._chance.choice(self._ids[-20:]))
        print("rewind", flush=True)

    async def go_back(self) -> None:
        if branches := self._session.branches():
            await self._session.return_to(self._chance.choice(branches).id)
            print("rewind", flush=True)

    async def materialize(self) -> None:
        """Materialize on a thread while the session is written."""
        task = asyncio.create_task(asyncio.to_thread(_materialize, self._session))
        self._materializing.add(task)
        task.add_done_callback(self._materializing.discard)

    def _text(self) -> str:
        words = "wörter " * self._chance.choice((1, 5, 40, 40, 2000))
        return f"{words}{self._chance.random()}"


def _materialize(session: Session) -> None:
    with suppress(SessionError):
        session.materialize()


def check(directory: Path, name: str, printed: Iterable[str], *, gaps: bool = False) -> None:
    """Assert that all is there whose acknowledgement was `printed`, and that all ways to read agree.

    `gaps` tells that ids may be missing, of rows that the disk did not take.
    """
    info = find_session(directory, name)
    records = [record for record in read_records(info.path) if record["kind"] != "session"]
    ids = [record["id"] for record in records]
    assert ids == sorted(set(ids)), "no id comes twice"
    assert gaps or ids == list(range(1, len(records) + 1)), "no id is missing"
    texts = {record["id"]: record["text"] for record in records if record["kind"] == "message"}
    rewinds = 0
    for line in printed:
        row_id, _, text = line.partition(" ")
        assert not text or texts[int(row_id)] == text, "what was acknowledged is there as it was"
        rewinds += line == "rewind"
    assert sum(record["kind"] == "rewind" for record in records) >= rewinds
    expected = visible(records)
    with Session.read(directory, name) as reader:
        assert [row.db_id for row in reader.messages()] == expected
    assert list(query(directory, _IDS, session=info.id).id) == expected
    with Session.open(directory, info.id) as session:
        assert [row.db_id for row in session.messages()] == expected
        page = session.messages_from_latest_checkpoint()
        assert [row.db_id for row in page.rows] == [
            row_id for row_id in expected if row_id >= (page.checkpoint_id or 0)
        ]
        session.materialize()
    # Reading all of it finds blocks that a flipped byte has spoilt; such a file is written again.
    query(directory, "select * from events where session_id = getvariable('session')", session=info.id)
    whole = query(directory, _IDS.replace("select id", "select id, text"), session=info.id)
    assert list(whole.id) == expected
    with closing(duckdb.connect(info.database, read_only=True)) as connection:
        stored = connection.execute("select id, text from messages order by id").fetchall()
        assert stored == list(texts.items()), "the database has the rows of the journal"
        for table, kind in (("events", "event"), ("rewinds", "rewind")):
            ids = [row[0] for row in connection.execute(f"select id from {table} order by id").fetchall()]
            assert ids == [record["id"] for record in records if record["kind"] == kind]


_IDS = "select id from messages where session_id = getvariable('session') order by id"


def visible(records: Iterable[dict[str, object]]) -> list[int]:
    """The ids of the messages that count: each rewind gives what there was before the id it names was written."""
    before: list[Node] = [None]
    now: Node = None
    for record in records:
        row_id = record["id"]
        assert isinstance(row_id, int)
        before += [now] * (row_id + 1 - len(before))
        if record["kind"] == "rewind":
            target = record["before_id"]
            assert isinstance(target, int)
            now = before[target] if target <= row_id else now
        elif record["kind"] == "message":
            now = (row_id, now)
    found = []
    while now is not None:
        found.append(now[0])
        now = now[1]
    return found[::-1]


if __name__ == "__main__":
    storm(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
