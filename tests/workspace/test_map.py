"""`Workspace.map`: many prompts, each answered once, through kills, limits and bad input."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import statistics
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.loopback import Exchange, serving
from support.mapping import map_numbers, priced_model, resident_megabytes
from support.wire import CHAT_HELLO

from planck_nb import Config, Tool, Workspace
from planck_nb.base.errors import LimitError, SessionLockedError, UsageError
from planck_nb.sessions import query
from planck_nb.testing import scripted_model
from planck_nb.workspace import MapItem, MapRun

SOAK = bool(os.environ.get("PLANCK_NB_SOAK"))
KILLS = 10 if SOAK else 3
TESTS = Path(__file__).parents[1]
YES = scripted_model(["Yes."])


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)) as opened:
        yield opened


async def hello(exchange: Exchange) -> None:
    await exchange.head()
    for chunk in CHAT_HELLO:
        await exchange.send(chunk)
    await exchange.end()


async def test_the_same_call_again_asks_only_what_has_no_answer(workspace: Workspace) -> None:
    first = await workspace.map(["a", "b", "a"], model=YES)
    assert (first.asked, first.stored) == (2, 0)
    second = await workspace.map(iter(["a", "b", "c"]), model=YES)
    assert (second.asked, second.stored) == (1, 2)
    assert [item.prompt async for item in second] == ["a", "b", "c"]
    assert sorted([item.prompt async for item in second.as_finished()]) == ["a", "b", "c"]
    assert (await first.frame()).prompt.tolist() == ["a", "b", "a"]
    assert workspace.agents == {}


@dataclass
class Product:
    name: str
    error: int


async def test_a_frame_with_a_template_gives_the_fields_of_the_answers(workspace: Workspace) -> None:
    tickets = pd.DataFrame({"text": ["too hot", "too cold"], "ticket": ["t1", "t2"]})
    model = scripted_model(['{"name": "oven", "error": 7}'])
    run = await workspace.map(tickets, template="Product? {text}", key="ticket", model=model, output=Product)
    frame = await run.frame()
    assert frame.index.tolist() == ["t1", "t2"]
    assert frame[["prompt", "name", "answer_error"]].to_numpy().tolist()[0] == ["Product? too hot", "oven", 7]
    assert [item.answer async for item in run] == [Product("oven", 7)] * 2


async def test_the_settings_of_the_agent_are_used_without_its_history(workspace: Workspace) -> None:
    ann = workspace.add_agent("ann", model=YES, system_prompt="Be brief.")
    await ann.prompt("Remember 4711.")
    await workspace.map(["a"], agent="ann")
    rows = await workspace.query_async("select system_prompt, messages from agents join map_items using (agent_id)")
    assert rows.to_numpy().tolist() == [["Be brief.", 2]]


async def test_a_failure_is_a_row_and_is_asked_again(workspace: Workspace) -> None:
    broken = scripted_model([{"error": "The server is on fire."}])
    run = await workspace.map(["a", "b"], model=broken)
    assert run.failed == 2
    items = [item async for item in run]
    assert items[0].answer is None
    assert "on fire" in items[0].error
    assert (await workspace.map(["a"], model=broken)).asked == 1


async def test_changed_settings_are_named_and_need_consent(workspace: Workspace) -> None:
    await workspace.map(["a", "b"], model=YES)
    with pytest.raises(UsageError, match=r"^The output changed since 2 of these items were answered; `again` asks"):
        await workspace.map(["a", "b", "c"], model=YES, output=dict[str, int])
    with pytest.raises(UsageError, match="The system prompt changed"):
        await workspace.map(iter(["a"]), agent=workspace.add_agent("ann", model=YES, system_prompt="Be brief."))
    assert (await workspace.map(["a", "b"], agent="ann", again=True)).asked == 2


def raising() -> Iterator[str]:
    yield from map(str, range(69))
    raise OSError("the disk has gone")


@pytest.mark.parametrize(
    ("prompts", "options", "sentence"),
    [
        (raising(), {}, "at item 70 (OSError: the disk has gone); the answers to those before it are kept"),
        (["a", float("nan")], {}, "Item 2 has no text (nan)"),
        (["a", "b"], {"key": lambda _: 1}, "Item 2 has the key '1' of an earlier item"),
        (["a"], {"key": lambda _: None}, "Item 1 has no key (None)"),
        (["sent " + "s3cret-s3cret-s3cret"], {}, "Item 1 contains a secret"),
        (pd.DataFrame({"x": [None]}), {"template": "Say {x}"}, "Item 1 has no value in x"),
        (pd.DataFrame({"x": [1, float("nan")]}), {"template": "Say {x}"}, "Item 2 has no value in x"),
        (pd.DataFrame([["a", "b"]], columns=["x", "x"]), {"template": "{x}"}, "several columns named 'x'"),
        (pd.DataFrame({"x": ["s3cret-s3cret-s3cret"]}), {"template": "Say {x}"}, "Item 1 contains a secret"),
        (pd.DataFrame({"x": [1, 1]}), {"template": "{x}", "key": "x"}, "Item 2 has the key '1' of an earlier item"),
        (pd.DataFrame({"x": ["a"]}), {"template": "Say {y}"}, "The template does not fit item 1"),
    ],
)
async def test_prompts_that_cannot_be_sent_are_named(
    workspace: Workspace, prompts: Any, options: dict[str, Any], sentence: str
) -> None:
    from planck_nb.base.secrets import remember_secret

    remember_secret("s3cret-s3cret-s3cret", "TEST_KEY")
    with pytest.raises(UsageError) as raised:
        await workspace.map(prompts, model=YES, **options)
    assert sentence in str(raised.value)
    if prompts is not None and not hasattr(prompts, "__len__"):
        assert len(await workspace.query_async("from map_items where status = 'done'")) == 69


@pytest.mark.parametrize(
    ("prompts", "options", "sentence"),
    [
        ("a", {}, "put one prompt in a list"),
        (["a"], {"template": "{x}"}, "A frame needs a `template`"),
        (["a"], {"concurrency": 0}, "`concurrency` must be a whole number"),
        (["a"], {"cost": -1}, "`cost` must be 0 or more"),
        (["a"], {"first": 0}, "`first` must be a whole number"),
        (["a"], {"key": "x"}, "There is no column 'x'"),
        (["a"], {"agent": "ann"}, "not both"),
    ],
)
async def test_arguments_that_cannot_be_used_are_refused_at_once(
    workspace: Workspace, prompts: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        workspace.map(prompts, model=YES, **options)


async def test_a_cell_with_ten_megabytes_is_a_row_like_others(workspace: Workspace) -> None:
    texts = pd.DataFrame({"x": ["word " * 2_000_000, "short"]})
    async with serving(hello) as server:
        run = await workspace.map(texts, template="Say {x}", model=priced_model(server.url))
    assert (run.asked, run.failed) == (2, 0)
    assert (await run.frame()).prompt.str.len().tolist() == [10_000_004, 9]


async def test_two_kernels_cannot_map_into_one_session(tmp_path: Path) -> None:
    def config() -> Config:
        return Config.load(environment={}, directory=tmp_path, home=tmp_path)

    async with Workspace(config()) as second:
        async with Workspace(config()) as first:
            await first.map(["a", "b"], model=YES)
            session = first.session.id
            with pytest.raises(SessionLockedError):
                await second.resume(session)
            assert (await second.map(["a"], model=YES)).asked == 1
        await second.resume(session)
        assert (await second.map(["a", "b", "c"], model=YES)).asked == 1


async def test_stop_keeps_what_was_answered(workspace: Workspace) -> None:
    waiting = asyncio.Event()

    async def prompts() -> AsyncIterator[str]:
        yield "a"
        waiting.set()
        await asyncio.Event().wait()

    run = workspace.map(prompts(), model=YES)
    assert [item.prompt async for item in _first(run, 1)] == ["a"]
    await waiting.wait()
    run.stop()
    await run
    assert run.stopped
    assert len(await run.frame()) == 1


async def test_stop_ends_replies_in_flight_and_keeps_what_was_answered(workspace: Workspace) -> None:
    in_flight, closed = asyncio.Event(), asyncio.Queue[None]()

    async def slow(exchange: Exchange) -> None:
        if len(server.exchanges) == 1:
            await hello(exchange)
            return
        await exchange.head()
        await exchange.send(CHAT_HELLO[0])
        if len(server.exchanges) == 5:
            in_flight.set()
        await exchange.closed()
        closed.put_nowait(None)

    async with serving(slow) as server:
        prompts = [str(number) for number in range(1_000)]
        run = workspace.map(prompts, model=priced_model(server.url), concurrency=4)
        await in_flight.wait()
        run.stop()
        await run
        for _ in range(4):
            await closed.get()
        assert len(server.exchanges) == 5
    assert (run.progress.state, run.progress.in_flight) == ("stopped", 0)
    rows = await workspace.query_async("select status, count(*) from map_items group by all order by all")
    assert rows.to_numpy().tolist() == [["done", 1], ["stopped", 4]]


async def _first(run: MapRun, count: int) -> AsyncIterator[MapItem]:
    async for item in run:
        yield item
        count -= 1
        if not count:
            return


async def test_the_limit_of_cost_holds_but_for_what_was_in_flight(workspace: Workspace) -> None:
    async with serving(hello) as server:
        prompts = [str(number) for number in range(40)]
        run = await workspace.map(prompts, model=priced_model(server.url), concurrency=4, cost=70e-6)
        assert 10 <= len(server.exchanges) <= 13  # 7 tokens each
        assert run.limit.startswith("The map has used up its 7e-05 US dollars")
        again = await workspace.map(prompts, model=priced_model(server.url), concurrency=4, cost=70e-6)
        assert (again.asked, bool(again.limit)) == (0, True)
    rows = await workspace.query_async("select sum(cost_usd) as cost from map_items")
    assert rows["cost"][0] == pytest.approx(run.cost)


async def test_a_limit_of_cost_needs_a_price(workspace: Workspace) -> None:
    from dataclasses import replace

    unpriced = replace(priced_model("https://example.org"), pricing=None)
    with pytest.raises(LimitError, match="so `cost` cannot hold"):
        await workspace.map(["a"], model=unpriced, cost=5)


async def test_a_preview_says_what_the_rest_costs_and_goes_on_only_when_told(workspace: Workspace) -> None:
    async with serving(hello) as server:
        model = priced_model(server.url)
        run = await workspace.map([str(number) for number in range(10)], model=model, first=4)
        assert len(server.exchanges) == run.asked == 4
        assert run.estimate is not None
        assert run.estimate.rest == 6
        assert run.estimate.cost == pytest.approx(6 * 7e-6)
        assert str(run.estimate).startswith("The other 6 items will cost about <$0.001 and take about 0 s.")
        assert run.progress.state == "preview"
        assert run.progress.expected_cost == pytest.approx(10 * 7e-6)
        await workspace.map([str(number) for number in range(10)], model=model, first=4)
        assert len(server.exchanges) == 4
        assert await run.go_on() is run
        assert len(server.exchanges) == run.asked == 10
    assert [item.prompt async for item in run] == [str(number) for number in range(10)]
    with pytest.raises(UsageError, match="has asked all prompts, so it cannot go on"):
        run.go_on()


async def test_a_preview_of_an_iterator_reads_no_further(workspace: Workspace) -> None:
    prompts = iter(["a", "b", "c"])
    run = await workspace.map(prompts, model=YES, first=1)
    assert str(run.estimate).startswith("Each further item will cost nothing")
    assert next(prompts) == "b"
    assert (await run.go_on()).progress.headline == "2 items"


class _Limited:
    """A server that refuses what comes faster than a rate, by its own clock of answers.

    Args:
        rate: Requests that it answers in a second.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.times: list[float] = []
        self.refused = 0

    async def __call__(self, exchange: Exchange) -> None:
        now = asyncio.get_running_loop().time()
        if sum(now - time < 1 for time in self.times) >= self.rate:
            self.refused += 1
            await exchange.head("429 Too Many Requests", retry_after="1")
            await exchange.end()
            return
        self.times.append(now)
        await hello(exchange)


