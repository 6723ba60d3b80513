"""The history of many sessions, of a long one, of one with many rewinds and of one with many agents.

    python tests/benchmarks/bench_history.py [--sessions 2000] [--messages 1000000] [--only PART]
        [--store DIR] [--long DIR]

Prints each figure beside its target; what is compared is measured in turn with its floor. A store that is given is used
as it is. The parts are `many`, `journals` (the same sessions without their DuckDB files), `long` and `agents`. Writing
two thousand sessions of 500 messages takes some minutes and 2.5 GB, a message of the long session 2 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.history import write_history, write_long

from planck_nb import Config, Workspace
from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import VIEWS, Session, SessionReader, list_sessions, open_in, query, read_members, search
from planck_nb.sessions.database.duckdb import sql_literal
from planck_nb.sessions.database.session_catalogue import update_catalogue
from planck_nb.testing import scripted_model

ROUNDS = 5
REWINDS = 1000
UNREAD = 200
APPENDS = 300
TURN_ROUNDS = 7
CHAPTER = 401
"""The messages of a hundred turns, and a summary."""
SCAN = "select sum(length(text)) as n from {}"
COUNT = "select count(*) from messages"
FIRST = """
import sys, time
from pathlib import Path
from planck_nb.sessions import query
start, start_cpu = time.perf_counter(), time.process_time()
query(Path(sys.argv[1]), "select count(*) from messages")
print(time.perf_counter() - start, time.process_time() - start_cpu)
"""


class Taken(NamedTuple):
    """The time of an action in seconds."""

    wall: float
    cpu: float


def took(action: Callable[[], object]) -> Taken:
    """Return the time that it takes."""
    start, start_cpu = time.perf_counter(), time.process_time()
    action()
    return Taken(time.perf_counter() - start, time.process_time() - start_cpu)


def median(action: Callable[[], object], rounds: int = ROUNDS) -> Taken:
    """Return the medians of the times that it takes, after a first one."""
    action()
    taken = [took(action) for _ in range(rounds)]
    return Taken(*(statistics.median(times) for times in zip(*taken, strict=True)))


def compare(
    name: str, action: Callable[[], object], floor: Callable[[], object], target: float, rounds: int = ROUNDS
) -> None:
    """Measure both in turn, and print the median of the ratios of their CPU times, which other work hardly changes."""
    action(), floor()
    pairs = [(took(action), took(floor)) for _ in range(rounds)]
    cpu = statistics.median(first.cpu / second.cpu for first, second in pairs)
    wall = statistics.median(first.wall / second.wall for first, second in pairs)
    first, second = (statistics.median(taken.cpu for taken in side) for side in zip(*pairs, strict=True))
    print(
        f"{name:35} {cpu:7.2f} x CPU {wall:7.2f} x wall    target {target:g} x ({first:.4f} s, {second:.4f} s CPU)",
        flush=True,
    )


def show(name: str, taken: Taken, target: float) -> None:
    """Print a figure."""
    print(f"{name:35} {taken.wall:7.3f} s wall {taken.cpu:7.3f} s CPU    target {target:g} s", flush=True)


def memory(field: str) -> float:
    """Return a field of this process's memory in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def plain_scan(files: list[Path]) -> object:
    """Scan the files of the sessions by DuckDB alone."""
    with duckdb.connect() as connection:
        listed = ", ".join(map(sql_literal, files))
        rows = f"read_duckdb([{listed}], table_name = 'messages', union_by_name = false)"
        return connection.execute(SCAN.format(rows)).fetchone()


