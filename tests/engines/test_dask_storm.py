"""Agents outlast killed workers, killed kernels, cut networks and changed clusters.

`PLANCK_NB_SOAK` makes the storms longer.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path

import pytest
from distributed import Client
from support.benchmark import server
from support.dask_cluster import Cable, TlsCluster
from support.ports import free_port

import planck_nb
from planck_nb import Agent, Config, Run, Workspace, ai
from planck_nb.ai.models import Model, as_found
from planck_nb.engines import DaskEngine
from planck_nb.engines.link_format import LEASE_SECONDS
from planck_nb.engines.local_cluster import ClusterProcess
from planck_nb.testing.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # Dask's
]

SOAK = bool(os.environ.get("PLANCK_NB_SOAK"))
WORKER_KILLS, AGENTS, PACE = (20, 50, 0.1) if SOAK else (2, 20, 0.02)
AT_ONCE = 500
DRIVER_KILLS = 5 if SOAK else 1
CUT_SECONDS = BLOCKED_SECONDS = 10.0 if SOAK else LEASE_SECONDS + 2
TESTS = Path(__file__).parents[1]
WORDS = "word " * 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TlsCluster]:
    """A scheduler without workers."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with TlsCluster(folder) as cluster:
        yield cluster
    gc.collect()  # Dask leaves the sockets of failed connections open


@asynccontextmanager
async def engine_of(cluster: TlsCluster, workers: int) -> AsyncIterator[DaskEngine]:
    """An engine with so many workers."""
    client = await asyncio.to_thread(cluster.client)
    try:
        await asyncio.to_thread(client.wait_for_workers, workers)
        async with DaskEngine(client) as engine:
            yield engine
    finally:
        await asyncio.to_thread(client.close)


def workspace_in(folder: Path, engine: DaskEngine | None) -> Workspace:
    return Workspace(Config.load(environment={}, directory=folder, home=folder), engine=engine)


async def stored_answers(workspace: Workspace) -> Counter[str]:
    """How often the session has each answer."""
    frame = await workspace.query_async("SELECT text FROM messages WHERE role = 'assistant'")
    return Counter(frame["text"])


async def prompt_until(is_over: asyncio.Event, agent: Agent) -> int:
    """Prompt an agent again and again; the number of its answers."""
    answers = 0
    while not is_over.is_set():
        assert (await agent.prompt("Next.")).text == f"{answers} {WORDS}"
        answers += 1
    return answers


def script(length: int) -> list[str]:
    return [f"{number} {WORDS}" for number in range(length)]


async def check_stored(workspace: Workspace, agents: list[Agent], answers: list[int]) -> None:
    """Each answer is stored once, and each conversation is in order."""
    expected = Counter(f"{number} {WORDS}" for count in answers for number in range(count))
    assert await stored_answers(workspace) == expected
    for agent, count in zip(agents, answers, strict=True):
        kinds = [entry.message.type for entry in agent.state.messages]
        assert kinds == ["user", "assistant"] * count


@asynccontextmanager
async def own_cluster(workers: int) -> AsyncIterator[Client]:
    """The client of workers which are replaced when they are killed."""
    process = ClusterProcess(workers)
    address, security = await asyncio.to_thread(process.address)
    client = await asyncio.to_thread(lambda: Client(address, security=security, set_as_default=False))
    try:
        yield client
    finally:
        await asyncio.to_thread(client.close)
        await asyncio.to_thread(process.close)


async def kill_one(client: Client, chance: random.Random) -> None:
    await asyncio.to_thread(client.wait_for_workers, 2)
    pids = await asyncio.to_thread(client.run, os.getpid, on_error="ignore")
    os.kill(chance.choice(sorted(pids.values())), signal.SIGKILL)


async def test_killed_workers_lose_no_answer(tmp_path: Path) -> None:
    chance = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    is_over = asyncio.Event()
    async with (
        own_cluster(3) as client,
        ScriptedServer(script(1_000), pace=PACE) as server,
        DaskEngine(client) as engine,
        workspace_in(tmp_path, engine) as workspace,
    ):
        agents = [workspace.add_agent(f"agent{number}", model=server.model()) for number in range(AGENTS)]
        runs = asyncio.gather(*(prompt_until(is_over, agent) for agent in agents))
        for _ in range(WORKER_KILLS):
            await server.until(requests=len(server.requests) + chance.randrange(1, 2 * AGENTS))
            await kill_one(client, chance)
        is_over.set()
        await check_stored(workspace, agents, await runs)
        print(f"{len(server.requests)} requests, {engine.workers()}")