@pytest.mark.timeout(120)
async def test_a_rate_limit_ends_without_failures(workspace: Workspace) -> None:
    count = 1_000 if SOAK else 200
    limited = _Limited(20)
    async with serving(limited) as server:
        run = await workspace.map([str(n) for n in range(count)], model=priced_model(server.url), concurrency=64)
    assert (run.failed, len(limited.times)) == (0, count)
    assert limited.refused < count
    if SOAK:
        assert count / (limited.times[-1] - limited.times[0]) >= 16


@pytest.mark.parametrize(("wait", "failed", "asked"), [("1", 0, 6), ("3600", 4, 4)])
@pytest.mark.timeout(60)
async def test_a_server_that_refuses_for_a_time_is_asked_again_if_it_is_short(
    tmp_path: Path, wait: str, failed: int, asked: int
) -> None:
    async def refusing(exchange: Exchange) -> None:
        if len(server.exchanges) <= 4:
            await exchange.head("429 Too Many Requests", retry_after=wait)
            await exchange.end()
        else:
            await hello(exchange)

    config = Config.load(environment={}, directory=tmp_path, home=tmp_path, first_retry_seconds=0.5)
    async with Workspace(config) as workspace, serving(refusing) as server:
        prompts = [str(number) for number in range(6)]
        run = await workspace.map(prompts, model=priced_model(server.url), concurrency=4)
        assert (run.failed, run.asked) == (failed, asked)
        assert run.limit.endswith("the same call asks the rest later.") == bool(failed)
        assert (await workspace.map(prompts, model=priced_model(server.url))).asked == failed + 6 - asked


