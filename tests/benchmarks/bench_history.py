"""The history of many sessions, of a long one, of one with many rewinds and of one with many agents.

    python tests/benchmarks/bench_history.py [--sessions 2000] [--messages 1000000] [--store DIR] [--long DIR]

Prints each figure beside its target; what is compared is measured in turn with its floor. A store that is given is used
as it is. Writing two thousand sessions of 500 messages takes some minutes and 2.5 GB, a message of the long session
2 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
from support.history import write_history, write_long

from planck_nb import Config, Workspace
from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import VIEWS, Session, SessionReader, list_sessions, open_in, query, read_members, search
from planck_nb.sessions.duckdb import sql_literal
from planck_nb.sessions.session_catalogue import update_catalogue

ROUNDS = 5
REWINDS = 1000
SCAN = "select sum(length(text)) as n from {}"
COUNT = "select count(*) from messages"
FIRST = """
import sys, time
from pathlib import Path
from planck_nb.sessions import query
start = time.perf_counter()
query(Path(sys.argv[1]), "select count(*) from messages")
print(time.perf_counter() - start)
"""


def took(action: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median of the seconds that it takes."""
    return statistics.median(took(action) for _ in range(rounds))


def ratio(action: Callable[[], object], floor: Callable[[], object]) -> tuple[float, float]:
    """Return the medians of both, measured in turn."""
    pairs = [(took(action), took(floor)) for _ in range(ROUNDS)]
    return statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs)


def show(name: str, seconds: float, target: float, floor: float | None = None) -> None:
    """Print a figure: seconds, or the ratio to a floor."""
    if floor is None:
        print(f"{name:45} {seconds:8.3f} s    target {target:g} s", flush=True)
    else:
        print(f"{name:45} {seconds / floor:8.2f} x    target {target:g} x ({seconds:.3f} s, {floor:.3f} s)", flush=True)


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
    start = time.process_time()
    while update_catalogue(directory):
        pass
    print(f"{'catalogue, CPU':45} {time.process_time() - start:8.3f} s")
    query(directory, "select 1")
    idle = memory("VmRSS")
    sessions = list_sessions(directory)
    one = sessions[len(sessions) // 2].id
    first = subprocess.run([sys.executable, "-c", FIRST, str(directory)], capture_output=True, text=True, check=True)
    show("first query of a process", float(first.stdout), 1)
    show("count over all, warm", median(lambda: query(directory, COUNT)), 0.1)
    of_one = f"select role, count(*) from messages where session_id = '{one}' group by role"
    show("one session, warm", median(lambda: query(directory, of_one)), 0.1)
    show("list of sessions", median(lambda: listing(directory)), 0.3)
    query(directory, SCAN.format("messages"))
    print(f"{'memory beside idle':45} {memory('VmHWM') - idle:8.0f} MB   target 200 MB")
    files = [session.database for session in sessions]
    show(
        "full scan",
        *reversed_target(ratio(lambda: query(directory, SCAN.format("messages")), partial(plain_scan, files)), 1.5),
    )


def listing(directory: Path) -> None:
    """Do what %planck sessions does."""
    query(directory, "select * from sessions order by created")
    for session in list_sessions(directory):
        _ = open_in(session), session.known_damage


def reversed_target(measured: tuple[float, float], target: float) -> tuple[float, float, float]:
    """Return what `show` expects of a ratio."""
    return measured[0], target, measured[1]


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
    for view in VIEWS:
        show(f"view {view}", median(partial(query, directory, f"select count(*) from {view}"), 3), 2)
    show("resume", median(lambda: asyncio.run(resume(directory)), 3), 1)
    found = ratio(lambda: search(directory, "numbers wait"), partial(bare_search, session.database))
    show("search", *reversed_target(found, 1.5))


async def with_rewinds(directory: Path, rewinds: int) -> None:
    """Write a session of two messages for each round, the second of which is taken back if there are rewinds."""
    with Session.create(directory, name="rewound") as session:
        for number in range(REWINDS):
            await session.append("agent", UserMessage(f"{number} {'x' * 300}"))
            taken_back = await session.append("agent", UserMessage(f"again {number}"))
            if number < rewinds:
                await session.truncate_after(taken_back)


def rewound(directory: Path) -> None:
    """Compare a session with rewinds and one without."""
    folders = [directory / "none", directory / "rewinds"]
    for folder, rewinds in zip(folders, (0, REWINDS), strict=True):
        folder.mkdir()
        asyncio.run(with_rewinds(folder, rewinds))
    none, many_ = folders
    show("count with rewinds", *reversed_target(ratio(lambda: query(many_, COUNT), lambda: query(none, COUNT)), 1.2))

    def chapter(folder: Path) -> None:
        reader: SessionReader = Session.read(folder, "rewound")
        reader.messages_from_latest_checkpoint()
        reader.close()

    show("latest chapter", *reversed_target(ratio(partial(chapter, many_), partial(chapter, none)), 1.2))


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


def agents(directory: Path) -> None:
    """Compare resuming a thousand agents with resuming a quarter of them."""
    few, many_ = (asyncio.run(with_agents(directory / f"agents{number}", number)) for number in (250, 1000))
    show("resume 1000 agents, CPU, to 250", many_, 5, few)


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--long", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        store, one = chosen.store, chosen.long
        if store is None:
            store = Path(temporary) / "many"
            write_history(store, chosen.sessions, 500)
        many(store)
        if one is None:
            one = Path(temporary) / "long"
            write_long(one, chosen.messages)
        long(one)
        rewound(Path(temporary))
        agents(Path(temporary))


if __name__ == "__main__":
    main()
