"""A Dask engine whose workers, scheduler or kernel fail, and who may use it."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from distributed.comm import Comm, connect, listen
from support.agents import until

from planck_nb import Agent, Config, Run, Workspace, ai
from planck_nb.ai.dialect import Pause
from planck_nb.ai.models import Pricing
from planck_nb.ai.providers import dialect
from planck_nb.ai.retries.retry import RetryPolicy, Timeouts
from planck_nb.ai.stream_events import Finish, StreamEvent, TextChunk
from planck_nb.base.errors import ProviderConnectionError, ProviderTimeoutError, RateLimitError, UsageError
from planck_nb.engines import DaskEngine
from planck_nb.engines.link_format import READ, Setup, read_error, read_events, versions, write_error, write_events
from planck_nb.engines.local_cluster import ClusterProcess
from planck_nb.engines.request_host import RequestHost
from planck_nb.jupyter.agent_rows import agent_rows, columns_of
from planck_nb.testing.scripted_server import ScriptedServer

SECRET = "sk-only-in-the-environment"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """The client of a cluster with TLS, in a process of its own, started where a key was set."""
    os.environ["OPENAI_API_KEY"] = SECRET
    try:
        process = ClusterProcess(2)
    finally:
        del os.environ["OPENAI_API_KEY"]
    address, security = process.address()
    with Client(address, security=security, set_as_default=False) as client:
        yield client
    process.close()


@pytest.fixture
async def engine(cluster: Client) -> AsyncIterator[DaskEngine]:
    await asyncio.to_thread(cluster.wait_for_workers, 2)  # the test before may have ended one
    async with DaskEngine(cluster) as engine:
        yield engine


def agent_of(engine: DaskEngine, server: ScriptedServer) -> Agent:
    return Agent(model=server.model(), client=ai.Client(engine=engine, retries=RetryPolicy(retries=5, base=0.05)))


def busy_worker(engine: DaskEngine) -> str:
    [worker] = [state.worker for state in engine.workers() if state.running]
    return worker


async def test_a_killed_worker_loses_no_answer(cluster: Client, engine: DaskEngine) -> None:
    async with ScriptedServer(["one two three"], held=True) as server:
        agent = agent_of(engine, server)
        run = agent.prompt("Count.")
        await server.until(answering=1)
        pids = await asyncio.to_thread(cluster.run, os.getpid)
        os.kill(pids[busy_worker(engine)], signal.SIGKILL)
        await server.until(requests=2)
        server.release()
        assert (await run).text == "one two three"
    assert [entry.message.type for entry in agent.state.messages] == ["user", "assistant"]


async def stored_answers(workspace: Workspace) -> list[tuple[str, int]]:
    """The answers in the session, with their number."""
    frame = await workspace.query_async("SELECT text FROM messages WHERE role = 'assistant'")
    return sorted(Counter(frame["text"]).items())


async def test_restarted_workers_lose_no_answer(cluster: Client, engine: DaskEngine) -> None:
    async with ScriptedServer(["one two three"], held=True) as server:
        run = agent_of(engine, server).prompt("Count.")
        await server.until(answering=1)
        await asyncio.to_thread(cluster.restart)
        server.release()
        assert (await run).text == "one two three"


async def test_workers_are_counted(engine: DaskEngine) -> None:
    async with ScriptedServer(["one two three"], held=True) as server:
        runs: list[Run] = []
        for number in range(6):
            runs.append(agent_of(engine, server).prompt("Hi."))
            await server.until(answering=number + 1)
        assert [worker.running for worker in engine.workers()] == [3, 3]
        server.release()
        await asyncio.gather(*runs)
    shares = engine.workers()
    assert [worker.answered for worker in shares] == [3, 3]
    assert all((worker.running, worker.problem) == (0, "") for worker in shares)


async def test_a_workspace_stores_each_answer_once(engine: DaskEngine, tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path)
    async with ScriptedServer(["one", "two"]) as server, Workspace(config, engine=engine) as workspace:
        agents = [workspace.add_agent(f"agent{number}", model=server.model()) for number in range(20)]
        for _ in range(2):
            await asyncio.gather(*(agent.prompt("Next.") for agent in agents))
        assert await stored_answers(workspace) == [("one", 20), ("two", 20)]


async def test_views_say_where_a_request_runs(engine: DaskEngine, tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path)
    async with ScriptedServer(["one two three"], held=True) as server, Workspace(config, engine=engine) as workspace:
        agent = workspace.add_agent("ann", model=server.model())
        run = agent.prompt("Count.")
        await until(run, "text_delta")
        assert agent.info().runs_on == busy_worker(engine)
        [row] = agent_rows(workspace)
        assert busy_worker(engine) == f"tls://{row['runs_on']}"
        assert "runs_on" in columns_of(workspace, teams=False)
        server.release()
        await run
        assert agent.info().runs_on == ""


async def test_a_map_is_asked_from_workers(engine: DaskEngine, tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path)
    async with ScriptedServer(["Yes."]) as server, Workspace(config, engine=engine) as workspace:
        items = [item async for item in workspace.map([f"Is {n} prime?" for n in range(40)], model=server.model())]
        assert {item.answer for item in items} == {"Yes."}
        assert len(items) == len(server.requests) == sum(worker.answered for worker in engine.workers()) == 40


async def test_a_limit_of_cost_holds_over_all_workers(engine: DaskEngine, tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path)
    async with ScriptedServer(["Yes."]) as server, Workspace(config, engine=engine) as workspace:
        model = server.model(pricing=Pricing(input=0.0, output=50_000.0))  # 0.1 a reply
        run = workspace.map([f"Is {n} prime?" for n in range(60)], model=model, cost=1.0, concurrency=4)
        await run
        assert "cost" in run.limit
        assert 10 <= len(server.requests) <= 10 + 4


async def test_two_kernels_share_a_cluster(cluster: Client) -> None:
    async with (
        DaskEngine(cluster) as first,
        DaskEngine(cluster) as second,
        ScriptedServer(["one two three"], held=True) as server,
    ):
        runs = [agent_of(engine, server).prompt("Count.") for engine in (first, second) for _ in range(3)]
        await server.until(requests=6)
        server.release()
        assert [(await run).text for run in runs] == ["one two three"] * 6
        assert [sum(worker.answered for worker in engine.workers()) for engine in (first, second)] == [3, 3]


async def test_a_client_without_tls_cannot_connect(cluster: Client, engine: DaskEngine) -> None:
    address = cluster.scheduler.address.replace("tls://", "tcp://")
    with pytest.raises(OSError):  # noqa: PT011 - of the operating system or of Dask
        await asyncio.to_thread(Client, address, timeout=2, set_as_default=False)
    async with ScriptedServer(["Hello."]) as server:
        assert (await agent_of(engine, server).prompt("Hi.")).text == "Hello."


async def test_workers_have_no_key_in_their_environment(cluster: Client) -> None:
    environments = await asyncio.to_thread(cluster.run, lambda: dict(os.environ))
    assert len(environments) == 2
    assert SECRET not in str(environments)


@pytest.fixture
def plain_cluster() -> Iterator[Callable[[int], Client]]:
    """Makes clusters without TLS, in this process."""
    opened: list[Any] = []

    def make(workers: int) -> Client:
        cluster = LocalCluster(
            n_workers=workers, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        client = Client(cluster, set_as_default=False)
        opened.extend((client, cluster))
        return client

    yield make
    for each in opened:
        each.close()


async def test_a_cluster_without_tls_needs_a_word(plain_cluster: Callable[[int], Client]) -> None:
    client = await asyncio.to_thread(plain_cluster, 1)
    with pytest.raises(UsageError, match="insecure=True"):
        DaskEngine(client)
    async with ScriptedServer(["Hello."]) as server, DaskEngine(client, insecure=True) as engine:
        assert (await agent_of(engine, server).prompt("Hi.")).text == "Hello."


async def test_a_cluster_without_workers_says_so(plain_cluster: Callable[[int], Client]) -> None:
    client = await asyncio.to_thread(plain_cluster, 0)
    async with ScriptedServer([]) as server, DaskEngine(client, patience=0, insecure=True) as engine:
        agent = Agent(model=server.model(), client=ai.Client(engine=engine, retries=RetryPolicy(retries=0)))
        with pytest.raises(ProviderConnectionError, match="no workers"):
            await agent.prompt("Hi.")


async def test_a_closed_client_ends_its_requests(plain_cluster: Callable[[int], Client]) -> None:
    client = await asyncio.to_thread(plain_cluster, 1)
    engine = DaskEngine(client, insecure=True)
    async with ScriptedServer(["one two three"], held=True) as server:
        agent = agent_of(engine, server)
        run = agent.prompt("Count.")
        await server.until(answering=1)
        await asyncio.to_thread(client.close)
        with pytest.raises(UsageError, match="client is closed"):
            await run
    await engine.aclose()


@pytest.mark.parametrize(
    "answer",
    [None, ("1", None), 7, (1, [*((f"{request}", "end", b"") for request in range(10_000)), 7])],
    ids=["ending", "no pieces", "no pair", "no piece after ends"],
)
async def test_a_worker_that_answers_nonsense_loses_no_answer(
    plain_cluster: Callable[[int], Client], answer: object
) -> None:
    client = await asyncio.to_thread(plain_cluster, 1)
    [worker] = client.cluster.workers.values()
    async with ScriptedServer(["one two three"], held=True) as server, DaskEngine(client, insecure=True) as engine:
        run = agent_of(engine, server).prompt("Count.")
        await server.until(answering=1)
        read = worker.handlers[READ]

        def answer_once(**_: object) -> object:
            worker.handlers[READ] = read
            return answer

        worker.handlers[READ] = answer_once
        await server.until(requests=2, ended_early=1)
        server.release()
        assert (await run).text == "one two three"


@pytest.fixture
async def host() -> AsyncIterator[RequestHost]:
    host = RequestHost()
    try:
        yield host
    finally:
        await asyncio.to_thread(host.close)


@pytest.fixture
async def comm() -> AsyncIterator[Comm]:
    """A kernel's connection."""
    accepted: asyncio.Queue[Comm] = asyncio.Queue()
    async with listen("inproc://", accepted.put) as listener:
        comm = await connect(listener.contact_address)
        yield comm
        comm.abort()
        (await accepted.get()).abort()