async def stored_rows(
    folder: Path, engine: DaskEngine | None, count: int, model: Model, kill: Callable[[], Awaitable[object]]
) -> list[tuple[str, ...]]:
    """What a session has of so many agents with three prompts each, by agent."""
    runs: list[Run] = []
    async with workspace_in(folder, engine) as workspace:
        agents = [workspace.add_agent(f"agent{number}", model=model) for number in range(count)]
        for start in range(0, count, AT_ONCE):
            chunk = agents[start : start + AT_ONCE]
            runs += [agent.prompt(f"Prompt {number}.") for agent in chunk for number in range(3)]
            await runs[3 * start]
        for number in range(2):
            await asyncio.gather(*runs[number::3])
            await kill()
        await asyncio.gather(*runs)
        names = {agent.id: agent.name for agent in agents}
        frame = await workspace.query_async("SELECT agent_id, role, text FROM messages ORDER BY id")
    rows = zip(frame["agent_id"].map(names), frame["role"], frame["text"], strict=True)
    return sorted(rows, key=itemgetter(0))  # each agent's stay in order


@pytest.mark.parametrize("count", [2_000, 10_000] if SOAK else [200])
async def test_many_agents_have_the_same_rows(tmp_path_factory: pytest.TempPathFactory, count: int) -> None:
    local_folder, remote_folder = (tmp_path_factory.mktemp(name) for name in ("local", "dask"))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    chance = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    with server() as url:
        address = f"{url}/n=20,pace=20000"
        model = as_found(Model(provider="openai", id="m", api="chat", base_url=address, api_key="key"))
        local = await stored_rows(local_folder, None, count, model, partial(asyncio.sleep, 0))
        async with own_cluster(3) as client, DaskEngine(client) as engine:
            remote = await stored_rows(remote_folder, engine, count, model, partial(kill_one, client, chance))
    assert local == remote
    assert len(local) == 6 * count
    assert [row[1:] for row in local[:6:2]] == [("user", f"Prompt {number}.") for number in range(3)]
    assert [row[1] for row in local[1:6:2]] == ["assistant"] * 3


async def test_own_workers_are_replaced() -> None:
    process = ClusterProcess(1)
    address, security = await asyncio.to_thread(process.address)
    async with Client(address, security=security, set_as_default=False, asynchronous=True) as client:
        await client.wait_for_workers(1)
        [lost] = client.scheduler_info()["workers"]
        await client.retire_workers([lost])
        await client.wait_for_workers(1)
        assert lost not in client.scheduler_info()["workers"]
    await asyncio.to_thread(process.close)


@asynccontextmanager
async def driver(cluster: TlsCluster, folder: Path, server: ScriptedServer, count: int) -> AsyncIterator[Driver]:
    """A kernel that maps so many prompts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "support.engine_driver"),
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    given = {"address": cluster.address, "security": cluster.files, "url": server.model().base_url}
    assert process.stdin is not None
    process.stdin.write(json.dumps({**given, "folder": str(folder), "count": count}).encode() + b"\n")
    yield Driver(process)
    if process.returncode is None:
        process.kill()
    await process.wait()


class Driver:
    """A kernel in another process.

    Args:
        process: The process.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def lines(self, most: int | None = None) -> list[str]:
        """What it acknowledges next, to its end if there is no number."""
        assert self.process.stdout is not None
        found: list[str] = []
        while len(found) != most and (line := await self.process.stdout.readline()).endswith(b"\n"):
            found.append(line.decode().strip())
        return found


async def test_killed_kernels_lose_nothing_acknowledged(cluster: TlsCluster, tmp_path: Path) -> None:
    chance = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    count = 10 * (DRIVER_KILLS + 1)
    for folder in (own := tmp_path / "own", beside := tmp_path / "beside"):
        folder.mkdir()
    for _ in range(2):
        cluster.start_worker()
    async with (
        ScriptedServer([WORDS], pace=PACE) as server,
        ScriptedServer([WORDS], pace=PACE) as other,
        driver(cluster, beside, other, count) as undisturbed,
    ):
        acknowledged: list[str] = []
        for _ in range(DRIVER_KILLS):
            async with driver(cluster, own, server, count) as killed:
                acknowledged += await killed.lines(chance.randrange(1, 8))
                killed.process.kill()
                acknowledged += await killed.lines()
                async with asyncio.timeout(5 if SOAK else None):
                    await server.until(answering=0)
        async with driver(cluster, own, server, count) as last:
            acknowledged += await last.lines()
            assert await last.process.wait() == 0
        assert len(await undisturbed.lines()) == count
        assert (len(other.requests), other.ended_early) == (count, 0)
    for folder, least in ((own, acknowledged), (beside, [])):
        sessions = folder / ".planck/sessions"
        done = planck_nb.sessions.query(sessions, "select prompt from map_items where status = 'done'").prompt
        assert set(least) <= set(done)
        assert (len(done), done.nunique()) == (count, count)


