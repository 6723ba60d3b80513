"""Journals in which each part of each kind of row is missing or has a value of another type."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from support.stored import converse, with_pages

from planck_nb.agent.events import ApprovalDecision, Delegated, Queued, Responded, UsageDelta, WorkerExit
from planck_nb.ai.messages import SummaryMessage, Usage, UserMessage
from planck_nb.sessions import VIEWS, ExportFormat, Session, export_session, import_session, list_sessions, query
from planck_nb.sessions.database.materialize import materialize
from planck_nb.sessions.journal.codec import decode_header, encode_header
from planck_nb.sessions.journal.segments import journal_end

GONE = object()
VALUES: dict[str, Any] = {
    "gone": GONE,
    "null": None,
    "a word": "nonsense",
    "a list": [[1]],
    "an object": {"x": {"y": []}},
    "a huge number": 10**30,
    "a negative number": -5.5,
    "a boolean": True,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The lines of a session with rows of every kind, the last of them a good message."""
    with Session.create(tmp_path_factory.mktemp("sound"), name="sound") as session:
        asyncio.run(_write(session))
    return [json.loads(line) for line in session.path.read_text().splitlines()]


async def _write(session: Session) -> None:
    log = session.log("a1")
    await converse(session, turn=0)
    log.record(Queued("a1", session.id, 0, 1, 1.0, prompt_id="p", text="waits"))
    log.record(UsageDelta("a1", session.id, 0, 1, 1.0, delta=Usage(1, 1), total=Usage(2, 2), cost=0.5, total_cost=1.0))
    log.record(ApprovalDecision("a1", session.id, 0, 2, 1.0, "call_1", "weather", True, "user"))
    log.record(Delegated("a1", session.id, 0, 3, 1.0, "task", "delegate", "a2", "Bob", "build it", "call_1"))
    await session.append("a2", UserMessage("build it", sender_id="a1", sender_name="Ada", purpose="task"))
    log.record(Responded("a1", session.id, 0, 4, 1.0, "task", "delegate", "a2", "Bob", "built", task_turn=0))
    log.record(WorkerExit("a1", session.id, 0, 5, 1.0, "a2", "Bob", "destroyed", normal=True))
    await session.save_metadata({"team": "x"})
    rewound = await session.append("a1", UserMessage("to rewind"))
    await session.truncate_after(rewound)
    await log.append(SummaryMessage("So far."), turn=1, time=2.0)
    await session.append("a1", UserMessage("last"))


def broken(lines: list[dict[str, Any]], value: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """For each part of each row but the last: where it is, and the lines with the value in its place."""
    seen = set()
    for index, line in enumerate(lines[1:-1], 1):
        kind = (line["kind"], line.get("type"), line.get("role"))
        if kind in seen:
            continue
        seen.add(kind)
        paths: list[tuple[Any, ...]] = [(key,) for key in line]
        paths += [("data", key) for key in line.get("data", ())]
        paths += [("data", "content", 0)] if line.get("data", {}).get("content") else []
        for path in paths:
            copy = json.loads(json.dumps(line))
            inner: Any = copy
            for key in path[:-1]:
                inner = inner[key]
            if value is GONE:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield f"{kind} {path}", [*lines[:index], copy, *lines[index + 1 :]]


def write(directory: Path, number: int, lines: list[dict[str, Any]]) -> Path:
    header = decode_header(json.dumps(lines[0]).encode() + b"\n")
    session_id, name = f"{number:016x}", f"case-{number}"
    first = encode_header(type(header)(session_id, name, header.created)).decode()
    path = directory / f"{session_id}_{name}.journal.jsonl"
    path.write_text(first + "".join(json.dumps(line) + "\n" for line in lines[1:]))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(0, len(VALUES), 2))
def test_every_reader_reads_the_rest_and_says_what_is_damaged(
    offset: int,
    sound: list[dict[str, Any]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = [
        (f"{what} {where}", lines)
        for place, what in list(enumerate(VALUES))[offset : offset + 2]
        for where, lines in list(broken(sound, VALUES[what]))[place::24]
    ]
    cases = dict(enumerate(chosen))
    for number, (_, lines) in cases.items():
        write(tmp_path, number, lines)
    for info in list_sessions(tmp_path):
        where, lines = cases[int(info.id, 16)]
        with Session.read(tmp_path, info.id) as reader:
            rows = reader.messages()
            assert rows[-1].message == UserMessage("last"), where
            visible = sum(line["kind"] == "message" for line in sound) - 1
            if len(rows) < visible and not where.endswith("('kind',)"):  # which may be of a later version
                assert info.damage, where
            assert [event for event in reader.events("a1") if event.type == "message"][-1].message == rows[-1].message
            for event in reader.events():
                assert isinstance(event.turn, int)
                assert isinstance(event.time, int | float)
            page = reader.messages_from_latest_checkpoint("a1")
            assert page.rows[-1].message == UserMessage("last"), where
            assert reader._conversation("a1")[-1].message == UserMessage("last"), where
            assert all(isinstance(branch.last_text, str) for branch in reader.branches())
            reader.get_metadata()
            form = get_args(ExportFormat)[int(info.id, 16) // 4 % 4]
            assert "last" in export_session(info, form), where
        (tmp_path / "export.jsonl").write_text(export_session(info, "jsonl"))
        (tmp_path / "imported").mkdir(exist_ok=True)
        imported = import_session(tmp_path / "imported", tmp_path / "export.jsonl")
        assert not imported.damage, where
    caplog.clear()
    damages = sorted(info.damage for info in list_sessions(tmp_path) if info.damage)
    said: list[str] = []
    while len(said) < len(damages):  # a query checks what it can in a short time, later ones the rest
        query(tmp_path, " union all ".join(f"select count(*) from {view}" for view in VIEWS))
        said = [record.getMessage() for record in caplog.records if "is damaged" in record.getMessage()]
    assert sorted(said) == damages
    assert len(query(tmp_path, "select 1 from messages where text = 'last'")) == len(cases)
    for info in list_sessions(tmp_path)[::15]:
        materialize(info, end=journal_end(info.path))
        with with_pages(Session.read(tmp_path, info.id)) as reader:  # as in a long conversation
            assert reader._conversation("a1")[-1].message == UserMessage("last")
            assert [row.db_id for row in reader.messages_from_latest_checkpoint("a1").rows]


def test_a_row_whose_message_cannot_be_decoded_is_left_out_and_counted(
    sound: list[dict[str, Any]], tmp_path: Path
) -> None:
    lines = json.loads(json.dumps(sound))
    for line in lines:
        if line.get("role") == "tool_result":
            line["data"]["content"] = 5
    write(tmp_path, 1, lines)
    (info,) = list_sessions(tmp_path)
    assert info.damage == (
        "The journal of case-1 is damaged: 1 row whose content cannot be decoded is left out; "
        "restore the file from a backup if you can."
    )
    with Session.open(tmp_path, info.id) as session:
        assert "tool_result" not in [row.message.type for row in session.messages()]
        with session.fork() as fork:
            assert [row.db_id for row in fork.messages()] == [row.db_id for row in session.messages()]


def test_a_message_without_its_time_has_the_time_of_its_row(sound: list[dict[str, Any]], tmp_path: Path) -> None:
    lines = json.loads(json.dumps(sound))
    del lines[-1]["time"]
    lines[-1]["turn"] = {}
    write(tmp_path, 1, lines)
    with Session.read(tmp_path, "case-1") as reader:
        event = reader.events()[-1]
        assert (event.turn, event.time) == (0, datetime.fromisoformat(lines[-1]["ts"]).timestamp())