def many(directory: Path) -> None:
    """Query many sessions."""
    unread(directory)
    start = time.process_time()
    while update_catalogue(directory):
        pass
    print(f"{'catalogue':35} {time.process_time() - start:7.3f} s CPU")
    query(directory, "select 1")
    idle = memory("VmRSS")
    sessions = list_sessions(directory)
    one = sessions[len(sessions) // 2].id
    first = subprocess.run([sys.executable, "-c", FIRST, str(directory)], capture_output=True, text=True, check=True)
    show("first query of a process", Taken(*map(float, first.stdout.split())), 1)
    show("count over all, warm", median(lambda: query(directory, COUNT)), 0.1)
    of_one = f"select role, count(*) from messages where session_id = '{one}' group by role"
    show("one session, warm", median(lambda: query(directory, of_one)), 0.1)
    show("list of sessions", median(lambda: listing(directory)), 0.3)
    query(directory, SCAN.format("messages"))
    print(f"{'memory above idle':35} {memory('VmHWM') - idle:7.0f} MB    target 200 MB")
    files = [session.database for session in sessions]
    compare("full scan", lambda: query(directory, SCAN.format("messages")), partial(plain_scan, files), 1.5)
    views(directory)


def views(directory: Path) -> None:
    """Count the rows of each view over all sessions."""
    for view in VIEWS:
        show(f"view {view}", median(partial(query, directory, f"select count(*) from {view}"), 3), 2)


def journals(directory: Path) -> None:
    """Query the sessions without their DuckDB files: first each is read, then the views are."""
    with tempfile.TemporaryDirectory(dir=directory.parent) as folder:
        for session in list_sessions(directory):
            (Path(folder) / session.path.name).hardlink_to(session.path)
        command = [sys.executable, "-c", FIRST, folder]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        seconds, cpu = map(float, printed.split())
        print(f"{'first query without DuckDB files':35} {seconds:7.3f} s wall {cpu:7.3f} s CPU", flush=True)
        while update_catalogue(Path(folder)):
            pass
        views(Path(folder))


def unread(directory: Path) -> None:
    """Query copies of two hundred journals without their DuckDB files, twice."""
    with tempfile.TemporaryDirectory() as folder:
        for session in list_sessions(directory)[:UNREAD]:
            shutil.copy(session.path, folder)
        for name in ("first", "second"):
            command = [sys.executable, "-c", FIRST, folder]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            show(f"{name} query, {UNREAD} new journals", Taken(*map(float, printed.split())), 1)


def listing(directory: Path) -> None:
    """Do what %planck sessions does."""
    query(directory, "select * from sessions order by created")
    for session in list_sessions(directory):
        _ = open_in(session), session.known_damage


def bare_search(database: Path) -> object:
    """Search the texts of a file by DuckDB alone."""
    with duckdb.connect() as connection:
        connection.execute(f"attach {sql_literal(database)} as file (read_only)")
        found = "select count(*) from file.messages where text ilike '%numbers%' and text ilike '%wait%'"
        return connection.execute(found).fetchone()


async def resume(directory: Path) -> None:
    """Read what resuming a session needs."""
    with Session.open(directory, list_sessions(directory)[0].id) as session:
        await read_members(session)
        session._conversation("agent")


def long(directory: Path) -> None:
    """Query one long session."""
    [session] = list_sessions(directory)
    query(directory, "select 1")
    views(directory)
    show("first rows of tool_calls", median(lambda: query(directory, "select * from tool_calls limit 10"), 3), 2)
    show("resume", median(lambda: asyncio.run(resume(directory)), 3), 1)
    compare("search", lambda: search(directory, "numbers wait"), partial(bare_search, session.database), 1.5)


async def with_turns(directory: Path, rewinds: int) -> None:
    """Write a session of two messages for each round, the second of which is taken back if there are rewinds.

    Both journals are read in the same way: they are shorter than what is read from the end of a journal.
    """
    with Session.create(directory, name="turns") as session:
        for number in range(REWINDS):
            await session.append("agent", UserMessage(f"{number} {'x' * 100}"))
            taken_back = await session.append("agent", UserMessage(f"again {number}"))
            if number < rewinds:
                await session.truncate_after(taken_back)


def chapter(directory: Path, name: str) -> None:
    """Read the latest chapter of a session."""
    reader: SessionReader = Session.read(directory, name)
    reader.messages_from_latest_checkpoint()
    reader.close()


def rewound(directory: Path) -> None:
    """Compare a session with rewinds and one without."""
    none, many_ = (directory / "none", directory / "rewinds")
    for folder, rewinds in ((none, 0), (many_, REWINDS)):
        folder.mkdir()
        asyncio.run(with_turns(folder, rewinds))
    compare("count with rewinds", lambda: query(many_, COUNT), lambda: query(none, COUNT), 1.2, 25)
    compare("chapter with rewinds", lambda: chapter(many_, "turns"), lambda: chapter(none, "turns"), 1.2, 25)


def unchanged(directory: Path, small: Path) -> None:
    """Compare appending to a long session, and reading its latest chapter, with a short one that ends alike."""
    [messages] = query(directory, COUNT).iloc[0]
    write_long(small, CHAPTER + int(messages) % CHAPTER)

    def append(session: Session) -> None:
        async def appends() -> None:
            for number in range(APPENDS // ROUNDS):
                await session.append("agent", UserMessage(f"more {number}"))

        asyncio.run(appends())

    compare("latest chapter", lambda: chapter(directory, "long"), lambda: chapter(small, "long"), 1.2, 25)
    with Session.open(directory, "long") as session, Session.open(small, "long") as other:
        compare("append", partial(append, session), partial(append, other), 1.2)


async def with_agents(directory: Path, agents: int) -> float:
    """Write a session of so many agents, and return the CPU seconds that resuming it takes."""
    config = replace(Config.load(trust=True), sessions_dir=directory)
    async with Workspace(config) as workspace:
        model = workspace.model("demo:demo")
        made = [workspace.add_agent(name=f"agent{number}", model=model) for number in range(agents)]
        session = workspace.session
        for turn in range(3):
            await asyncio.gather(*(session.append(agent.id, UserMessage("x" * 500), turn=turn) for agent in made))
        name = session.name
    async with Workspace(config) as workspace:
        start = time.process_time()
        await workspace.resume(name)
        took_cpu = time.process_time() - start
        assert all(len(agent.state.messages) == 3 for agent in workspace.agents.values())
    return took_cpu


async def turns_among(directory: Path, agents: int) -> float:
    """Return the CPU seconds for two stored turns of each of a thousand agents among so many."""
    config = replace(Config.load(trust=True), sessions_dir=directory)
    async with Workspace(config) as workspace:
        model = scripted_model(["Yes."] * 4)
        made = [workspace.add_agent(f"agent{number}", model=model) for number in range(agents)]
        await asyncio.gather(*(agent.prompt("hi") for agent in made[:50]))
        gc.collect()
        start = time.process_time()
        for first in (*range(0, 1000, 50), *range(0, 1000, 50)):
            await asyncio.gather(*(agent.prompt("hi") for agent in made[first : first + 50]))
        return time.process_time() - start


def turns(directory: Path) -> None:
    """Compare turns among five thousand agents with turns among a thousand."""
    ratios: list[float] = []
    for number in range(TURN_ROUNDS):
        few, many_ = (asyncio.run(turns_among(directory / f"turns{number}-{count}", count)) for count in (1000, 5000))
        ratios.append(many_ / few)
    ratio = statistics.median(ratios)
    print(f"{'turns among 5000 agents, to 1000':35} {ratio:7.2f} x CPU    target 1.1 x ({few / 2:.3f} ms)")


def agents(directory: Path) -> None:
    """Compare resuming a thousand agents with resuming a quarter of them."""
    few, many_ = (asyncio.run(with_agents(directory / f"agents{number}", number)) for number in (250, 1000))
    print(f"{'resume 1000 agents, to 250':35} {many_ / few:7.2f} x CPU    target 5 x ({many_:.3f} s)")


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--long", type=Path)
    parser.add_argument("--only", choices=["many", "journals", "long", "agents"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        store, one = chosen.store, chosen.long
        if store is None and chosen.only not in ("long", "agents"):
            store = Path(temporary) / "many"
            write_history(store, chosen.sessions, 500)
        if chosen.only in (None, "many"):
            many(store)
        if chosen.only in (None, "journals"):
            journals(store)
        if chosen.only in (None, "long"):
            if one is None:
                one = Path(temporary) / "long"
                write_long(one, chosen.messages)
            long(one)
            unchanged(one, Path(temporary) / "short")
            rewound(Path(temporary))
        if chosen.only in (None, "agents"):
            turns(Path(temporary))
            agents(Path(temporary))


if __name__ == "__main__":
    main()
