from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stored import converse

from planck_nb.agent.events import decode_event
from planck_nb.ai.messages import SummaryMessage, UserMessage, decode_message
from planck_nb.base.errors import SessionError, SessionLockedError, SessionNotFoundError
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions import Session, SessionReader, delete_session, export_session

HOLD = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from planck_nb.ai.messages import SummaryMessage, UserMessage
from planck_nb.sessions import Session
from support.stored import converse

async def run():
    with Session.create(Path(sys.argv[1]), name="held", owner="other.ipynb") as session:
        await converse(session)
        await session.save_metadata({"team": "x"})
        await session.append("a1", SummaryMessage("So far."))
        await session.append("a1", UserMessage("wrong"))
        await session.truncate_after(session.messages()[-1].db_id)
        print("ready", flush=True)
        for line in sys.stdin:
            print(await session.append("a1", UserMessage(line.strip())), flush=True)

asyncio.run(run())
"""
TESTS = Path(__file__).parents[1]

READS: list[Callable[[SessionReader], object]] = [
    SessionReader.messages,
    SessionReader.messages_from_latest_checkpoint,
    lambda reader: reader.messages_before_checkpoint(1),
    SessionReader.events,
    SessionReader.branches,
    SessionReader.get_metadata,
    lambda reader: reader.export("jsonl"),
]


@pytest.fixture
def say(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Makes another process, which has the session "held" open, append a message."""
    command = [sys.executable, "-c", HOLD, str(tmp_path), str(TESTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        out, into = holder.stdout, holder.stdin
        assert out.readline() == "ready\n"

        def append(text: str) -> int:
            into.write(text + "\n")
            into.flush()
            return int(out.readline())

        yield append
        into.close()
        assert holder.wait(30) == 0


@pytest.mark.process
def test_a_session_that_another_process_holds_can_be_read(tmp_path: Path, say: Callable[[str], int]) -> None:
    with pytest.raises(SessionLockedError, match=r"other\.ipynb"):
        Session.open(tmp_path, "held")
    with Session.read(tmp_path, "held") as session:
        assert (session.name, session.directory) == ("held", tmp_path)
        roles = ["user", "assistant", "tool_result", "assistant", "summary"]
        assert [row.message.type for row in session.messages()] == roles
        assert session.get_metadata() == {"team": "x"}
        assert len(session.branches()) == 1
        assert [event.type for event in session.events()].count("message") == 5
        assert [row.message for row in session.messages_from_latest_checkpoint().rows] == [SummaryMessage("So far.")]
        for number in range(3):
            row_id = say(f"more {number}")
            assert session.messages()[-1].db_id == row_id, "what is acknowledged is seen at once"
            page = session.messages_from_latest_checkpoint("a1")
            assert page.rows[-1].message == UserMessage(f"more {number}")
            assert page.checkpoint_id is not None
            assert session.messages_before_checkpoint(page.checkpoint_id).checkpoint_id is None
        assert "more 2" in session.export("markdown")
        assert repr(session) == f"<SessionReader held {session.id}>"


async def test_what_is_read_is_what_its_writer_sees(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session, Session.read(tmp_path, session.id) as reader:
        for turn in range(3):
            await converse(session, turn=turn)
            await session.flush()
            if turn == 1:
                session.materialize()
            for read in (
                SessionReader.messages,
                SessionReader.events,
                SessionReader.branches,
                SessionReader.messages_from_latest_checkpoint,
            ):
                assert read(reader) == read(session)
        session._writer.start_segment()
        await converse(session, turn=3)
        assert reader.messages() == session.messages()
        assert reader.export("jsonl") == export_session(session.info, "jsonl")
    assert not hasattr(reader, "append")


def test_a_missing_session_is_reported(tmp_path: Path) -> None:
    Session.create(tmp_path, name="gone").close()
    reader = Session.read(tmp_path, "gone")
    delete_session(reader.info, confirm="gone")
    for read in READS:
        with pytest.raises(SessionError, match="was it deleted"):
            read(reader)
    with pytest.raises(SessionNotFoundError):
        Session.read(tmp_path, "gone")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not delete an open file")
def test_reading_an_open_session_writes_deleted_files_again(tmp_path: Path) -> None:
    with Session.create(tmp_path / "store") as session:
        expected = [read(session) for read in READS]
        shutil.rmtree(tmp_path / "store")
        assert [read(session) for read in READS] == expected
        assert session.path.exists()
        session.fork().close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not delete an open file")
def test_reading_an_open_session_whose_files_cannot_be_written_again_is_an_error(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    session = Session.create(directory, name="mine")
    expected = [read(session) for read in READS]
    shutil.rmtree(directory)
    directory.write_text("a file in place of the folder")
    for read in READS:
        with pytest.raises(SessionError, match="cannot be read"):
            read(session)
    with pytest.raises(SessionError):
        session.fork()
    directory.unlink()
    assert [read(session) for read in READS] == expected
    assert session.path.exists()
    session.close()


async def test_each_row_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[object] = []

    def counting(function: Callable[[JsonObject], Any]) -> Callable[[JsonObject], Any]:
        def decode(data: JsonObject) -> Any:
            decoded.append(data)
            return function(data)

        return decode

    with Session.create(tmp_path, name="mine") as session:
        await converse(session)
    reader = Session.read(tmp_path, "mine")
    monkeypatch.setattr("planck_nb.sessions.journal.codec.decode_message", counting(decode_message))
    monkeypatch.setattr("planck_nb.sessions.journal.codec.decode_event", counting(decode_event))
    events = reader.events()
    assert len(decoded) == len(events) > 2
    decoded.clear()
    reader.export("markdown")
    assert len(decoded) == sum(event.type == "message" for event in events)
