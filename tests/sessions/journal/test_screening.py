"""Rows that count, found in random journals, compared with a simple reading of the same lines."""

from __future__ import annotations

import calendar
import json
import random
from dataclasses import dataclass, field
from itertools import pairwise
from zlib import crc32

import pytest

from planck_nb.ai.messages import AssistantMessage, TextPart, UserMessage
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.journal.codec import (
    encode_message_line,
    encode_metadata_line,
    encode_record,
    encode_rewind_line,
)
from planck_nb.sessions.journal.screening import DisorderError, RowIds, Screen, in_order, usual_id

TIME = 1.75e9
ROWS = {"message", "event", "rewind", "metadata"}


def message(row_id: int, text: str = "x") -> bytes:
    return encode_message_line(row_id, "a1", UserMessage(text), turn=0, time=TIME)


def with_brackets(count: int) -> bytes:
    """A line of a message with this many brackets."""
    line = message(1, "")
    return line.replace(b'"text":""', b'"text":"%b"' % (b"[" * (count - line.count(b"{") - line.count(b"["))), 1)


def random_line(chance: random.Random, row_id: int) -> bytes:
    """A line as a session writes it, or one that is damaged, unusual or unreadable."""
    usual = message(row_id, chance.choice(["x", "ä", "[" * 150, "\u2028", "\\", '"']))
    row = json.loads(usual)
    forms = [
        usual[: chance.randrange(1, len(usual))] + b"\n",
        usual.replace(b'"x"', b'"\xff"').replace(b'"data":{', b'"data":[', 1),
        usual.replace(b'"data":{', b'"data":3,"x":{', 1),
        b" " * chance.randrange(4) + b"\n",
        b" " + usual,
        b'{"v":1,"id":%d,"kind":"other"}\n' % row_id,
        encode_rewind_line(row_id, "a1", before_id=max(1, row_id - 2), time=TIME),
        encode_metadata_line(row_id, {"name": "other"}, time=TIME),
        encode_record({"v": 1, "id": row_id, "kind": "session", "ts": "x", "data": {}}),
        encode_record({**row, "v": 2}),
        encode_record({**row, "data": {"type": "user"}}),
        encode_record({**row, "extra": ["a", {"b": 1}]}),
    ]
    return chance.choice([*forms, *[usual] * 4])


