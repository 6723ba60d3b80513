"""Rows that give power are signed, and only those that the user has signed count."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.stored import START

from planck_nb.agent import events as ev
from planck_nb.agent.identity import Grants
from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import Session, find_session, import_session
from planck_nb.sessions.journal.records import read_records
from planck_nb.sessions.journal.signing import Signer, gives_power
from planck_nb.sessions.journal.stored_values import object_in, texts_in
from planck_nb.sessions.members import SessionMembers, read_members

SIGNER = Signer(b"k" * 32)
SETTINGS: dict[str, Any] = {"rules": [["allow", "bash"]]}


def write(session: Session, row: type[ev.EventBase], *payload: object, agent: str = "a1") -> None:
    session.log(agent).record(row(agent, session.id, -1, 0, START, *payload))  # type: ignore[arg-type]


async def fill(session: Session) -> None:
    """Rows 1 to 5: an agent, a message, a remembered rule, a change, settings."""
    grants = Grants(("bash",), (), ("demo:small",))
    write(
        session, ev.AgentStarted, "ann", "", "demo:small", "Be \ud800 brief.", ("add",), {}, "", None, None, "", grants
    )
    await session.append("a1", UserMessage("hello"))
    write(session, ev.ApprovalDecision, "c1", "bash", True, "user", None, "bash:ls", "", "all")
    write(session, ev.AgentChanged, "demo:large", "Ü", ("add", "read"), {"temperature": 0.1, "extra": {"seed": 1e-7}})
    session.record_signed_metadata("choices", SETTINGS)


def forget_databases(folder: Path) -> None:
    """Have the edited journals read again."""
    for database in folder.glob("*.duckdb"):
        database.unlink()


async def read(session: Session) -> SessionMembers:
    await session.flush()
    return await read_members(session)


def power(found: SessionMembers, session: Session) -> tuple[bool, ...]:
    """What is authentic: each member, each rule, the settings."""
    return (
        *(member.authentic for member in found.members),
        *(rule.authentic for rule in found.rules),
        bool(session.get_signed_metadata("choices")),
    )


@pytest.mark.parametrize("materialized", [False, True])
async def test_the_users_own_rows_are_authentic(tmp_path: Path, *, materialized: bool) -> None:
    with Session.create(tmp_path, name="own", signer=SIGNER) as session:
        await fill(session)
        if materialized:
            session.materialize()
        assert power(await read(session), session) == (True, True, True)
        assert session.get_signed_metadata("choices") == SETTINGS
    with Session.open(tmp_path, "own", signer=SIGNER) as session:
        assert power(await read(session), session) == (True, True, True)
    with Session.open(tmp_path, "own", signer=Signer(b"another key")) as session:
        assert power(await read(session), session) == (False, False, False)
    with Session.open(tmp_path, "own") as session:
        assert power(await read(session), session) == (False, False, False)


async def test_rows_without_a_signature_are_not_authentic(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="plain") as session:
        await fill(session)
    with Session.open(tmp_path, "plain", signer=SIGNER) as session:
        assert power(await read(session), session) == (False, False, False)
        write(session, ev.AgentStarted, "ann", "", "demo:small", "", ("add",))
        found = await read(session)
        assert found.members[0].authentic, "an agent that was started again here has what it was given here"


async def test_a_fork_of_ones_own_is_ones_own_and_an_import_is_not(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="own", signer=SIGNER) as session:
        await fill(session)
        write(session, ev.AgentStarted, "bob", "", "demo:small", "", (), agent="b1")
        await session.flush()
        with session.fork(name="copy") as copy:
            assert power(await read(copy), copy) == (True, True, True, True)
        exported = tmp_path / "own.jsonl"
        exported.write_text(session.export("jsonl"))
    imported = import_session(tmp_path / "there", exported)
    with Session.open(tmp_path / "there", imported.id, signer=SIGNER) as session:
        assert power(await read(session), session) == (False, False, False, False)


async def test_a_fork_of_another_hand_stays_so(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="theirs", signer=Signer(b"another key")) as session:
        await fill(session)
    with Session.open(tmp_path, "theirs", signer=SIGNER) as session, session.fork(name="copy") as copy:
        assert power(await read(copy), copy) == (False, False, False)


Edit = Callable[[list[dict[str, Any]]], None]
"""Changes the lines of a journal; the first is the header, so that a line's index is its id."""


