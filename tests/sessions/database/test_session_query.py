from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from support.history import write_history
from support.stored import START, converse, make_old, reply

import planck_nb.sessions
from planck_nb.agent import events
from planck_nb.ai.messages import (
    AssistantMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.base.errors import QueryError
from planck_nb.sessions import VIEWS, Query, Session, find_session, query, query_async
from planck_nb.sessions.database import snapshot
from planck_nb.sessions.database.duckdb import idle_connection
from planck_nb.sessions.database.queries import rows_needed

FOREVER = "select count(*) from range(10_000_000) a, range(10_000_000) b where a.range * b.range % 7 = 3"


@pytest.fixture(scope="module", params=["journal", "materialized", "half", "attached", "one attached"])
def two_sessions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions, in their journals, in their DuckDB files, in files that count as large, or half in each."""
    directory = tmp_path_factory.mktemp("sessions")

    async def fill() -> None:
        for name in ("first", "second"):
            with Session.create(directory, name=name) as session:
                await converse(session)
                if request.param == "half":
                    session.materialize()
                await converse(session, turn=1)
            if request.param == "journal":
                session.info.database.unlink()
            if request.param == "half":
                # What a killed process leaves: rows that are only in the journal.
                again = Session.open(directory, name)
                await converse(again, turn=2)
                await again.log("a1").truncate_from(again.messages()[8].db_id)
                again._materializer.close()
                again._writer.close()
                again._lock.release()
                planck_nb.sessions.session._open_sessions.discard(again)

    asyncio.run(fill())
    if request.param == "one attached":
        first = find_session(directory, "first").database
        with duckdb.connect(first) as connection:
            connection.execute("create table padding as select random() as x from range(800_000)")
        assert first.stat().st_size > snapshot.LARGE_FILE
    if request.param != "attached":  # as are those written lately
        make_old(directory)
    return directory


@pytest.fixture(scope="module")
def one_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed session; not to be written to."""
    directory = tmp_path_factory.mktemp("sessions")
    with Session.create(directory) as session:
        asyncio.run(converse(session))
    return directory


def test_messages(two_sessions: Path) -> None:
    messages = query(two_sessions, "from messages order by session_name, id")
    assert list(messages.session_name) == ["first"] * 8 + ["second"] * 8
    assert list(messages.role)[:4] == ["user", "assistant", "tool_result", "assistant"]
    assert list(messages.text)[:4] == ["question 0", "Let me look.", "0 °C", "answer 0"]
    assert list(messages.turn)[:8] == [0] * 4 + [1] * 4
    assert messages.ts[0] == pd.Timestamp(START, unit="s")
    last = messages.loc[3]
    assert (last.provider, last.model, last.stop_reason, last.cost_usd) == ("demo", "small", "stop", 0.25)
    assert (last.input_tokens, last.output_tokens, last.cache_read_tokens) == (10, 5, 4)
    assert (last.cache_write_tokens, last.thinking_tokens) == (1, 2)
    parts = query(
        two_sessions, "select content->>'$[1].text' as t from messages where stop_reason = 'tool_use' limit 1"
    )
    assert parts.t[0] == "Let me look."


PLACES = ("journal", "database", "recent database")


def place_rows(session: Session, place: str) -> None:
    """Have the rows of a closed session in its journal alone, or in a DuckDB file that was written just now or not."""
    if place == "journal":
        session.info.database.unlink()
    elif place == "database":
        make_old(session.directory)


@pytest.mark.parametrize("place", PLACES)
async def test_rows_that_a_duckdb_file_has_are_read_from_it(tmp_path: Path, place: str) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
    before = list(query(tmp_path, "select text from messages order by id").text)
    with duckdb.connect(session.info.database) as connection:
        connection.execute("update messages set text = 'stored ' || text")
    place_rows(session, place)
    prefix = "" if place == "journal" else "stored "
    found = query(tmp_path, "select text from messages order by id")
    assert list(found.text) == [prefix + text for text in before]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rewinds", [1, 20])
async def test_what_rewinds_took_back_is_hidden(tmp_path: Path, place: str, rewinds: int) -> None:
    with Session.create(tmp_path) as session:
        for number in range(rewinds):
            await session.append("a", UserMessage(f"kept {number}"))
            last = await session.append("a", UserMessage("taken back"))
            await session.log("a").truncate_from(last)
    place_rows(session, place)
    found = query(tmp_path, "select text from messages order by id")
    assert list(found.text) == [f"kept {number}" for number in range(rewinds)]


def test_tool_calls(two_sessions: Path) -> None:
    calls = query(two_sessions, "from tool_calls order by session_name, message_id")
    assert list(calls.result) == ["0 °C", "1 °C"] * 2, "a call id that comes again belongs to its own turn"
    assert list(calls.duration_s) == [2.0] * 4
    assert list(calls.is_error) == [False] * 4
    assert set(calls.name) == {"weather"}
    assert set(calls.args) == {'{"city":"Łódź","unit":null}'}


@pytest.mark.parametrize("explain", ["explain", "EXPLAIN ANALYZE"])
def test_the_plan_of_a_query(one_session: Path, explain: str) -> None:
    plan = query(one_session, f"{explain} select role, count(*) from messages group by role")
    assert len("".join(plan.explain_value)) > 100
    with pytest.raises(QueryError):
        query(one_session, f"{explain} with x as (copy messages to 'out.csv') select 1")


def test_agents_usage_and_sessions(two_sessions: Path) -> None:
    agents = query(two_sessions, "from agents order by session_name")
    assert list(agents.agent_id) == ["a1", "a1"]
    row = agents.loc[0]
    assert (row["name"], row.type, row.model, row.messages, row.turns) == ("Ada", "worker", "demo:small", 8, 2)
    assert row.started == pd.Timestamp(START, unit="s")
    usage = query(two_sessions, "from usage order by session_name").loc[0]
    turns = 2 if query(two_sessions, "select count(*) as n from branches").n[0] == 0 else 3
    assert (usage.model, usage.replies, usage.output_tokens) == ("demo:small", 2 * turns, 8 * turns), "spent is spent"
    assert (usage.cost_usd, usage.thinking_tokens) == (0.75 * turns, 2 * turns)
    sessions = query(two_sessions, "from sessions order by created")
    assert list(sessions.session_name) == ["first", "second"]
    row = sessions.loc[0]
    assert (row.agents, row.messages, row.output_tokens, row.cost_usd) == (1, 8, 8 * turns, 0.75 * turns)
    assert row["last"] == pd.Timestamp(START + 105, unit="s")


async def test_a_call_without_a_result_and_a_changed_agent(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        started = events.AgentStarted("a", session.id, 0, 0, 1.0, "Ada", "", "demo:small", "", ())
        log.record(started)
        log.record(events.AgentChanged("a", session.id, 0, 1, 2.0, "demo:large", "", ()))
        calls = (ToolCallPart("1", "f", {}), ToolCallPart("2", "g", {}, invalid="{"))
        await log.append(AssistantMessage(calls, "tool_use"), turn=0, time=3)
        await log.append(ToolResultMessage((ToolResultPart("2", "g", "bad", is_error=True),)), turn=0, time=4)
        found = query(tmp_path, "select name, result, is_error, duration_s from tool_calls order by name")
        assert found.name.tolist() == ["f", "g"]
        assert found.result.isna().tolist() == [True, False]
        assert found.is_error.tolist() == [pd.NA, True]
        assert found.duration_s.isna().all()
        agent = query(tmp_path, "from agents").loc[0]
        assert (agent["name"], agent.model, agent.turns) == ("Ada", "demo:large", 1)
        assert query(tmp_path, "select cost_usd, input_tokens from usage").isna().all(axis=None)


async def test_several_agents_with_the_same_call_ids(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await asyncio.gather(*(converse(session, agent, turn=turn) for turn, agent in enumerate("xyz")))
        found = query(tmp_path, "select agent_id, result, duration_s from tool_calls order by agent_id")
        assert found.agent_id.tolist() == ["x", "y", "z"]
        assert found.result.tolist() == ["0 °C", "1 °C", "2 °C"]
        assert found.duration_s.tolist() == [2.0] * 3


@pytest.mark.parametrize("directory", ["missing", "."])
def test_no_sessions_give_empty_views(tmp_path: Path, directory: str) -> None:
    everything = " union all by name ".join(f"from {view}" for view in VIEWS)
    assert query(tmp_path / directory, everything).empty


async def test_a_path_that_duckdb_cannot_use_is_read_from_the_journal(tmp_path: Path) -> None:
    with Session.create(tmp_path / "why?") as session:
        await converse(session)
    assert len(query(tmp_path / "why?", "from messages")) == 4


@pytest.mark.parametrize("lately", [True, False])
async def test_foreign_files_in_the_directory_break_nothing(tmp_path: Path, *, lately: bool) -> None:
    directory = tmp_path / "odd [1]*'s é"
    with Session.create(directory, name="good") as session:
        await converse(session)
        session.materialize()
        for name, content in {
            "0" * 16 + "_junk.journal.jsonl": b"\x00junk\n" * 100,
            "1" * 16 + "_empty.journal.jsonl": b"",
            "2" * 16 + "_other.journal.jsonl": session.path.read_bytes(),
            "3" * 16 + "_json.journal.jsonl": b'{"v":1,"id":0,"kind":"session","data":5}\n',
            "foreign.duckdb": b"junk",
            "2" * 16 + "_other.duckdb": b"junk",
            "notes.txt": b"hello",
        }.items():
            (directory / name).write_bytes(content)
        (directory / ("4" * 16 + "_folder.journal.jsonl")).mkdir()
        with Session.create(directory, name="swapped") as swapped:
            await converse(swapped)
        swapped.info.database.unlink()
        with duckdb.connect(swapped.info.database) as connection:
            connection.execute("create table mine as select 1 as x")
        if not lately:
            make_old(directory)
        found = query(directory, "select session_name, count(*) as n from messages group by all order by all")
        assert list(zip(found.session_name, found.n, strict=True)) == [("good", 4), ("swapped", 4)]


@pytest.mark.parametrize(
    "sql",
    [
        "insert into messages values (1)",
        "create table t (i int)",
        "attach 'x.duckdb'",
        "copy (select 1) to 'written'",
        "copy messages to 'written'",
        "pragma version",
        "set threads = 1",
        "call pragma_version()",
        "export database 'written'",
        "install httpfs",
        "checkpoint",
        "drop view messages",
        "begin",
        "explain analyze copy (select 1) to 'written'",
        "with x as (copy (select 1) to 'written') select * from x",
        "with x as (insert into store.hidden_ids values ('a', 1) returning *) select * from x",
        "select * from (with x as (copy (select 1) to 'written') select * from x)",
        "select (with x as (copy (select 1) to 'written') select 1)",
        "select * from query('with x as (copy (select 1) to ''written'') select * from x')",
        "select * from (pivot messages on role using count(*))",
        "pivot messages on upper(role) using count(*)",
        "pivot messages on role using count(*); select 1",
        "pivot (with x as (copy (select 1) to 'written') select * from x) on role using count(*)",
        "pivot (select 1 as role) on role using count(*) order by (with x as (copy (select 1) to 'written') select 1)",
        "select 1; select 2",
        "select 1; copy (select 1) to 'written'",
        "",
        "-- nothing",
    ],
)
def test_only_one_statement_that_reads_is_allowed(tmp_path: Path, sql: str) -> None:
    with pytest.raises(QueryError, match=r"can only be read|one SELECT|hides what it runs"):
        query(tmp_path, sql)
    assert not Path("written").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "from messages",
        "table usage",
        "values (1)",
        "describe messages",
        "show tables",
        "summarize messages",
        "select 1 union select 2;",
        "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) select * from n",
        "select * from (pivot messages on role in ('user') using count(*))",
        "select 'COPY_QUERY_NODE' as type -- a comment; here",
    ],
)
def test_whatever_reads_is_allowed(one_session: Path, sql: str) -> None:
    assert not query(one_session, sql).empty
    assert len(query(one_session, sql, limit=1)) == 1


@pytest.mark.parametrize(
    ("sql", "columns", "rows"),
    [
        (
            "pivot messages on role using count(*) group by agent_id",
            ["agent_id", "assistant", "tool_result", "user"],
            1,
        ),
        ("PIVOT (select role from messages) ON role USING count(*);", ["assistant", "tool_result", "user"], 1),
        ("pivot people on day using sum(n) group by who order by who limit 1", ["who", "2026-01-01", "2026-01-02"], 1),
        ("pivot people on big using sum(n) group by who", ["who", "false", "it's", "true"], 2),
    ],
)
def test_a_pivot_finds_its_values(one_session: Path, sql: str, columns: list[str], rows: int) -> None:
    days = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01"]).date
    values = {"who": ["Ada", "Ada", "Bob"], "day": days, "big": ["true", "false", "it's"], "n": [1, 2, 3]}
    found = query(one_session, sql, frames={"people": pd.DataFrame(values)})
    assert [*found.columns] == columns
    assert len(found) == rows


def test_a_pivot_needs_some_values_but_not_too_many(one_session: Path) -> None:
    with pytest.raises(QueryError, match="role has no values"):
        query(one_session, "pivot (select * from messages limit 0) on role using count(*)")
    with pytest.raises(QueryError, match="more than 1000 values"):
        query(one_session, "pivot (select range as n from range(1001)) on n using count(*)")


def test_limit_keeps_the_order(one_session: Path) -> None:
    backwards = "select id from messages order by id desc"
    everything = query(one_session, backwards)
    assert list(query(one_session, backwards, limit=3).id) == list(everything.id[:3])
    assert query(one_session, "from messages", limit=0).empty


def test_frames_join_by_name(one_session: Path) -> None:
    people = pd.DataFrame({"agent_id": ["a1"], "who": ["Ada Lovelace"]})
    found = query(
        one_session,
        'select distinct who from messages join "People" using (agent_id)',
        frames={"People": people, "messages": people, "number": 5, "unused": object()},
    )
    assert list(found.who) == ["Ada Lovelace"]
    with pytest.raises(QueryError, match="no table 'frame'"):
        query(one_session, "from frame", frames={"frame ": people, "People": people})  # a variable inside is no table
    with pytest.raises(QueryError, match="no table 'number'"):
        query(one_session, "from number", frames={"number": 5})
    with pytest.raises(QueryError, match="Did you mean messages or usage or "):
        query(one_session, "from mesages", frames={"messages": people})


def test_a_frame_with_the_exact_name_takes_precedence(one_session: Path) -> None:
    frames = {"Prices": pd.DataFrame({"x": [1]}), "prices": pd.DataFrame({"x": [2]})}
    assert [query(one_session, f"from {name}", frames=frames).x[0] for name in frames] == [1, 2]


def test_a_query_may_name_the_session_it_is_asked_from(two_sessions: Path) -> None:
    chosen = query(two_sessions, "select session_id from sessions where session_name = 'second'").session_id[0]
    own = "select distinct session_name from messages where session_id = getvariable('session')"
    assert list(query(two_sessions, own, session=chosen).session_name) == ["second"]
    assert query(two_sessions, own).empty


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from mesages", r"^There is no table 'mesages'\. Did you mean messages.*Views: messages, sessions, "),
        ("select * from nowhere", r"^There is no table 'nowhere'\. Known are: [a-z_, ]+\.$"),
        ("selec 1", r'^Parser Error: syntax error at or near "selec"$'),
        ("select foo from messages", r'^Binder Error: Referenced column "foo" not found .* "role"'),
        ("select text::int from messages", r"^Conversion Error: "),
        ("select * from 'no_such_file.csv'", r"No files found"),
        ("select people.x from people", r"no table 'people'"),
    ],
)
def test_a_failing_query_is_explained_in_a_line(one_session: Path, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as failure:
        query(one_session, sql)
    assert "\n" not in str(failure.value)


def test_a_query_can_be_interrupted_from_another_thread(tmp_path: Path) -> None:
    running = Query(tmp_path, FOREVER)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            running.run()
        except KeyboardInterrupt as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        running.interrupt()
        thread.join(0.05)
    assert len(failures) == 1


@pytest.mark.slow
async def test_cancelling_ends_the_query_while_the_loop_goes_on(one_session: Path) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await query_async(one_session, FOREVER)
    for thread in threading.enumerate():
        if thread.name == "planck-tool":
            await asyncio.to_thread(thread.join)
    assert len(await query_async(one_session, "from sessions")) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_interrupts_a_query(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys, threading
from pathlib import Path
from planck_nb.sessions import query
over = threading.Event()
def press():
    while not over.wait(0.5):
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
try:
    query(Path(sys.argv[1]), {FOREVER!r})
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    over.set()
    print("interrupted", query(Path(sys.argv[1]), "select 1 as one").one[0])
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("interrupted 1\n", "")


def test_ctrl_c_in_the_moment_in_which_a_query_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "planck-query":
            raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        query(tmp_path, FOREVER)
    assert not [thread for thread in threading.enumerate() if thread.name == "planck-query" and thread not in before]


# Fewer queries for the second: each waits until the writer lets go of its file.
@pytest.mark.slow
@pytest.mark.parametrize(("lately", "queries"), [(True, 8), (False, 4)])
async def test_one_query_sees_one_moment(tmp_path: Path, *, lately: bool, queries: int) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        stop = asyncio.Event()

        async def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                await log.append(reply(str(number)), turn=number, time=number)
                if number % 40 == 0:
                    await asyncio.to_thread(session.materialize)
                    if not lately:
                        make_old(tmp_path)

        writing = asyncio.ensure_future(write())
        for _ in range(queries):
            row = (await query_async(tmp_path, "select count(*) as n, max(turn) as last from messages")).loc[0]
            assert row.n == 0 or row.n == row["last"]
        stop.set()
        await writing


@pytest.mark.slow
def test_a_query_gets_the_views_that_it_names_or_all_if_it_names_none(one_session: Path) -> None:
    for view in VIEWS:
        assert list(query(one_session, f"select count(*) as n from {view.upper()}").columns) == ["n"]
    listed = query(one_session, "select table_name from information_schema.tables where table_schema = 'main'")
    assert set(VIEWS) <= set(listed.table_name)
    assert len(query(one_session, "from query_table('messages')")) == 4


@pytest.mark.slow
def test_the_readme_lists_every_column(tmp_path: Path) -> None:
    page = Path(planck_nb.sessions.__file__).with_name("README.md").read_text(encoding="utf-8")
    documented = {
        view: re.findall(r"^\| `(\w+)` \| ([\w\[\]]+) \|", section, flags=re.MULTILINE)
        for view, section in re.findall(r"^### `(\w+)`\n(.*?)(?=^#|\Z)", page, flags=re.MULTILINE | re.DOTALL)
    }
    assert tuple(documented) == VIEWS
    for view, columns in documented.items():
        described = query(tmp_path, f"describe {view}")
        assert columns == list(zip(described.column_name, described.column_type, strict=True)), view


async def test_calls_that_the_server_ran_are_tool_calls_too(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")

        def run(sequence: int, call: str, name: str, query: str, result: str | None) -> None:
            log.record(events.ToolStart("a", session.id, 0, sequence, 10.0 + sequence, call, name, {"q": query}))
            if result is not None:
                at = 12.0 + sequence
                log.record(events.ToolEnd("a", session.id, 0, sequence, at, call, name, result, result == "failed"))

        own = await log.append(AssistantMessage((ToolCallPart("1", "add", {}),), "tool_use"), turn=0, time=9)
        run(0, "1", "add", "own", "42")
        await log.append(ToolResultMessage((ToolResultPart("1", "add", "42"),)), turn=0, time=13)
        run(1, "server_1", "web_search", "cats", "ten cats")
        run(2, "server_2", "web_search", "dogs", "failed")
        first = await log.append(AssistantMessage((TextPart("Cats."),)), turn=0, time=20)
        run(3, "server_1", "code_execution", "1 + 1", None)
        second = await log.append(AssistantMessage((TextPart("Two."),)), turn=0, time=21)
        rows = query(tmp_path, "from tool_calls order by ts")
        assert rows.columns[-1] == "on_server"
        found = query(
            tmp_path,
            "select message_id, call_id, name, args->>'$.q' as q, result, is_error, duration_s, on_server "
            "from tool_calls order by ts",
        )
        assert found.astype(object).where(found.notna(), None).to_numpy().tolist() == [
            [own, "1", "add", None, "42", False, 2.0, False],
            [first, "server_1", "web_search", "cats", "ten cats", False, 2.0, True],
            [first, "server_2", "web_search", "dogs", "failed", True, 2.0, True],
            [second, "server_1", "code_execution", "1 + 1", None, None, None, True],
        ]
        assert query(tmp_path, "select tool_calls from turns").tool_calls.tolist() == [4]


async def test_what_a_stopped_reply_took_is_marked_as_estimated(tmp_path: Path) -> None:
    complete = AssistantMessage((TextPart("Yes."),), usage=Usage(5, 5), cost=0.1, provider="demo", model="one")
    stopped = replace(complete, stop_reason="aborted", estimated=True)
    with Session.create(tmp_path) as session:
        for number, message in enumerate(
            (complete, replace(stopped, estimated=None), stopped, replace(complete, model="two"))
        ):
            await session.append("a", message, turn=number)
        await session.append("a", UserMessage("hi"), turn=5)
        rows = query(tmp_path, "select estimated from messages order by id")
        assert rows.estimated.tolist() == [False, False, True, False, False]
        found = query(tmp_path, "select model, estimated, cost_usd from usage order by model")
        assert found.to_numpy().tolist() == [["demo:one", True, pytest.approx(0.3)], ["demo:two", False, 0.1]]


# Connections to DuckDB are reused.


def close_idle_connections() -> None:
    """Close those that are kept, as after an error."""
    with suppress(ValueError), idle_connection(), idle_connection(), idle_connection():
        raise ValueError


def test_a_connection_is_used_again_but_by_one_at_a_time() -> None:
    close_idle_connections()
    with idle_connection() as first, idle_connection() as second:
        assert second is not first
    with idle_connection() as again:
        assert again in {first, second}


def test_a_connection_that_had_an_error_is_not_used_again() -> None:
    with pytest.raises(duckdb.Error), idle_connection() as failed:
        failed.execute("create table left_behind (a integer); select nonsense")
    with idle_connection() as next_one:
        assert next_one is not failed
        assert next_one.execute("select count(*) from duckdb_tables()").fetchone() == (0,)


def test_a_connection_is_replaced_after_many_uses() -> None:
    used: list[duckdb.DuckDBPyConnection] = []
    for _ in range(100):
        with idle_connection() as connection:
            used.append(connection)
    assert 4 <= len(set(used)) <= 6


def test_only_a_few_are_kept() -> None:
    close_idle_connections()
    with idle_connection() as a, idle_connection() as b, idle_connection() as c:
        pass
    with idle_connection() as d, idle_connection() as e, idle_connection() as f:
        assert len({a, b, c} & {d, e, f}) == 2


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_uses_none_of_its_parent() -> None:
    with idle_connection() as kept:
        pass
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with idle_connection() as own:
                code = 0 if own is not kept and own.execute("select 1").fetchone() == (1,) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with idle_connection() as again:
        assert again.execute("select 1").fetchone() == (1,)


# A statement that needs a few rows of `tool_calls` has no others joined, and gets the same rows.


@pytest.mark.parametrize(
    ("statement", "needed"),
    [
        ("select * from tool_calls limit 10", 10),
        ("from Tool_Calls limit 3", 3),
        ("select name, ts from tool_calls limit 10 offset 5", 15),
        ("select * exclude (result) from tool_calls limit 0", 0),
        ("select * from tool_calls", None),
        ("select * from tool_calls offset 3", None),
        ("select * from tool_calls limit 10%", None),
        ("select * from tool_calls limit (select 3)", None),
        ("select * from tool_calls order by ts limit 3", None),
        ("select * from tool_calls where name = 'read' limit 3", None),
        ("select * from tool_calls qualify row_number() over () = 1 limit 3", None),
        ("select * from tool_calls tablesample 3 limit 3", None),
        ("select distinct name from tool_calls limit 3", None),
        ("select count(*) from tool_calls limit 3", None),
        ("select name from tool_calls group by name limit 3", None),
        ("select name from tool_calls group by all limit 3", None),
        ("select * replace (max(ts) as ts) from tool_calls limit 3", None),
        ("select columns('n.*') from tool_calls limit 3", None),
        ("select unnest([1, 2]) from tool_calls limit 3", None),
        ("with t as (select count(*) from tool_calls) select * from tool_calls limit 3", None),
        ("select * from tool_calls, messages limit 3", None),
        ("select * from (select * from tool_calls) limit 3", None),
        ("select * from messages limit 3", None),
        ("(select name from tool_calls limit 3) union all (select name from tool_calls limit 1)", None),
    ],
)
def test_how_many_rows_a_statement_needs(statement: str, needed: int | None) -> None:
    with duckdb.connect() as connection:
        parsed = connection.execute("select json_serialize_sql($1)", [statement]).fetchone()
    assert parsed is not None
    assert rows_needed(json.loads(parsed[0])["statements"][0]["node"], "tool_calls") == needed


@pytest.mark.slow
def test_a_limited_statement_has_as_many_rows_of_the_view_as_there_are(tmp_path: Path) -> None:
    write_history(tmp_path, 3, 40)
    calls = query(tmp_path, "select * from tool_calls")
    found = set(map(tuple, calls.astype(str).to_numpy()))
    assert len(found) == len(calls) > 20
    for limit, offset in [(0, 0), (1, 0), (7, 5), (20, len(calls) - 3), (1000, 0)]:
        some = query(tmp_path, f"select * from tool_calls limit {limit} offset {offset}")
        assert len(some) == min(limit, len(calls) - offset)
        assert set(map(tuple, some.astype(str).to_numpy())) <= found
    assert query(tmp_path, "select count(*) as n from (select * from tool_calls limit 5), tool_calls").n[0] == 5 * len(
        calls
    )