async def test_a_cut_network_loses_no_answer(cluster: TlsCluster, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    scheduler = int(cluster.address.rpartition(":")[2])
    is_over = asyncio.Event()
    async with Cable(scheduler) as first, Cable(ports[0]) as second, Cable(ports[1]) as third:
        for port, cable in zip(ports, (second, third), strict=True):
            contact = ("--contact-address", f"tls://127.0.0.1:{cable.port}")
            cluster.start_worker("--listen-address", f"tls://127.0.0.1:{port}", *contact)
        async with engine_of(cluster, 2):
            pass  # now all three listen
        client = await asyncio.to_thread(cluster.client, f"tls://127.0.0.1:{first.port}")
        await asyncio.to_thread(client.wait_for_workers, 2)
        async with (
            ScriptedServer(script(1_000), pace=PACE) as server,
            DaskEngine(client) as engine,
            workspace_in(tmp_path, engine) as workspace,
        ):
            agents = [workspace.add_agent(f"agent{number}", model=server.model()) for number in range(AGENTS)]
            runs = asyncio.gather(*(prompt_until(is_over, agent) for agent in agents))
            await server.until(requests=2 * AGENTS)
            for cable in (first, second, third):
                cable.cut()
            await asyncio.sleep(CUT_SECONDS)  # the cut, not a wait for anything
            for cable in (first, second, third):
                cable.mend()
            await server.until(requests=len(server.requests) + 2 * AGENTS)
            is_over.set()
            await check_stored(workspace, agents, await runs)
        await asyncio.to_thread(client.close)


def compute() -> None:
    """Block the event loop, as a person's cell does."""
    end = time.monotonic() + BLOCKED_SECONDS
    while time.monotonic() < end:
        pass


def stand_still() -> None:
    """Block all threads, as the collector of garbage and some libraries do."""
    ctypes.PyDLL(None).sleep(int(BLOCKED_SECONDS))


@pytest.mark.parametrize("block", [compute, stand_still])
async def test_a_blocked_kernel_loses_no_agent(cluster: TlsCluster, tmp_path: Path, block: Callable[[], None]) -> None:
    for _ in range(2):
        cluster.start_worker()
    async with (
        engine_of(cluster, 2) as engine,
        ScriptedServer(script(2), pace=PACE) as server,
        workspace_in(tmp_path, engine) as workspace,
    ):
        agents = [workspace.add_agent(f"agent{number}", model=server.model()) for number in range(AGENTS)]
        runs = [agent.prompt("Write.") for agent in agents for _ in range(2)]
        await server.until(answering=AGENTS)
        block()
        await asyncio.gather(*runs)
        await check_stored(workspace, agents, [2] * AGENTS)
        assert len(server.requests) == 2 * AGENTS


async def test_a_cluster_may_shrink_to_nothing_and_return(cluster: TlsCluster) -> None:
    workers = [cluster.start_worker() for _ in range(2)]
    async with engine_of(cluster, 2) as engine, ScriptedServer(["one two three"], held=True) as server:
        run = Agent(model=server.model(), client=ai.Client(engine=engine)).prompt("Count.")
        await server.until(answering=1)
        for worker in workers:
            cluster.end(worker)
        await server.until(ended_early=1)
        cluster.start_worker()
        server.release()
        assert (await run).text == "one two three"


async def test_a_restarted_scheduler_loses_no_agent(cluster: TlsCluster) -> None:
    cluster.start_worker()
    async with engine_of(cluster, 1) as engine, ScriptedServer(["one", "two"]) as server:
        agent = Agent(model=server.model(), client=ai.Client(engine=engine))
        await agent.prompt("Count.")
        cluster.end(cluster.scheduler)
        cluster.start_scheduler()
        cluster.start_worker()
        assert (await agent.prompt("Count.")).text == "two"


async def test_another_version_is_left_out_and_another_clock_is_not(cluster: TlsCluster, tmp_path: Path) -> None:
    ours = Path(planck_nb.__file__).parent
    shutil.copytree(ours, tmp_path / "old/planck_nb", ignore=shutil.ignore_patterns("static", "__pycache__"))
    (tmp_path / "old/planck_nb/base/version.py").write_text('__version__ = "0.0.1"\n')
    (tmp_path / "late").mkdir()
    (tmp_path / "late/sitecustomize.py").write_text("import time\nnow = time.time\ntime.time = lambda: now() - 3600\n")
    cluster.start_worker(path=tmp_path / "old")
    cluster.start_worker(path=tmp_path / "late")
    async with engine_of(cluster, 2) as engine, ScriptedServer(["Hello."]) as server:
        agents = [Agent(model=server.model(), client=ai.Client(engine=engine)) for _ in range(4)]
        assert {result.text for result in await asyncio.gather(*(agent.prompt("Hi.") for agent in agents))} == {
            "Hello."
        }
        shares = engine.workers()
    assert sorted(worker.answered for worker in shares) == [0, 4]
    [problem] = [worker.problem for worker in shares if not worker.answered]
    assert "has planck_nb 0.0.1 instead of" in problem