def _set(row: int, **values: object) -> Edit:
    def edit(lines: list[dict[str, Any]]) -> None:
        lines[row]["data"].update(values)

    return edit


def _strip(*rows: int) -> Edit:
    def edit(lines: list[dict[str, Any]]) -> None:
        for row in rows:
            lines[row]["data"].pop("signature", None)

    return edit


def _move_to_the_end(lines: list[dict[str, Any]]) -> None:
    lines.append({**lines[1], "id": 6})


def _give_to_another_agent(lines: list[dict[str, Any]]) -> None:
    for row in (1, 4):
        lines[row]["agent_id"] = "b1"


def _pass_off_as_another_type(lines: list[dict[str, Any]]) -> None:
    lines.append({**lines[4], "id": 6, "type": "agent_started"})


def _append_settings(lines: list[dict[str, Any]]) -> None:
    lines.append({**lines[5], "id": 6})
    lines[5]["data"]["choices"]["rules"] = []


def _swap_ids(lines: list[dict[str, Any]]) -> None:
    lines[1]["data"], lines[4]["data"] = lines[4]["data"], lines[1]["data"]


EDITS: dict[str, tuple[Edit, tuple[bool, ...]]] = {
    "tools": (_set(4, tools=["add", "bash"]), (False, True, True)),
    "grants": (_set(1, grants={"tools": ["bash"], "skills": [], "models": ["openai:x"]}), (False, True, True)),
    "address": (_set(4, model_source={"base_url": "http://evil.test"}), (False, True, True)),
    "model": (_set(4, model="openai:x"), (False, True, True)),
    "options": (_set(4, options={"extra": {"mcp_servers": []}}), (False, True, True)),
    "role": (_set(1, role="worker"), (False, True, True)),
    "rule": (_set(3, rule="bash"), (True, False, True)),
    "scope": (_set(3, scope="role"), (True, False, True)),
    "no signatures": (_strip(1, 3, 4), (False, False, True)),
    "an empty signature": (_set(1, signature=""), (False, True, True)),
    "a signature that is a number": (_set(1, signature=7), (False, True, True)),
    "a signature of other letters": (_set(1, signature="ä" * 64), (False, True, True)),
    "an old row again": (_move_to_the_end, (False, True, True)),
    "another agent": (_give_to_another_agent, (False, True, True)),
    "another type": (_pass_off_as_another_type, (False, True, True)),
    "old settings again": (_append_settings, (True, True, False)),
    "swapped": (_swap_ids, (False, True, True)),
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_edited_row_is_not_authentic(tmp_path: Path, name: str) -> None:
    with Session.create(tmp_path, name="own", signer=SIGNER) as session:
        await fill(session)
        journal = session.path
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    edit, expected = EDITS[name]
    edit(lines)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    forget_databases(tmp_path)
    with Session.open(tmp_path, "own", signer=SIGNER) as session:
        assert power(await read(session), session) == expected


async def test_signed_rows_of_another_session_are_not_authentic(tmp_path: Path) -> None:
    for name in ("rich", "poor"):
        with Session.create(tmp_path, name=name, signer=SIGNER) as session:
            await fill(session)
    rich, poor = (find_session(tmp_path, name).path for name in ("rich", "poor"))
    header = poor.read_text().splitlines(keepends=True)[0]
    rows = rich.read_text().splitlines(keepends=True)[1:]
    poor.write_text("".join([header, *rows]))
    forget_databases(tmp_path)
    with Session.open(tmp_path, "poor", signer=SIGNER) as session:
        assert power(await read(session), session) == (False, False, False)


def test_events_that_give_no_power_are_written_as_before(tmp_path: Path) -> None:
    with Session.create(tmp_path, signer=SIGNER) as session:
        write(session, ev.TurnStart, 0, "demo:small")
        write(session, ev.ApprovalDecision, "c1", "bash", True, "rule", None, "bash:ls", "")
        journal = session.path
    assert "signature" not in journal.read_text()


async def _take_away(session: Session) -> None:
    """Rows 6 to 9: power that was taken away, given again, and taken away again."""
    log = session.log("a1")
    write(session, ev.AgentChanged, "demo:small", "", ("read",), {})
    session.record_signed_metadata("choices", {"rules": [["deny", "bash"]]})
    write(session, ev.AgentChanged, "demo:small", "", ("read", "bash"), {})
    write(session, ev.AgentChanged, "demo:small", "", (), {})
    await log.append(UserMessage("goodbye"), turn=1, time=START)


@pytest.mark.slow
async def test_wherever_a_signed_journal_is_cut_off_its_power_is_what_it_was_then(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="own", signer=SIGNER) as session:
        await fill(session)
        await _take_away(session)
    whole = session.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    states: list[tuple[object, ...]] = []
    for number in range(1, len(lines) + 1):
        session.path.write_bytes(b"".join(lines[:number]))
        states.append(await _power_of(tmp_path))
    assert len(set(states)) >= 7
    chance = random.Random(5)
    points = [chance.randrange(len(lines[0]), len(whole)) for _ in range(60)]
    opened = set(points[::50])
    for point in points:
        session.path.write_bytes(whole[:point])
        left = whole[:point].count(b"\n")
        records = list(read_records(session.path))
        assert len(records) == left, "no half row is read"
        for record, line in zip(records, lines, strict=False):
            assert record == json.loads(line)
        if point in opened:
            assert await _power_of(tmp_path) == states[left - 1]


async def _power_of(folder: Path) -> tuple[object, ...]:
    """The tools of the agent, the rules and the settings of a session, each with whether it is authentic."""
    forget_databases(folder)
    with Session.open(folder, "own", signer=SIGNER) as session:
        found = await read(session)
        agents = [(member.tools, member.authentic) for member in found.members]
        rules = tuple((rule.text, rule.authentic) for rule in found.rules)
        return (agents[0] if agents else None, rules, json.dumps(session.get_signed_metadata("choices")))


@pytest.mark.parametrize(
    ("allowed", "by", "rule", "power"),
    [
        (True, "user", "bash:ls", True),
        (True, "user", "", False),
        (False, "user", "bash:ls", False),
        (True, "rule", "bash:ls", False),
        (True, "deadline", "bash:ls", False),
    ],
)
def test_of_decisions_only_rules_that_the_user_remembers_are_signed(
    *, allowed: bool, by: Any, rule: str, power: bool
) -> None:
    assert gives_power(ev.ApprovalDecision("a", "s", 0, 0, START, "c", "bash", allowed, by, None, rule)) is power
    assert not gives_power(ev.ToolEnd("a", "s", 0, 0, START, "c", "bash", "", False))


def test_a_signature_is_for_one_row_of_one_session_and_agent() -> None:
    place = {"session_id": "s", "row_id": 1, "owner": "a"}
    data = {"b": "é\ud800", "a": 1}
    signed = SIGNER.signed(data, **place)  # type: ignore[arg-type]
    stored = "46541c742d8f29b34fcbd5587c6c22361eafc935a676f6799a4b435b5d34cceb"
    assert signed["signature"] == stored, "else what was signed before would have no power"
    assert SIGNER.verifies(dict(reversed(signed.items())), **place)  # type: ignore[arg-type]
    for other in ({"session_id": "t"}, {"row_id": 2}, {"owner": "b"}):
        assert not SIGNER.verifies(signed, **{**place, **other})  # type: ignore[arg-type]
    for signature in (None, 5, "", "é" * 64, stored[:-1], b"x"):
        assert not SIGNER.verifies({**data, "signature": signature}, **place)  # type: ignore[arg-type]
    assert not SIGNER.verifies(data, **place)  # type: ignore[arg-type]
    assert not SIGNER.verifies({**signed, "a": 2}, **place)  # type: ignore[arg-type]
    assert not Signer(b"j" * 32).verifies(signed, **place)  # type: ignore[arg-type]
    assert "k" not in repr(SIGNER)


@pytest.mark.parametrize(
    ("text", "value"),
    [(None, {}), ("", {}), ('{"a": 1}', {"a": 1}), ("[1]", {}), ("5", {}), ("{", {}), ("[" * 99_999, {})],
)
def test_a_stored_text_is_an_object_or_an_empty_one(text: str | None, value: object) -> None:
    assert object_in(text) == value


@pytest.mark.parametrize(("values", "texts"), [(["a", 1, "b"], ("a", "b")), ("ab", ()), (None, ()), ({"a": 1}, ())])
def test_a_stored_list_may_have_other_values(values: object, texts: tuple[str, ...]) -> None:
    assert texts_in(values) == texts