async def test_a_server_that_is_overloaded_gets_fewer_items_at_once(workspace: Workspace) -> None:
    active, most = 0, 0
    free = asyncio.Event()

    async def overloaded(exchange: Exchange) -> None:
        nonlocal active, most
        if active >= 2:
            await exchange.head("503 Service Unavailable", retry_after="0")
            await exchange.end()
            free.set()
            return
        active += 1
        most = max(most, active)
        if not free.is_set():
            await free.wait()
        await hello(exchange)
        active -= 1

    async with serving(overloaded) as server:
        run = workspace.map([str(n) for n in range(60)], model=priced_model(server.url), concurrency=32)
        assert run.progress.concurrency == 32
        await free.wait()
        await run
    assert run.failed == 0
    assert run.progress.concurrency < 32


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
@pytest.mark.timeout(300)
async def test_a_kill_at_any_moment_pays_twice_at_most_for_what_is_named(tmp_path: Path) -> None:
    chance = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    count, reached = 100 * KILLS, asyncio.Event()
    until = 0
    asked: list[str] = []

    async def counting(exchange: Exchange) -> None:
        asked.append(exchange.body["messages"][-1]["content"])
        if len(asked) >= until:
            reached.set()
        await hello(exchange)

    async with serving(counting) as server:
        for _ in range(KILLS):
            until = len(asked) + chance.randrange(1, 50)
            reached.clear()
            writer = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "support.mapping",
                str(tmp_path),
                server.url,
                str(count),
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )
            await reached.wait()
            writer.kill()
            await writer.wait()
        directory = tmp_path / ".planck/sessions"
        before = query(directory, "select prompt, status from map_items")
        done = set(before.prompt[before.status == "done"])
        unanswered = set(asked) - done
        run = await map_numbers(tmp_path, server.url, count)
        named = {f"Prompt {int(name) - 1}" for name in run.interrupted}
        assert unanswered <= named
        assert len(named) <= 5 * KILLS  # what was in flight
        assert run.interrupted_cost >= 7e-6 * len(named)
        requests = len(asked)
        third = await map_numbers(tmp_path, server.url, count)
        assert (len(asked), third.asked, third.stored, third.interrupted) == (requests, 0, count, [])
    rows = query(directory, "select prompt from map_items where status = 'done'")
    assert (len(rows), rows.prompt.nunique()) == (count, count)
    assert len(asked) - count <= len(query(directory, "from map_items where status = 'open'"))
    in_flight = set(query(directory, "select prompt from map_items where status = 'open'").prompt)
    assert {text for text in asked if asked.count(text) > 1} <= in_flight