def order_to(server: ScriptedServer) -> dict[str, Any]:
    model = server.model()
    body = b'{"model": "scripted", "messages": [{"role": "user", "content": "Count."}], "stream": true}'
    setup = Setup(model, dialect(model), Timeouts()).pickled()
    return {"orders": [("1", 7, f"{model.base_url}/chat/completions", {}, body)], "setups": {7: setup}, "stops": []}


async def test_two_questions_at_once_get_the_same_pieces(host: RequestHost, comm: Comm) -> None:
    async with ScriptedServer(["one two three"]) as server:
        await host.start(comm, kernel="k", epoch=1, **order_to(server))
        first, second = await asyncio.gather(host.read(comm, "k", 1, 0), host.read(comm, "k", 1, 0))
    assert first == second
    assert first[0] == 1


async def test_a_new_epoch_ends_the_requests_before_it(host: RequestHost, comm: Comm) -> None:
    async with ScriptedServer(["one two three"], held=True) as server:
        await host.start(comm, kernel="k", epoch=1, **order_to(server))
        await server.until(answering=1)
        await host.start(comm, kernel="k", epoch=2, orders=[], setups={}, stops=[])
        await server.until(ended_early=1)
        await host.start(comm, kernel="k", epoch=1, **order_to(server))  # late
        assert len(server.requests) == 1


