from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.stored import converse, reply, with_pages

from planck_nb.ai.messages import Message, SummaryMessage, UserMessage, encode_message
from planck_nb.base.errors import SessionError, SessionNotFoundError
from planck_nb.sessions import Session, find_by_id, find_by_name
from planck_nb.sessions.database import paging
from planck_nb.sessions.directory import new_session_info
from planck_nb.sessions.journal.codec import Header, encode_message_line
from planck_nb.sessions.journal.journal_file import JournalFile

MESSAGES = 1_000_000 if os.environ.get("PLANCK_NB_SOAK") else 10_000

Settle = Callable[[Session], object]


@pytest.fixture(params=["journal", "materialized", "rotated", "not in the last lines"])
def settle(request: pytest.FixtureRequest) -> Settle:
    """Moves what was written so far to where it is to be read from."""
    actions: dict[str, Settle] = {
        "journal": lambda _: None,
        "materialized": lambda session: with_pages(session).materialize(),
        "rotated": rotate,
        "not in the last lines": with_pages,
    }
    return actions[request.param]


def rotate(session: Session) -> None:
    session._writer.start_segment()


def test_start_makes_a_session_or_goes_on_with_it(tmp_path: Path) -> None:
    session = Session.start("00ff" * 4, name="mine", directory=tmp_path)
    assert session.path == tmp_path / f"{'00ff' * 4}_mine.journal.jsonl"
    assert asyncio.run(session.append("a", UserMessage("hi"))) == 1
    session.stop()
    with Session.start("00ff" * 4, name="other", directory=tmp_path) as again:
        assert (again.name, len(again.messages())) == ("mine", 1)
    with pytest.raises(SessionError, match="session's id"):
        Session.start("../x", directory=tmp_path)