@pytest.mark.timeout(300)
async def test_memory_stays_flat(workspace: Workspace) -> None:
    async def prompts() -> AsyncIterator[str]:
        for number in range(2_000):
            if number == 1_000:
                tracemalloc.start()
            yield f"Prompt {number} {'x' * 10_000}"

    try:
        await workspace.map(prompts(), model=YES)
        workspace.session.materialize()  # its thread has thousands of lines meanwhile
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000  # a thousand prompts have 10 MB


@pytest.mark.soak
@pytest.mark.skipif(not SOAK or not sys.platform.startswith("linux"), reason="takes minutes; set PLANCK_NB_SOAK")
@pytest.mark.timeout(3600)
async def test_a_hundred_thousand_items_take_less_than_a_kilobyte_each(workspace: Workspace) -> None:
    megabytes: list[float] = []

    async def prompts() -> AsyncIterator[str]:
        for number in range(100_001):
            if number % 100 == 0:
                megabytes.append(resident_megabytes())
            yield f"Prompt {number}"

    run = await workspace.map(prompts(), model=YES)
    assert (run.asked, run.failed) == (100_001, 0)
    tenths = [statistics.median(megabytes[first : first + 100]) for first in range(0, 1_000, 100)]
    # Most of it is DuckDB's, which copies the rows into a file of 200 MB meanwhile.
    assert max(tenths[1:]) - min(tenths[1:]) < 90, tenths


