"""The order in which sessions were used last."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from planck_nb.ai import UserMessage
from planck_nb.sessions import Session, SessionInfo, housekeeping, last_used_first, list_sessions
from planck_nb.sessions.journal.codec import decode_header, encode_header, encode_message_line

NOW = 1_790_000_000.0
DAY = 86_400.0


def write(directory: Path, session_id: str, *times: float, modified: float | None = None, text: str = "x") -> Path:
    """A session with a row at each time, whose file was modified at the last one."""
    Session.start(session_id, name="s", directory=directory).close()
    (path,) = directory.glob(f"{session_id}_s.journal.jsonl")
    header = decode_header(path.read_bytes().split(b"\n")[0] + b"\n")
    lines = [encode_header(replace(header, created=datetime.fromtimestamp(NOW - 100 * DAY, UTC)))]
    for row_id, time in enumerate(times, start=1):
        lines.append(encode_message_line(row_id, "a" * 16, UserMessage(text), turn=0, time=time))
    path.write_bytes(b"".join(lines))
    when = times[-1] if modified is None else modified
    os.utime(path, (when, when))
    return path


def order(directory: Path) -> str:
    return "".join(session.id[0] for session in last_used_first(list_sessions(directory)))


A, B, C, D = ("a" * 16, "b" * 16, "c" * 16, "d" * 16)


def test_the_newest_row_counts(tmp_path: Path) -> None:
    write(tmp_path, A, NOW - 3 * DAY, NOW)
    write(tmp_path, B, NOW - 2 * DAY)
    write(tmp_path, C, NOW - DAY, text="long " * 200_000)
    assert order(tmp_path) == "acb"


def test_a_copied_or_touched_file_is_not_used(tmp_path: Path) -> None:
    write(tmp_path, A, NOW)
    write(tmp_path, B, NOW - DAY, modified=NOW + 5)
    write(tmp_path, C, NOW - 2 * DAY, modified=NOW + 6)
    assert order(tmp_path) == "abc"
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, copy_function=shutil.copy)
    assert order(copy) == "abc"


def test_a_restore_that_sets_all_times_to_the_same_keeps_the_order(tmp_path: Path) -> None:
    for session_id, time in ((A, NOW - DAY), (B, NOW), (C, NOW - 2 * DAY)):
        write(tmp_path, session_id, time, modified=0)
    assert order(tmp_path) == "bac"


def test_a_time_of_the_future_is_not_believed(tmp_path: Path) -> None:
    write(tmp_path, A, NOW + 10_000 * DAY, modified=NOW - DAY)
    write(tmp_path, B, NOW)
    assert order(tmp_path) == "ba"


@pytest.mark.parametrize("damage", [b'{"v":1,"id":9,"ki', b"\x00" * 5_000, b"nonsense\n", b'{"v":1,"id":9,"kind":1}\n'])
def test_a_damaged_end_is_skipped(tmp_path: Path, damage: bytes) -> None:
    path = write(tmp_path, A, NOW - 3 * DAY)
    with path.open("ab") as file:
        file.write(damage)
    os.utime(path, (NOW + 1, NOW + 1))
    write(tmp_path, B, NOW)
    write(tmp_path, C, NOW - 5 * DAY)
    assert order(tmp_path) == "bac"


@pytest.mark.slow
def test_few_of_many_journals_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(tmp_path, f"{number:016x}", NOW - number * DAY)
    sessions = list_sessions(tmp_path)
    read: list[str] = []
    real = housekeeping._newest_row

    def counting(session: SessionInfo) -> float:
        read.append(session.id)
        return real(session)

    monkeypatch.setattr(housekeeping, "_newest_row", counting)
    first, second = islice(last_used_first(sessions), 2)
    assert (first.id, second.id) == (f"{0:016x}", f"{1:016x}")
    assert len(read) == 2