async def test_an_append_returns_the_id_of_the_row(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ids = [await session.append("a", UserMessage(text)) for text in "abc"]
        assert ids == [row.db_id for row in session.messages()]
        assert ids == [message_id for message_id, _ in session.log("a").messages()]


async def test_agents_share_a_session_and_are_told_apart(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        for agent in "abab":
            await session.append(agent, UserMessage(agent))
        assert [row.agent_id for row in session.messages()] == list("abab")
        assert [row.db_id for row in session.messages("b")] == [2, 4]
        assert session.messages("c") == []


async def test_a_row_says_who_what_and_when(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        before = datetime.now(UTC)
        row_id = await session.append("a", reply("x"))
        settle(session)
        [row] = session.messages_from_latest_checkpoint().rows
        assert session.messages() == [row]
        assert (row.db_id, row.agent_id, row.message) == (row_id, "a", reply("x"))
        assert before <= row.inserted_at <= datetime.now(UTC)


async def test_a_long_conversation_is_read_a_chapter_at_a_time(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        texts = ["1", "2", "S3", "4", "S5", "6"]
        for text in texts:
            await session.append("a", SummaryMessage(text) if text.startswith("S") else UserMessage(text))
            if text == "4":
                settle(session)
        rows, checkpoint = session.messages_from_latest_checkpoint()
        assert ([row.db_id for row in rows], checkpoint) == ([5, 6], 5)
        rows, checkpoint = session.messages_before_checkpoint(5)
        assert ([row.db_id for row in rows], checkpoint) == ([3, 4], 3)
        rows, checkpoint = session.messages_before_checkpoint(3)
        assert ([row.db_id for row in rows], checkpoint) == ([1, 2], None)
        assert len(session.messages()) == 6
        settle(session)
        assert session.messages_from_latest_checkpoint().rows == session.messages()[4:]
    assert session.messages_from_latest_checkpoint().checkpoint_id == 5, "a closed session can still be read"


async def test_an_agent_starts_from_what_its_model_is_still_sent(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        assert log.messages() == []
        ids = [await session.append(agent, UserMessage(agent)) for agent in "aabaaa"]
        assert [row_id for row_id, _ in log.messages()] == [ids[0], ids[1], *ids[3:]]
        old = await session.append("a", SummaryMessage("old", kept=[ids[0]]))
        other = await session.append("b", SummaryMessage("not mine"))
        settle(session)
        later = await session.append("a", UserMessage("later"))
        assert [row_id for row_id, _ in log.messages()] == [ids[0], old, later]
        new = await session.append("a", SummaryMessage("new", kept=[later, ids[4], ids[1], ids[2], 10_000]))
        last = await session.append("a", UserMessage("last"))
        settle(session)
        assert [row_id for row_id, _ in log.messages()] == [ids[1], ids[4], later, new, last]
        assert [row_id for row_id, _ in session.log("b").messages()] == [other]
        await session.truncate_after(new)
        assert [row_id for row_id, _ in log.messages()] == [ids[0], old, later]
        await session.truncate_after(ids[4])
        assert [row_id for row_id, _ in log.messages()] == [ids[0], ids[1], ids[3]]


async def test_without_a_summary_there_is_one_chapter(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        assert session.messages_from_latest_checkpoint() == ([], None)
        ids = await converse(session)
        settle(session)
        rows, checkpoint = session.messages_from_latest_checkpoint()
        assert ([row.db_id for row in rows], checkpoint) == (ids, None)


async def test_the_chapters_of_an_agent_begin_with_its_own_summaries(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        said: list[tuple[str, Message]] = [
            ("a", UserMessage("1")),
            ("a", SummaryMessage("2")),
            ("b", UserMessage("3")),
            ("b", SummaryMessage("4")),
            ("a", UserMessage("5")),
        ]
        for agent, message in said:
            await session.append(agent, message)
        settle(session)
        found = {agent: session.messages_from_latest_checkpoint(agent) for agent in "abc"}
        assert {agent: [row.db_id for row in page.rows] for agent, page in found.items()} == {
            "a": [2, 5],
            "b": [4],
            "c": [],
        }
        assert [page.checkpoint_id for page in found.values()] == [2, 4, None]
        assert [row.db_id for row in session.messages_before_checkpoint(4, "b").rows] == [3]


async def test_a_rewind_takes_back_the_message_and_what_follows(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        await session.append("a", UserMessage("1"))
        await session.append("a", SummaryMessage("2"))
        await session.append("b", UserMessage("3"))
        settle(session)
        await session.truncate_after(2)
        settle(session)
        await session.append("a", UserMessage("5"))
        page = session.messages_from_latest_checkpoint()
        assert ([row.db_id for row in page.rows], page.checkpoint_id) == ([1, 5], None)
        assert page.rows == session.messages()
        assert session.messages("b") == []


async def test_metadata_is_merged_and_lasts(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        assert session.get_metadata() == {}
        await session.save_metadata({"team": "x", "cwd": "/tmp", "ids": {"Ada": "a1"}})
        settle(session)
        row_id = await session.append("a", UserMessage("x"))
        await session.save_metadata({"team": None})
        await session.truncate_after(row_id)
        with pytest.raises(SessionError, match="stored as JSON"):
            await session.save_metadata({"x": object()})
        assert session.get_metadata() == {"team": None, "cwd": "/tmp", "ids": {"Ada": "a1"}}
    with Session.open(tmp_path, session.id) as again:
        assert again.get_metadata() == {"team": None, "cwd": "/tmp", "ids": {"Ada": "a1"}}


def test_sessions_are_found_by_id_and_by_name(tmp_path: Path) -> None:
    Session.create(tmp_path, name="same").close()
    with Session.create(tmp_path, name="same") as session:
        assert find_by_id(tmp_path, session.id) == session.info
        assert find_by_name(tmp_path, "same") == session.info
    for unknown in ("*", "", "same", session.id[:8]):
        with pytest.raises(SessionNotFoundError):
            find_by_id(tmp_path, unknown)
    for unknown in ("*", "sam", session.id):
        with pytest.raises(SessionNotFoundError):
            find_by_name(tmp_path, unknown)


@pytest.mark.parametrize("damage", [b"", b"junk" * 5000, None])
async def test_chapters_are_read_from_the_journal_where_the_file_cannot_be_used(
    tmp_path: Path, damage: bytes | None
) -> None:
    with with_pages(Session.create(tmp_path)) as session:
        await session.append("a", SummaryMessage("1"))
        session.materialize()
        if damage is None:
            session.info.database.unlink()
        else:
            session.info.database.write_bytes(damage)
        await session.append("a", UserMessage("2"))
        assert [row.db_id for row in session.messages_from_latest_checkpoint().rows] == [1, 2]


async def test_a_summary_is_found_however_far_back(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        for agent, text in zip("abababbbbbb", "S.S.........", strict=False):
            await session.append(agent, SummaryMessage(agent) if text == "S" else UserMessage(agent))
            if session._last_id == 3:
                session._last_id += 100_000  # as if there were so many rows
        settle(session)
        assert session.messages_from_latest_checkpoint().checkpoint_id == 3
        assert session.messages_before_checkpoint(3).checkpoint_id == 1
        assert session.messages_before_checkpoint(1).checkpoint_id is None
        assert session.messages_from_latest_checkpoint("a").checkpoint_id == 3
        assert session.messages_from_latest_checkpoint("b").checkpoint_id is None


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_chapter_of_a_long_session_is_there_as_soon_as_one_of_a_short_session(tmp_path: Path) -> None:
    opened, read = time_of_a_chapter(tmp_path, "long", MESSAGES)
    opened_short, read_short = time_of_a_chapter(tmp_path, "short", MESSAGES // 100)
    print(f"{MESSAGES} messages: open {opened * 1e3:.1f} ms, a chapter {read * 1e3:.1f} ms")
    print(f"{MESSAGES // 100} messages: open {opened_short * 1e3:.1f} ms, a chapter {read_short * 1e3:.1f} ms")
    assert opened < 10 * opened_short
    assert read < 10 * read_short


def time_of_a_chapter(folder: Path, name: str, count: int) -> tuple[float, float]:
    """Seconds to open a session of that many messages, and to read its latest chapter of 100."""
    info = new_session_info(folder, hashlib.sha256(name.encode()).hexdigest()[:16], name)
    journal = JournalFile.create(info.path, Header(info.id, info.name, info.created))
    chapter = 100
    template = encode_message_line(0, "a", UserMessage("x" * 500), turn=0, time=1.75e9)
    summary = encode_message_line(0, "a", SummaryMessage("so far"), turn=0, time=1.75e9)
    for first in range(1, count, chapter):
        lines = [summary, *[template] * (chapter - 1)]
        numbered = (line.replace(b'"id":0', b'"id":%d' % (first + n), 1) for n, line in enumerate(lines))
        journal.append(b"".join(numbered), sync=False)
    journal.append(b"", sync=True)
    journal.close()
    with Session.open(folder, name) as session:
        session.materialize()
    opened, read = [], []
    for _ in range(5):
        start = time.perf_counter()
        session = Session.open(folder, name)
        opened.append(time.perf_counter() - start)
        with session:
            for _ in range(5):
                start = time.perf_counter()
                page = session.messages_from_latest_checkpoint()
                read.append(time.perf_counter() - start)
                assert len(page.rows) == chapter
                assert encode_message(page.rows[0].message) == encode_message(SummaryMessage("so far"))
    return min(opened), min(read)  # what it costs while nothing else runs on the machine


@pytest.mark.parametrize("few", [0, 100])
async def test_conversations_that_are_read_ahead_are_those_of_each_agent(
    tmp_path: Path, settle: Settle, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    names = [f"agent{number}" for number in range(6)]
    with Session.create(tmp_path) as session:
        for turn in range(3):
            for name in names:
                await session.append(name, UserMessage(f"{name} {turn}"))
        kept = [row.db_id for row in session.messages() if row.agent_id == "agent1"][1:]
        await session.append("agent1", SummaryMessage("so far", kept=kept))
        await session.append("agent1", UserMessage("on"))
        await session.append("agent2", SummaryMessage("hidden", kept=()))
        taken_back = await session.append("agent3", UserMessage("hidden"))
        await session.truncate_after(taken_back - 1)
        await session.append("agent4", UserMessage("late"))
        settle(session)
        session._pager._few_agents = few
        expected = {name: session.log(name).messages() for name in names}
        assert [len(expected[name]) for name in names] == [3, 4, 3, 3, 4, 3]
        session.read_ahead(names)
        with monkeypatch.context() as patch:
            patch.setattr(paging.Pager, "_read", None)
            assert {name: session.log(name).messages() for name in names} == expected
        assert {name: session.log(name).messages() for name in names} == expected


async def test_what_was_read_ahead_is_left_out_after_a_change(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        first = await session.append("a", UserMessage("a"))
        await session.append("b", UserMessage("b"))
        session.read_ahead(["a", "b"])
        await session.append("a", UserMessage("more"))
        assert [len(session.log(agent).messages()) for agent in "ab"] == [2, 1]
        session.read_ahead(["a", "b"])
        await session.truncate_after(first)
        assert [len(session.log(agent).messages()) for agent in "ab"] == [0, 0]


async def test_a_message_that_comes_while_conversations_are_read_ahead_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session.create(tmp_path) as session:
        await session.append("a", UserMessage("a"))
        read = paging.Pager.conversations
        loop = asyncio.get_running_loop()

        def slow(pager: paging.Pager, *args: object, **named: object) -> object:
            found = read(pager, *args, **named)  # type: ignore[arg-type]
            asyncio.run_coroutine_threadsafe(session.append("a", UserMessage("late")), loop).result()
            return found

        monkeypatch.setattr(paging.Pager, "conversations", slow)
        await asyncio.to_thread(session.read_ahead, ["a", "b"])
        assert len(session.log("a").messages()) == 2