async def test_an_interrupted_item_whose_tool_may_have_acted_waits_for_consent(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def pay(args: dict[str, Any]) -> str:
        if not started.is_set():
            started.set()
            await asyncio.Event().wait()
        return "paid"

    model = scripted_model([{"calls": [{"name": "pay", "arguments": {}}]}, "Paid."])
    tool = Tool(name="pay", description="Pay.", execute_fn=pay)
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path)
    async with Workspace(config) as workspace:
        run = workspace.map(["a"], agent=workspace.add_agent("ann", model=model, tools=[tool]))
        await started.wait()
        with pytest.raises(UsageError, match=r"Item 1 is being asked by another map at the moment"):
            await workspace.map(["a"], agent="ann")
        rows = await workspace.query_async("select status from map_items")
        assert rows["status"].tolist() == ["open"]
        shutil.copytree(tmp_path / ".planck", tmp_path / "dead/.planck")  # as it would be if the process died now
        run.stop()
        await run
    async with Workspace(Config.load(environment={}, directory=tmp_path / "dead", home=tmp_path)) as workspace:
        await workspace.resume(find=lambda name: tool if name == "pay" else None)
        assert list(workspace.agents) == ["ann"]
        assert workspace.unanswered == ()
        second = await workspace.map(["a"], agent="ann")
        assert (second.asked, second.skipped, second.interrupted) == (0, ["1"], ["1"])
        assert (await workspace.map(["a"], agent="ann", again=True)).asked == 1