async def test_something_else_than_a_client_is_refused() -> None:
    with pytest.raises(UsageError, match=r"distributed\.Client"):
        DaskEngine("tls://127.0.0.1:8786")


async def test_versions_are_compared() -> None:
    host = RequestHost()
    try:
        assert await host.hello(versions()) == ""
        assert await host.hello({**versions(), "Python": "2.7"}) == f"Python {versions()['Python']} instead of 2.7"
    finally:
        host.close()


def test_errors_arrive_as_they_were() -> None:
    error = RateLimitError("Too many.", status=429, retry_after=2.0, provider="groq", model="m")
    error.request_id = "r1"
    found = read_error(write_error(error), "w")
    assert type(found) is RateLimitError
    assert (str(found), vars(found)) == (str(error), vars(error))


def test_a_workers_own_error_names_the_worker() -> None:
    found = read_error(write_error(MemoryError("full")), "tls://w:1")
    assert type(found) is ProviderConnectionError
    assert "tls://w:1" in str(found)


def test_a_connections_error_names_the_worker() -> None:
    found = read_error(write_error(ProviderTimeoutError("Too slow.")), "tls://w:1")
    assert type(found) is ProviderTimeoutError
    assert str(found) == "Worker tls://w:1 reports: Too slow."


@pytest.mark.parametrize("data", [b"", b"{}", pickle.dumps([1]), b'[{"type": "code"}]', b'[{"type": "text_delta"}]'])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - pydantic's
        read_events(data)


def test_chunks_of_a_part_are_joined() -> None:
    events: list[StreamEvent | Pause] = [TextChunk(0, "a"), TextChunk(0, "b"), TextChunk(1, "c"), Finish("stop")]
    assert read_events(write_events(events)) == [TextChunk(0, "ab"), TextChunk(1, "c"), Finish("stop")]
