"""Tools that show their work while they run."""

from __future__ import annotations

import asyncio
import threading

import pytest

from planck_nb import Agent, Tool
from planck_nb.agent.calling.progress import INTERVAL, REPORT_CHARACTERS, ProgressReporter
from planck_nb.agent.calling.tool import ToolContext
from planck_nb.agent.state import fold
from planck_nb.base.secrets import MAX_LENGTH
from planck_nb.testing import Call, Reply, scripted_model


async def test_a_tool_that_asks_gets_its_context_and_shows_its_work() -> None:
    seen: list[ToolContext] = []

    def work(call_id: str, args: dict[str, object], context: ToolContext) -> str:
        seen.append(context)
        context.progress("half ")
        context.progress("way")
        return f"{call_id} {args['n']}"

    tool = Tool(name="work", description="Works.", execute_fn=work)
    agent = Agent(model=scripted_model([Reply(calls=[Call("work", {"n": 3})]), "done"]), tools=[tool])
    before = agent.state
    events = [event async for event in agent.prompt("go")]
    shown = [event for event in events if event.type == "tool_progress"]
    ended = next(event for event in events if event.type == "tool_end")
    assert "".join(event.text for event in shown) == "half way"
    assert {(event.id, event.name) for event in shown} == {(ended.id, "work")}
    assert max(event.seq for event in shown) < ended.seq
    assert ended.result == f"{ended.id} 3"
    assert (seen[0].agent_id, seen[0].call_id) == (agent.id, ended.id)
    for event in events:
        before = fold(before, event)
    assert before == agent.state


async def test_reports_come_at_a_readable_pace_and_keep_the_newest() -> None:
    reports: list[tuple[float, str]] = []
    loop = asyncio.get_running_loop()
    progress = ProgressReporter(lambda text: reports.append((loop.time(), text)))

    def talk() -> None:
        while len(reports) < 4:  # not for a time: a busy machine may run the loop seldom
            progress("x" * 999 + "\n")
        progress("the end")

    began = loop.time()
    await asyncio.to_thread(talk)
    progress.close()
    times = [time for time, _ in reports]
    # A busy loop delivers late, and never early.
    assert all(time - began >= INTERVAL * 0.9 * number for number, time in enumerate(times[:-1]))
    assert all(len(text) <= REPORT_CHARACTERS for _, text in reports)
    assert reports[-1][1].endswith("the end")


async def test_nothing_is_shown_once_closed() -> None:
    reports: list[str] = []
    progress = ProgressReporter(reports.append)
    progress("before")
    progress.close()
    late = threading.Thread(target=progress, args=("after",))
    late.start()
    late.join()
    await asyncio.sleep(0)
    assert reports == ["before"]


@pytest.mark.parametrize("size", [REPORT_CHARACTERS, 3 * REPORT_CHARACTERS, 60_000])
@pytest.mark.parametrize("shown", [6, 15, 27])
async def test_no_end_of_a_secret_is_shown(monkeypatch: pytest.MonkeyPatch, size: int, shown: int) -> None:
    secret = "hunter2-very-long-and-secret"
    monkeypatch.setenv("DB_PASSWORD", secret)
    for kept in (REPORT_CHARACTERS - 1, 2 * MAX_LENGTH):
        reports: list[str] = []
        progress = ProgressReporter(reports.append)
        progress("." * size + secret + "." * (kept - shown))
        progress("," * 10)
        progress.close()
        assert reports
        assert not any(secret[at : at + 5] in text for text in reports for at in range(len(secret) - 4))
