"""Times are in UTC, whatever the time zone of the computer."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from planck_nb.agent import events
from planck_nb.ai.messages import AssistantMessage, TextPart, Usage, UserMessage
from planck_nb.sessions import Session

pytestmark = pytest.mark.process

ZONES = ("Asia/Tokyo", "America/New_York")

QUERIES = (
    "select id from messages where ts > now() - interval 1 hour order by session_name, id",
    "select count(*) from messages where ts > current_date - interval 100 year",
    "select ts::varchar, epoch_us(ts) from messages order by session_name, id",
    "select ts::date::varchar as day, count(*) as n from messages group by all order by day",
    "select date_trunc('hour', ts)::varchar from messages order by session_name, id",
    "select hour(ts), strftime(ts, '%Y-%m-%d %H:%M') from messages order by session_name, id",
    "select started::varchar, ended::varchar, duration_s from turns order by all nulls last",
    "select id, ts < now(), ts::timestamptz::varchar from messages order by session_name, id",
    "select id from messages where ts between '2026-03-08 06:00' and '2026-03-08 23:00' order by session_name, id",
    "select local(ts, zone := 'Europe/Berlin')::varchar from messages order by session_name, id",
    "select max(ts)::varchar, created <= now()::timestamp, last > now() - interval 5 minute from sessions order by all",
    "select current_date = now()::timestamp::date, abs(epoch(current_timestamp::timestamp - current_timestamp)) < 60",
)

LOCAL = (
    "select distinct local(ts)::varchar from messages where ts < '2026-07-07' and role = 'user' order by 1",
    "select local(ts)::date::varchar as d, count(*) from messages where session_name = 'file' group by all order by d",
    "select epoch(local('2026-01-15') - timestamp '2026-01-15') / 3600",
)

ASK = """
import json, sys
from pathlib import Path
from planck_nb.sessions import query, search
directory = Path(sys.argv[1])
for sql in sys.argv[2].splitlines():
    try:
        print(json.dumps(query(directory, sql).astype(object).values.tolist(), default=str))
    except Exception as error:
        print(json.dumps(str(error)))
print(search(directory, "spring").ts.astype(str).sort_values().tolist())
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The results by time zone, over a session in a DuckDB file and one that is only in its journal."""
    directory = tmp_path_factory.mktemp("sessions")
    for name in ("file", "journal"):
        with Session.create(directory, name=name) as session:
            asyncio.run(_converse(session))
    session.info.database.unlink()
    command = [sys.executable, "-c", ASK, str(directory), "\n".join((*QUERIES, *LOCAL))]
    running = {
        zone: subprocess.Popen(
            command, env={**os.environ, "TZ": zone}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for zone in ZONES
    }
    found = {}
    for zone, process in running.items():
        out, err = process.communicate()
        assert err == ""
        found[zone] = out.splitlines()
    return found


async def _converse(session: Session) -> None:
    log = session.log("a")
    first = datetime(2026, 3, 8, 6, 59, 59, 999_999, tzinfo=UTC).timestamp()
    for turn, moment in enumerate((first, first + 3600, first + 86_400 * 120, time.time())):
        log.record(events.TurnStart("a", session.id, turn, 0, moment, index=turn, model="demo:small"))
        await log.append(UserMessage("spring forward"), turn=turn, time=moment)
        reply = AssistantMessage((TextPart("done"),), "stop")
        await log.append(reply, turn=turn, time=moment + 0.5)
        log.record(events.TurnEnd("a", session.id, turn, 0, moment + 1, message=reply, usage=Usage()))


def test_queries_return_the_same_rows_in_every_time_zone(answers: dict[str, list[str]]) -> None:
    same = {zone: [*lines[: len(QUERIES)], lines[-1]] for zone, lines in answers.items()}
    assert same["Asia/Tokyo"] == same["America/New_York"]
    rows = [json.loads(line) for line in same["Asia/Tokyo"][:-1]]
    assert len(rows[0]) == 4, "two messages of this minute in each session"
    assert rows[3][0] == ["2026-03-08", 8]
    assert rows[-1] == [[True, True]]


def test_local_converts_a_time_to_the_time_zone_of_the_computer(answers: dict[str, list[str]]) -> None:
    local = {
        zone: [json.loads(line) for line in lines[len(QUERIES) : len(QUERIES) + len(LOCAL)]]
        for zone, lines in answers.items()
    }
    assert local["America/New_York"][0] == [
        ["2026-03-08 01:59:59.999999"],
        ["2026-03-08 03:59:59.999999"],  # there is no time between 2 and 3 on that day
        ["2026-07-06 02:59:59.999999"],
    ]
    assert local["Asia/Tokyo"][0][0] == ["2026-03-08 15:59:59.999999"]
    assert [local[zone][1][0] for zone in ZONES] == [["2026-03-08", 4]] * 2
    assert [local[zone][2] for zone in ZONES] == [[[9.0]], [[-5.0]]]
