from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.stored import START, converse, with_pages

from planck_nb.agent import events
from planck_nb.ai.messages import (
    AssistantMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.base.errors import SessionError, SessionFormatError, SessionNotFoundError
from planck_nb.sessions import (
    Session,
    compact_store,
    find_by_id,
    find_by_name,
    find_session,
    list_sessions,
    query,
    search,
)

NAMES = ["..", "*", "?", "🙂", "", " ", "---!", "\0"]
CLEANED = {
    "My Cool  Session!!": "my-cool-session",
    "a/b": "a-b",
    "../../etc/passwd": "etc-passwd",
    "[a]": "a",
    "x" * 300: "x" * 80,
    "a\0b": "a-b",
    "C:\\x": "c-x",
    "Größe 5": "grosse-5",
    "Valid_Name.v1": "Valid_Name.v1",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_not_a_file_name_is_refused_and_finds_nothing(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "sessions"
    with Session.create(directory, name="mine"):
        pass
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(SessionError, match="name a session"):
        Session.create(directory, name=name)
    with pytest.raises(SessionError, match="session's id"):
        Session.start(name, directory=directory)
    for find in (find_session, find_by_id, find_by_name, Session.open, Session.read):
        with pytest.raises(SessionNotFoundError):
            find(directory, name)
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.parametrize("name", CLEANED)
def test_a_name_is_turned_into_one_that_can_be_part_of_a_file_name(tmp_path: Path, name: str) -> None:
    with Session.create(tmp_path, name=name) as session:
        assert session.name == CLEANED[name]
    assert find_session(tmp_path, CLEANED[name]).id == session.id
    if {"/", "\\"} & {*name}:  # a path is no name: who deletes "../ada" does not mean ada
        with pytest.raises(SessionNotFoundError):
            find_session(tmp_path, name)
    else:
        assert find_session(tmp_path, name).id == session.id
    assert [path.parent for path in tmp_path.rglob("*.jsonl")] == [tmp_path]


async def test_a_copy_of_a_session_is_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Session.create(tmp_path, name="mine") as session:
        ids = await converse(session)
    for path in (session.path, session.info.database):
        shutil.copy(path, path.with_name(path.name.replace("_mine", "_a-copy")))
    for _ in range(2):
        assert list(query(tmp_path, "select id from messages order by id").id) == ids
    assert [info.name for info in list_sessions(tmp_path)] == ["mine"]
    assert find_by_id(tmp_path, session.id).name == "mine"
    warned = [record.getMessage() for record in caplog.records if "is a copy of" in record.getMessage()]
    assert len(warned) == 1


NONSENSE: dict[str, list[object]] = {
    "id": [10**30, -1, 1.5, "7", True, None, 2**62 + 1],
    "ts": ["x", 1e308, None, 5, "2026-99-99T00:00:00Z", "10000-01-01T00:00:00Z"],
    "turn": [-5, 10**12, "x", 1e308],
    "input_tokens": [10**30, 9 * 10**18, 1e308, "x", -(10**18)],
    "cost_usd": [1e308, float("nan"), "x"],
    "before_id": [10**30, -1, "x", None, 1e308],
    "data": [None, 5, []],
    "agent_id": [5],
    "text": ["nul\0x", "a\ud800b"],
    "time": [1e308],
}
KINDS = {"before_id": ["rewind"], "data": ["message", "metadata", "event"]}
VIEWED = " union all by name ".join(
    f"from {view}" for view in ("sessions", "turns", "usage", "agents", "branches", "chapters")
)


@pytest.mark.slow
@pytest.mark.parametrize("key", NONSENSE)
async def test_lines_with_nonsense_in_them_break_nothing(tmp_path: Path, key: str) -> None:
    """One session for each value: creating views takes longer than all else."""
    ids: set[int | None] = {None}
    sessions: dict[str, object] = {}
    for kind in KINDS.get(key, ["message"]):
        for value in NONSENSE[key]:
            with Session.create(tmp_path) as session:
                ids |= {await session.append("a", UserMessage(f"message {number}")) for number in range(3)}
            lines = session.path.read_bytes().splitlines(keepends=True)
            line = {**json.loads(lines[2]), "id": 99, "role": "assistant" if key == "input_tokens" else "user"}
            bad = json.dumps(line | {"kind": kind, key: value}).encode() + b"\n"
            session.path.write_bytes(b"".join([*lines, bad, bad]))
            session.info.database.unlink()
            sessions[session.id] = kind, value
    last = max(number for number in ids if number)
    for are_copied in (False, True):  # into the DuckDB files
        found = query(tmp_path, "select session_id, id from messages")
        query(tmp_path, VIEWED)
        for session_id, hostile in sessions.items():
            assert ids <= {*found.id[found.session_id == session_id], None}, hostile
            if are_copied:
                continue
            with Session.read(tmp_path, session_id) as reader:
                assert ids <= {*(row.db_id for row in reader.messages()), None}, hostile
                assert len(reader.events()) >= len(reader.messages()), hostile
                assert reader.branches() == [], hostile
                assert reader.get_metadata() == {}, hostile
                assert "message 2" in reader.export("markdown"), hostile
            with Session.open(tmp_path, session_id) as opened:
                assert await opened.append("a", UserMessage("after")) > last, hostile
                opened.materialize()


@pytest.mark.parametrize("message_id", [None, "2", 2.0])
async def test_a_rewind_to_an_invalid_id_stops_nobody_and_stores_nothing(tmp_path: Path, message_id: object) -> None:
    with Session.create(tmp_path, name="mine") as session:
        ids = await converse(session)
        before = session.path.read_bytes()
        for rewind in (session.truncate_after, session.log("a1").truncate_from):
            with pytest.raises(SessionError, match="is not the id of a message; give its number"):
                await rewind(message_id)  # type: ignore[arg-type]
        assert session.path.read_bytes() == before
        assert len(session.messages()) == len(ids)


@pytest.mark.slow
async def test_a_clock_that_is_set_back_changes_no_order(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="first") as session:
        log = session.log("a")
        log.record(events.TurnStart("a", session.id, 0, 0, START, index=0, model="demo:small"))
        ids = [await log.append(UserMessage("question"), turn=0, time=START)]
        call = AssistantMessage((ToolCallPart("1", "f", {}),), "tool_use")
        ids.append(await log.append(call, turn=0, time=START - 1000))
        log.record(events.ToolStart("a", session.id, 0, 0, START - 1000, id="1", name="f", args={}))
        log.record(events.ToolEnd("a", session.id, 0, 0, START - 2000, id="1", name="f", result="", error=False))
        result = ToolResultMessage((ToolResultPart("1", "f", "x"),))
        ids.append(await log.append(result, turn=0, time=START - 2000))
        ids.append(await log.append(AssistantMessage((TextPart("answer"),), "stop"), turn=0, time=-5.0))
        log.record(events.Aborted("a", session.id, 0, 0, START - 3000))
        await session.flush()
        assert ids == sorted(ids)
        assert [row.db_id for row in session.messages()] == ids
        assert [row.db_id for row in session.messages_from_latest_checkpoint().rows] == ids
        for _ in range(2):
            assert list(query(tmp_path, "select id from messages order by id").id) == ids
            turn = query(tmp_path, "from turns").loc[0]
            assert (turn.outcome, turn.duration_s, turn.prompt) == ("aborted", 0, "question")
            assert query(tmp_path, "from tool_calls").duration_s.tolist() == [0]
            session.materialize()


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e18, -1e18])
async def test_an_invalid_time_is_refused_and_the_session_goes_on(tmp_path: Path, time: float) -> None:
    with Session.create(tmp_path) as session:
        with pytest.raises(SessionError, match="cannot be stored"):
            await session.log("a").append(UserMessage("never"), turn=0, time=time)
        await converse(session)
        assert len(session.messages()) == 4


@pytest.mark.slow
async def test_a_message_of_20_mb_is_kept_found_and_shown(tmp_path: Path) -> None:
    text = "line of words\n" * (20_000_000 // 14) + "needle"
    with Session.create(tmp_path) as session:
        first = await session.append("a", UserMessage("before"))
        large = await session.append("a", UserMessage(text))
        last = await session.append("a", UserMessage("after"))
        for _ in range(2):
            assert query(tmp_path, "select id, length(text) as n from messages order by id").n.tolist() == [
                6,
                len(text),
                5,
            ]
            found = search(tmp_path, "needle")
            assert found.id.tolist() == [large]
            assert len(found.excerpt[0]) < 1000
            assert [row_id for row_id, _ in session.log("a").messages()] == [first, large, last]
            session.materialize()
    with Session.open(tmp_path, session.id) as again:
        assert again.messages()[1].message == UserMessage(text)


async def test_numbers_of_any_size_are_kept(tmp_path: Path) -> None:
    args = {"big": 10**60, "small": 5e-324, "deep": deep(150)}
    with Session.create(tmp_path) as session:
        await session.append("a", AssistantMessage((ToolCallPart("1", "f", args),), "tool_use"))
        for _ in range(2):
            [row] = session.messages()
            [part] = row.message.content
            assert isinstance(part, ToolCallPart)
            assert part.args == args
            assert len(query(tmp_path, "from tool_calls")) == 1
            assert session.messages_from_latest_checkpoint().rows == [row]
            session.materialize()
            with_pages(session)


def deep(levels: int) -> object:
    return [deep(levels - 1)] if levels else 0


READ_ONLY = """
import os, sys
from pathlib import Path
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session, delete_session, find_session, list_sessions, query, search
from planck_nb.sessions.database import paging
directory = Path(sys.argv[1])
for user in (0, 65534):
    if os.geteuid() == 0:
        os.setgroups([]); os.setegid(user); os.seteuid(user)
    [info] = list_sessions(directory)
    print(len(query(directory, "from messages")), len(search(directory, "question")))
    with Session.read(directory, "mine") as session:
        print(len(session.messages()), len(session.events()), len(session.export("jsonl").splitlines()))
for write in (Session.create, lambda d: Session.open(d, "mine"), lambda d: delete_session(info, confirm="mine")):
    try:
        write(directory)
        print("written")
    except SessionError as error:
        print(type(error).__name__, len(str(error).splitlines()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
@pytest.mark.parametrize("materialized", [True, False])
def test_a_directory_that_is_only_to_be_read_can_be_read(materialized: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may be entered by nobody else
        directory = Path(folder)
        with Session.create(directory, name="mine") as session:
            asyncio.run(converse(session))
        if not materialized:
            session.info.database.unlink()
        session.info.lock.unlink(missing_ok=True)
        for path in directory.iterdir():
            path.chmod(0o444)
        directory.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, folder], capture_output=True, text=True, check=False, timeout=60
        )
        directory.chmod(0o755)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [*["4 1", "4 7 8"] * 2, *["SessionError 1"] * 3]


def test_a_journal_of_a_newer_version_is_refused_by_every_way_in(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="future") as session:
        pass
    session.path.write_bytes(session.path.read_bytes().replace(b'{"v":1', b'{"v":2'))
    for way in (Session.open, Session.read, find_session):
        with pytest.raises(SessionFormatError, match="newer"):
            way(tmp_path, "future")
    with pytest.raises(SessionFormatError, match="newer"):
        find_by_id(tmp_path, session.id)
    assert list_sessions(tmp_path) == []


@pytest.mark.parametrize(
    ("found", "odd"),
    [
        ('"name":"odd"', '"name":5'),
        ('"segment":1', '"segment":"1"'),
        ('"segment":1', '"segment":0'),
        ('"segment":1', '"segment":1,"parent":["x"]'),
        ('"segment":1', '"segment":1,"parent":"x","copied":"y"'),
        ('Z","data":', '","data":'),
    ],
)
async def test_a_journal_that_begins_oddly_is_left_out_and_refused(tmp_path: Path, found: str, odd: str) -> None:
    with Session.create(tmp_path, name="good") as good, Session.create(tmp_path, name="odd") as session:
        await converse(good)
    text = session.path.read_text(encoding="utf-8")
    assert found in text
    session.path.write_text(text.replace(found, odd), encoding="utf-8", newline="\n")
    assert [info.name for info in list_sessions(tmp_path)] == ["good"]
    assert query(tmp_path, "select count(*) from messages join sessions using (session_id)").iat[0, 0] == 4
    compact_store(tmp_path)
    with pytest.raises(SessionFormatError, match="does not begin like"):
        Session.open(tmp_path, session.id)


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe and a link")
def test_what_is_not_a_file_is_not_a_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"{'0' * 16}_pipe.journal.jsonl")
    (tmp_path / f"{'1' * 16}_folder.journal.jsonl").mkdir()
    (tmp_path / f"{'2' * 16}_link.journal.jsonl").symlink_to(tmp_path / "nowhere")
    assert list_sessions(tmp_path) == []
    for name in ("pipe", "folder", "link", "0" * 16):
        with pytest.raises(SessionNotFoundError):
            Session.open(tmp_path, name)


async def test_a_session_that_a_newer_version_went_on_with_breaks_nothing_of_others(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="good") as good, Session.create(tmp_path, name="future") as future:
        await converse(good)
        await converse(future)
    with future.path.open("ab") as file:
        file.write(b'{"v":2,"id":1000,"kind":"thought"}\n')
    before = future.path.read_bytes()
    found = query(tmp_path, "select session_name, count(*) as n from messages group by all order by all")
    assert ("good", 4) in list(zip(found.session_name, found.n, strict=True))
    assert [hit.session_name for hit in search(tmp_path, "answer").itertuples()].count("good") == 1
    compact_store(tmp_path)
    assert future.path.read_bytes() == before
    with pytest.raises(SessionFormatError, match="newer"):
        Session.open(tmp_path, "future")
