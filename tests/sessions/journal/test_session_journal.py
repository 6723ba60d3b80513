from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.stored import converse

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions import Session, query
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import read_rows


def whole_lines(path: Path) -> list[bytes]:
    return [line for lines, _ in read_rows(path) for line in lines]


async def test_a_closed_journal_is_plain_json_lines_with_ascending_ids(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
    records = [json.loads(line) for line in session.path.read_bytes().splitlines()]
    assert [record["id"] for record in records] == list(range(8))
    assert {record["v"] for record in records} == {1}
    assert [record["kind"] for record in records] == [
        "session",
        "event",
        *["message"] * 2,
        *["event"] * 2,
        *["message"] * 2,
    ]


async def test_the_file_of_an_open_session_ends_in_blank_lines_that_no_reader_sees(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
        content = session.path.read_bytes()
        assert content.endswith(b" \n")
        assert len(whole_lines(session.path)) == 8
        assert len(query(tmp_path, "from messages")) == 4


@pytest.mark.parametrize(
    "torn", [b'{"v":1,"id":99,"ki', b'{"v":1,"id":99\n', b"\x00" * 5000, b"\n\n", b" " * 70_000, b"junk\n" * 3]
)
async def test_a_torn_end_is_dropped_and_its_id_was_never_given(tmp_path: Path, torn: bytes) -> None:
    with Session.create(tmp_path) as session:
        ids = await converse(session)
    with session.path.open("ab") as file:
        file.write(torn)
    assert len(query(tmp_path, "from messages")) == 4
    with Session.open(tmp_path, session.id) as again:
        assert await again.log("a1").append(UserMessage("more"), turn=1, time=0) == ids[-1] + 1
        assert [row.db_id for row in again.messages()] == [*ids, ids[-1] + 1]
    assert json.loads(session.path.read_bytes().splitlines()[-1])["text"] == "more"


async def test_a_very_long_last_line_is_found(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await session.log("a").append(UserMessage("x" * 1_000_000), turn=0, time=0)
    with Session.open(tmp_path, session.id) as again:
        assert again.messages()[0].message == UserMessage("x" * 1_000_000)


async def test_a_damaged_line_is_left_out_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
    session.path.write_bytes(session.path.read_bytes().replace(b'{"v":1,"id":2,', b'{"v":1,"id"#2,'))
    session.info.database.unlink()
    assert query(tmp_path, "select count(*) as n from messages").n[0] == 3
    with Session.open(tmp_path, session.id) as again:
        assert [row.db_id for row in again.messages()] == [3, 6, 7]
    assert "is damaged: 1 line that cannot be read is left out" in caplog.text


def test_a_journal_without_a_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"  \n")
    with pytest.raises(SessionFormatError, match="no line"):
        JournalFile.open(path)


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from planck_nb.agent import events
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session

async def main():
    session = Session.create(Path(sys.argv[1]), name="full")
    log = session.log("a")
    kept = [await log.append(UserMessage("before"), turn=0, time=0)]
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (session.path.stat().st_size + 1000, unlimited[1]))
    try:
        await log.append(UserMessage("x" * 1_000_000), turn=0, time=0)
    except SessionError as error:
        assert "could not be written" in str(error), error
    else:
        raise AssertionError("the limit had no effect")
    assert b"xx" not in session.path.read_bytes(), "half a line was left behind"
    resource.setrlimit(resource.RLIMIT_FSIZE, (session.path.stat().st_size, unlimited[1]))
    log.record(events.Aborted("a", session.id, 0, 0, 0.0))
    try:
        await session.flush()
    except SessionError:
        pass
    else:
        raise AssertionError("the event cannot be on disk")
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    kept.append(await log.append(UserMessage("after"), turn=0, time=0))
    assert [row.db_id for row in session.messages()] == kept
    assert [event.type for event in session.events()] == ["message", "aborted", "message"]
    session.close()

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_a_full_disk_fails_the_message_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(query(tmp_path, "select text from messages order by id").text) == ["before", "after"]
