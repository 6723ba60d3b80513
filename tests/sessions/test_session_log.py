from __future__ import annotations

import asyncio
import gc
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

import pytest
from support.stored import START, converse, reply

from planck_nb import Agent
from planck_nb.agent import events
from planck_nb.agent.context.compactor import Compact, ContextUsage
from planck_nb.agent.message_log import MemoryLog, MessageLog, SessionStore
from planck_nb.agent.state import AgentState, fold
from planck_nb.ai.messages import Message, Usage, UserMessage
from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError, SessionNotFoundError
from planck_nb.sessions import Session, find_session, list_sessions, query
from planck_nb.testing import scripted_model


async def test_messages_are_durable_when_acknowledged_and_come_back_in_order(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ids = await converse(session)
        assert ids == sorted(set(ids))
        assert str(ids[-1]).encode() in session.path.read_bytes()
        rows = session.messages()
        assert [row.db_id for row in rows] == ids
        assert [row.message.type for row in rows] == ["user", "assistant", "tool_result", "assistant"]
        assert rows[0].inserted_at.timestamp() == START
        assert session.log("a1").messages() == [(row.db_id, row.message) for row in rows]


async def test_what_is_recorded_keeps_its_place_between_messages(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
        stored = session.events()
        assert [event.type for event in stored] == [
            "agent_started", "message", "message", "tool_start", "tool_end", "message", "message",
        ]  # fmt: skip
        assert [event.seq for event in stored] == list(range(7))
        assert stored == session.events("a1")
    with Session.open(tmp_path, session.name) as again:
        assert again.events() == stored
    assert session.events() == stored, "a closed session can still be read"


async def test_deltas_and_message_events_are_not_stored_twice(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        message_id = await log.append(UserMessage("hi"), turn=0, time=1.5)
        event = events.MessageAppended("a", session.id, 0, 0, 1.5, id=message_id, message=UserMessage("hi"))
        log.record(event)
        log.record(events.TextDelta("a", session.id, 0, 1, 1.5, text="x"))
        assert session.events() == [event]


@pytest.mark.slow
async def test_many_agents_share_one_sequence(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        logs = [session.log(f"agent {number}") for number in range(20)]
        ids = await asyncio.gather(*(log.append(reply("x"), turn=0, time=0) for log in logs for _ in range(25)))
        assert sorted(ids) == list(range(1, 501))
        for log in logs:
            own = [message_id for message_id, _ in log.messages()]
            assert len(own) == 25
            assert own == sorted(own)
        counted = {event.agent_id: event.seq for event in session.events()}
        assert set(counted.values()) == {24}


async def test_taking_back_hides_everything_after_for_all_agents_and_ids_go_on(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        first = await converse(session)
        other = await session.log("b").append(UserMessage("other"), turn=0, time=0)
        await session.log("a1").truncate_from(first[2])
        assert [row.db_id for row in session.messages()] == first[:2]
        assert [event.type for event in session.events()] == [
            "agent_started",
            "message",
            "message",
            "tool_start",
            "tool_end",
        ]
        new = await session.log("a1").append(UserMessage("again"), turn=1, time=0)
        assert new > other
    with Session.open(tmp_path, session.id) as again:
        assert [row.db_id for row in again.messages()] == [*first[:2], new]


async def test_cancelling_an_append_does_not_break_the_log(tmp_path: Path) -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    with Session.create(tmp_path) as session:
        log = session.log("a")
        waiting = asyncio.ensure_future(log.append(UserMessage("one"), turn=0, time=0))
        asyncio.get_running_loop().call_soon(waiting.cancel)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await log.append(UserMessage("two"), turn=0, time=0) == 2
        assert [row.db_id for row in session.messages()] == [1, 2]
    assert problems == []


def test_a_session_serves_several_event_loops_and_needs_none_to_be_made(tmp_path: Path) -> None:
    session = Session.create(tmp_path)
    for number in range(3):
        assert asyncio.run(session.log("a").append(UserMessage("x"), turn=number, time=0)) == number + 1
    session.close()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        asyncio.run(session.log("a").append(UserMessage("x"), turn=0, time=0))
    session.log("a").record(events.AgentStopped("a", session.id, 0, 0, 0.0))
    with pytest.raises(SessionError, match="closed"):
        session.materialize()


async def test_flush_makes_events_durable(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.log("a").record(events.Aborted("a", session.id, 0, 0, 0.0))
        await session.flush()
        assert b'"aborted"' in session.path.read_bytes()


def test_a_message_that_is_not_json_fails_and_the_next_one_works(tmp_path: Path) -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"x": deep}
    with Session.create(tmp_path) as session:
        session.log("a").record(events.ToolStart("a", session.id, 0, 0, 0.0, id="1", name="x", args=deep))
        assert asyncio.run(session.log("a").append(UserMessage("x"), turn=0, time=0)) == 1


def log_of_a_session(directory: Path) -> MessageLog:
    session: SessionStore = Session.create(directory)
    return session.log("a")


@pytest.mark.parametrize("make", [log_of_a_session, lambda _: MemoryLog()])
async def test_every_log_keeps_the_protocol(tmp_path: Path, make: Callable[[Path], MessageLog]) -> None:
    log = make(tmp_path)
    ids = [await log.append(UserMessage(text), turn=0, time=0) for text in "abc"]
    await log.keep(events.Aborted("a", None, 0, 0, 0.0))
    log.follow(Follower())
    assert log.messages() == [(row_id, UserMessage(text)) for row_id, text in zip(ids, "abc", strict=True)]
    await log.truncate_from(ids[1])
    later = await log.append(UserMessage("d"), turn=1, time=0)
    assert later > ids[2]
    kept = ids if isinstance(log, MemoryLog) else ids[:1]
    assert [message_id for message_id, _ in log.messages()] == [*kept, later]


class Follower:
    """Writes down what it is told, and what was on disk when it was told."""

    def __init__(self, session: Session | None = None, log: MessageLog | None = None) -> None:
        self.told: list[tuple[str | int | None, int]] = []
        self._session = session
        self._log = log

    async def rewinding(self) -> None:
        await asyncio.sleep(0)
        if self._log is not None:
            self._log.record(events.Aborted("a", None, 0, 0, 0.0))
        self._tell("rewinding")

    def rewound(self, message_id: int | None) -> None:
        self._tell(message_id)

    def _tell(self, what: str | int | None) -> None:
        assert self._session is not None
        self.told.append((what, len(self._session.messages())))


async def test_followers_are_told_before_and_after_a_rewind(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        one, two = session.log("a"), session.log("b")
        first, second = Follower(session, one), Follower(session, two)
        one.follow(first)
        two.follow(second)
        ids = [await one.append(UserMessage(text), turn=0, time=0) for text in "abc"]
        await two.truncate_from(ids[2])
        await session.truncate_after(ids[1])
        [branch, *_] = session.branches()
        await session.return_to(branch.id)
        assert first.told == [
            ("rewinding", 3), (ids[2], 2), ("rewinding", 2), (ids[1], 1), ("rewinding", 1), (branch.id, 3),
        ]  # fmt: skip
        assert second.told == first.told
        assert "aborted" in {event.type for event in session.events()}
        with pytest.raises(SessionError, match="no branch"):
            await session.return_to(99)
        assert len(first.told) == 6
        del first, second
        gc.collect()
        await session.truncate_after(ids[1])
        assert not session._followers


async def test_followers_go_on_between_two_rewinds_at_once(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        follower = Follower(session)
        log.follow(follower)
        ids = [await log.append(UserMessage(text), turn=0, time=0) for text in "abc"]
        await asyncio.gather(log.truncate_from(ids[2]), session.truncate_after(ids[1]))
        assert follower.told == [("rewinding", 3), (ids[2], 2), ("rewinding", 2), (ids[1], 1)]


async def test_what_stops_for_a_rewind_is_taken_back_too(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        follower = Follower(session, log)
        log.follow(follower)
        message_id = await log.append(UserMessage("x"), turn=0, time=0)
        await log.truncate_from(message_id)
        assert session.events() == []
        after = events.Rewound("a", session.id, 0, 0, 0.0, message_id=message_id, usage=Usage(), cost=None)
        log.record(after)
        assert session.events() == [after]


async def test_an_event_that_is_kept_is_on_disk(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        decision = events.ApprovalDecision("a", session.id, 0, 0, 1.0, id="1", name="bash", allowed=True, by="user")
        await log.keep(decision)
        assert b'"approval_decision"' in session.path.read_bytes()
        assert session.events() == [decision]
        await log.keep(events.TextDelta("a", session.id, 0, 1, 1.5, text="x"))
        assert session.events() == [decision]
    with pytest.raises(SessionError, match="closed"):
        await log.keep(decision)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "sessions"
    with Session.create(directory, name="mine") as session:
        session.materialize()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        files = sorted(path.name.removeprefix(session.id) for path in directory.iterdir())
        assert files == [".lock", "_mine.duckdb", "_mine.journal.jsonl"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Session.create(tmp_path).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["", "..", "*", "🙂", "\n", "\\", "数"])
def test_a_name_with_nothing_for_a_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SessionError, match="cannot name a session"):
        Session.create(tmp_path, name=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        (".x", "x"),
        ("a*", "a"),
        ("a b", "a-b"),
        ("x" * 81, "x" * 80),
        ("é", "e"),
        ("a/b", "a-b"),
        ("a\nb", "a-b"),
        ("a\\b", "a-b"),
    ],
)
def test_a_name_that_cannot_be_a_file_name_is_cleaned(tmp_path: Path, name: str, becomes: str) -> None:
    with Session.create(tmp_path, name=name) as session:
        assert session.name == becomes
        assert session.path.name == f"{session.id}_{becomes}.journal.jsonl"
        assert session.path.parent == tmp_path


@pytest.mark.parametrize("name", ["a", "2024-05_x.y", "-", "X" * 80, "con_1"])
def test_a_good_name_is_kept(tmp_path: Path, name: str) -> None:
    with Session.create(tmp_path, name=name) as session:
        assert (session.name, find_session(tmp_path, name).id) == (name, session.id)
        assert list(query(tmp_path, "select session_name from sessions").session_name) == [name]


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SessionError, match="cannot be created"):
        Session.create(tmp_path / "file" / "sessions")
    assert list_sessions(tmp_path / "file" / "sessions") == []


def test_the_newest_of_two_with_one_name_is_opened(tmp_path: Path) -> None:
    old = Session.create(tmp_path, name="same")
    new = Session.create(tmp_path, name="same")
    old.close()
    new.close()
    assert [session.id for session in list_sessions(tmp_path)] == [old.id, new.id]
    assert find_session(tmp_path, "same").id == new.id
    assert find_session(tmp_path, old.id).id == old.id


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    Session.create(tmp_path, name="quick-otter").close()
    with pytest.raises(SessionNotFoundError, match=r"called 'quick-oter'. Did you mean quick-otter\?"):
        Session.open(tmp_path, "quick-oter")
    with pytest.raises(SessionNotFoundError):
        Session.open(tmp_path, "*")


def test_a_session_of_a_newer_version_is_refused_and_breaks_no_query(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="future") as session:
        pass
    session.path.write_bytes(session.path.read_bytes().replace(b'{"v":1', b'{"v":7'))
    with pytest.raises(SessionFormatError, match="newer"):
        Session.open(tmp_path, "future")
    assert list_sessions(tmp_path) == []
    assert len(query(tmp_path, "from sessions")) == 0


@pytest.mark.process
def test_the_owner_of_a_locked_session_is_named(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="mine") as session:
        with pytest.raises(SessionLockedError, match=r"'mine' is open in this process already"):
            Session.open(tmp_path, "mine")
        script = (
            "import sys; from pathlib import Path; from planck_nb.sessions import Session\n"
            "try: Session.open(Path(sys.argv[1]), 'mine')\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("SessionLockedError Session 'mine' is open in process ")
        assert session.messages() == []
    Session.open(tmp_path, "mine").close()


@pytest.mark.process
def test_the_end_of_the_interpreter_closes_what_is_open_without_a_word(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from planck_nb.ai.messages import UserMessage
from planck_nb.agent import events
from planck_nb.sessions import Session
session = Session.create(Path(sys.argv[1]))
asyncio.run(session.log("a").append(UserMessage("x"), turn=0, time=0))
session.log("a").record(events.Aborted("a", session.id, 0, 0, 0.0))
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    [session] = list_sessions(tmp_path)
    assert session.database.exists()
    assert b'"aborted"' in session.path.read_bytes()
    assert not session.path.read_bytes().endswith(b" \n")


async def test_a_session_shows_what_it_is_and_holds(tmp_path: Path) -> None:
    directory = tmp_path / "<b>&"
    with Session.create(directory, name="sales") as session:
        await converse(session)
        await session.append("a2", UserMessage("hello"))
        assert repr(session) == f"<Session sales {session.id}>"
        html = session._repr_html_()
        assert html == session._repr_html_()
        assert "<b>" not in html
        assert "&lt;b&gt;&amp;" in html
        for key, value in {"Name": "sales", "Id": session.id, "Agents": "2", "Messages": "5"}.items():
            assert f"<tr><th>{key}</th><td>{value}</td></tr>" in html
    assert repr(session) == f"<Session sales {session.id} closed>"
    assert session._repr_html_() == html
    assert Session.read(directory, "sales")._repr_html_() == html


async def test_a_session_that_cannot_be_read_or_counted_soon_shows_its_name_only(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="large") as session:
        await session.append("a", UserMessage("x" * 2_000_000))
        assert "Messages" not in session._repr_html_()
    session.path.unlink()
    assert "<td>large</td>" in session._repr_html_()
    assert "Messages" not in session._repr_html_()


def summarize(messages: Sequence[Message], _usage: ContextUsage) -> Compact:
    return Compact("The second summary.", tuple(messages[-2:]))


def agent_in(session: Session) -> Agent:
    return Agent(id="ann", model=scripted_model(["Yes."] * 2), session=session, on_compact=summarize)


async def test_a_resumed_agent_that_goes_back_before_a_summary_has_the_summary_before_it(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        async with agent_in(session) as agent:
            await agent.prompt("First.")
            await agent.checkpoint("The first summary.")
            await agent.prompt("Second.")
            assert await agent.compact()
            second = agent.state.messages[-1].id
    with Session.open(tmp_path, session.id) as session:
        async with agent_in(session) as agent:
            assert agent.state.messages[-1].id == second
            await agent.rewind_to_message(second)
            texts = [getattr(entry.message, "text", "") for entry in agent.state.messages]
            assert texts == ["The first summary.", "Second.", "Yes."]
            stored = reduce(fold, session.events("ann"), AgentState())
            assert agent.state.messages == stored.messages[-3:]