def random_journal(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    ids = [number + chance.choice([0, 0, 0, 0, 0, -3, 2, 40]) for number in range(1, chance.randrange(2, 40))]
    return [random_line(chance, max(number, 1)) for number in ids]


@dataclass
class Counted:
    """What a plain reading of a journal finds."""

    kept: list[JsonObject] = field(default_factory=list)
    damaged: int = 0
    repeated: int = 0
    checksum: int = 0
    ids: list[int] = field(default_factory=list)
    """Ids of rows as they are written, repeated ones too."""


def counted(lines: list[bytes]) -> Counted:
    """Read lines one after another, by their JSON alone."""
    result, seen = Counted(), set[int]()
    for line in lines:
        result.checksum = crc32(line, result.checksum)
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            result.damaged += 1
            continue
        if record.get("kind") in ROWS and record["v"] == 1 and not isinstance(record.get("data", {}), dict):
            result.damaged += 1
            continue
        if record.get("kind") in ROWS:
            result.ids.append(record["id"])
            if record["id"] in seen:
                result.repeated += 1
                continue
            seen.add(record["id"])
        result.kept.append(record)
    return result


def is_ascending(ids: list[int]) -> bool:
    return all(earlier < later for earlier, later in pairwise([0, *ids]))


def figures(screen: Screen) -> tuple[int, int, int]:
    return screen.damaged, screen.repeated, screen.checksum


@pytest.mark.parametrize("seed", range(60))
def test_every_way_of_reading_finds_the_same_rows(seed: int) -> None:
    lines = random_journal(seed)
    plain = counted(lines)
    expected = plain.damaged, plain.repeated, plain.checksum

    exact = Screen()
    assert [json.loads(line) for line in exact.exact(lines)] == plain.kept
    assert figures(exact) == expected

    counting = Screen()
    counting.count(lines)
    assert figures(counting) == expected
    assert counting.unreadable == sum(row.get("data") == {"type": "user"} for row in plain.kept)

    before = Screen()
    kept, after = before.plausible(lines)
    assert figures(before) == (0, 0, 0)
    assert counting.ids.highest == exact.ids.highest == max(plain.ids, default=0)
    ascending = is_ascending(plain.ids)
    assert exact.ids.ascending is counting.ids.ascending is ascending
    if not any(Screen._usual_id(line) and counted([line]).damaged for line in lines):
        assert [json.loads(line) for line in kept] == plain.kept
        assert figures(after) == expected
        assert after.ids.highest == exact.ids.highest


@pytest.mark.parametrize("seed", range(20))
def test_reading_goes_on_from_a_position(seed: int) -> None:
    lines = random_journal(seed)
    whole = Screen()
    whole.count(lines)
    parts = Screen()
    parts.count(lines[:10])
    copy = parts.copy()
    parts.count(lines[10:])
    copy.count(lines[10:])
    assert figures(parts) == figures(copy) == figures(whole)
    assert parts.unreadable == copy.unreadable == whole.unreadable


@pytest.mark.parametrize("seed", range(40))
def test_lines_in_order_are_yielded_until_one_is_not(seed: int) -> None:
    lines = random_journal(seed)
    lines = [line for line in lines if not counted([line]).damaged]
    if is_ascending(counted(lines).ids):
        assert list(in_order(lines)) == lines
    else:
        with pytest.raises(DisorderError):
            list(in_order(lines))


def rows_of_all_kinds() -> list[bytes]:
    """One row of each kind, and of an unusual form, with ascending ids."""
    return [
        message(1),
        encode_rewind_line(2, "a1", before_id=1, time=TIME),
        encode_metadata_line(3, {"name": "x"}, time=TIME),
        b" " + message(4),
        message(5),
    ]


@pytest.mark.parametrize("place", range(5))
def test_a_row_of_any_kind_that_repeats_an_id_is_out_of_order(place: int) -> None:
    rows = rows_of_all_kinds()
    assert list(in_order(rows)) == rows
    with pytest.raises(DisorderError):
        list(in_order([*rows[: place + 1], rows[place]]))
    with pytest.raises(DisorderError):
        list(in_order([rows[place]], after=place + 1))
    assert list(in_order([rows[place]], after=place)) == [rows[place]]


def test_lines_of_other_kinds_have_no_order() -> None:
    other = b'{"v":1,"id":1,"kind":"other"}\n'
    assert list(in_order([message(1), other, message(2)])) == [message(1), other, message(2)]


@pytest.mark.parametrize("seed", range(20))
def test_ids_are_new_once(seed: int) -> None:
    chance = random.Random(seed)
    ids, seen = RowIds(3), {1, 2, 3}
    for _ in range(100):
        number = chance.randrange(1, 60)
        assert ids.add(number) is (number not in seen)
        seen.add(number)
        assert ids.highest == max(seen)
    copy = ids.copy()
    assert copy.highest == ids.highest
    assert not copy.ascending
    assert all(copy.add(number) is (number not in seen) for number in range(1, 60))
    assert [number for number in range(1, 60) if ids.add(number)] == sorted(set(range(1, 60)) - seen)


def test_a_copy_of_ids_is_independent() -> None:
    ids = RowIds()
    assert [ids.add(number) for number in (1, 2, 4)] == [True, True, True]
    copy = ids.copy()
    assert copy.add(3)
    assert copy.add(5)
    assert not copy.ascending
    assert ids.ascending
    assert ids.highest == 4
    assert ids.add(5)
    assert ids.add(3)


@pytest.mark.parametrize("month", range(1, 13))
def test_lines_of_each_day_are_usual(month: int) -> None:
    lines = [message(1).replace(b"2025-06-15", b"2027-%02d-%02d" % (month, day)) for day in range(1, 33)]
    assert sum(map(bool, map(usual_id, lines))) == calendar.monthrange(2027, month)[1]


@pytest.mark.parametrize("brackets", [198, 199, 200, 201])
def test_lines_with_many_brackets_are_decoded(brackets: int) -> None:
    line = with_brackets(brackets)
    assert line.count(b"{") + line.count(b"[") == brackets
    kept, _ = Screen().plausible([line])
    assert kept == [line]
    assert bool(Screen._usual_id(line)) is (brackets < 200)


def test_an_unreadable_message_is_kept_and_counted_once() -> None:
    reply = AssistantMessage((TextPart("x"),), "stop")
    good = encode_message_line(1, "a1", reply, turn=0, time=TIME)
    lines = [good, encode_record({**json.loads(message(2)), "data": {}}), encode_record({**json.loads(good), "id": 3})]
    screen = Screen()
    screen.count(lines)
    assert (screen.unreadable, screen.damaged, screen.repeated) == (1, 0, 0)
    screen.count(lines)
    assert (screen.unreadable, screen.damaged, screen.repeated) == (1, 0, 3)
