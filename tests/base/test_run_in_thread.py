"""Blocking functions beside the event loop: their threads are reused, and nothing waits for them at exit."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from contextvars import ContextVar
from functools import partial

import pytest

from planck_nb.base import threads
from planck_nb.base.threads import run_in_thread

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


async def test_threads_are_used_again() -> None:
    first = await run_in_thread(threading.current_thread)
    assert first is not threading.current_thread()
    assert first.daemon
    assert {await run_in_thread(threading.current_thread) for _ in range(20)} == {first}


async def test_a_function_that_hangs_keeps_its_own_thread_only() -> None:
    hanging, release = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        release.wait()

    call = asyncio.create_task(run_in_thread(hang))
    await asyncio.to_thread(hanging.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    together = threading.Barrier(40)
    calls = (run_in_thread(together.wait) for _ in range(40))  # each needs all others to run
    assert len(set(await asyncio.wait_for(asyncio.gather(*calls), 20))) == 40
    release.set()


async def test_the_callers_context_is_seen_and_not_changed() -> None:
    NAME.set("caller")

    def rename() -> str:
        seen = NAME.get()
        NAME.set("thread")
        return seen

    assert [await run_in_thread(rename) for _ in range(3)] == ["caller"] * 3
    assert NAME.get() == "caller"


async def test_whatever_is_raised_comes_back_as_an_exception() -> None:
    for error, kind, said in [
        (KeyError("x"), KeyError, "x"),
        (StopIteration(3), RuntimeError, "StopIteration: 3"),
        (SystemExit(3), RuntimeError, "SystemExit: 3"),
        (KeyboardInterrupt(), RuntimeError, "KeyboardInterrupt"),
    ]:

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(kind, match=said):
            await run_in_thread(fail)
    assert await run_in_thread(lambda: 1) == 1


async def test_an_idle_thread_keeps_no_result_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    class Result: ...

    monkeypatch.setattr(threads, "_threads", threads._Threads(idle=1_000))  # whose end would free the result
    found = weakref.ref(await run_in_thread(Result))
    while found() is not None:
        gc.collect()
        await asyncio.sleep(0)


async def test_idle_threads_end_and_no_work_is_lost_when_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_threads", threads._Threads(idle=0.001))
    for turn in range(300):
        calls = (run_in_thread(lambda number=number: number) for number in range(turn % 4))  # type: ignore[misc]
        assert await asyncio.gather(*calls) == list(range(turn % 4))
        await asyncio.sleep(0.001)
    thread = await run_in_thread(threading.current_thread)
    await asyncio.to_thread(thread.join)


def in_a_fresh_process(code: str) -> str:
    """What the code prints; its process must end by itself, with nothing on stderr."""
    imports = "import asyncio, os, sys, threading, time\nfrom planck_nb.base.threads import run_in_thread\n"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", imports + code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.process
def test_nothing_keeps_the_interpreter_from_its_end() -> None:
    code = """
async def main():
    await run_in_thread(lambda: None)
    asyncio.create_task(run_in_thread(threading.Event().wait))
    await asyncio.sleep(0)
asyncio.run(main())
print("end")
"""
    assert in_a_fresh_process(code) == "end\n"


@pytest.mark.process
def test_a_forked_process_has_threads_of_its_own() -> None:
    code = """
asyncio.run(run_in_thread(lambda: None))
if os.fork() == 0:
    print(asyncio.run(run_in_thread(lambda: "child")), flush=True)
    os._exit(0)
os.wait()
print(asyncio.run(run_in_thread(lambda: "parent")))
"""
    assert in_a_fresh_process(code) == "child\nparent\n"


@pytest.mark.process
def test_a_result_for_a_closed_loop_is_dropped_and_the_thread_goes_on() -> None:
    code = """
release, threads = threading.Event(), []
def late():
    threads.append(threading.current_thread())
    release.wait()
async def main():
    call = asyncio.create_task(run_in_thread(late))
    while not threads:
        await asyncio.sleep(0)
    call.cancel()
asyncio.run(main())
release.set()
def which():
    time.sleep(0.01)
    return threading.current_thread()
async def again():
    count = 0
    found = []
    while threads[0] not in found:
        count += 1  # more than there are idle threads, of which the one that became idle last is used first
        found = await asyncio.gather(*(run_in_thread(which) for _ in range(count)))
asyncio.run(asyncio.wait_for(again(), 20))
print("used again")
"""
    assert in_a_fresh_process(code) == "used again\n"


async def test_quick_functions_of_many_tasks_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_threads", threads._Threads(moment=20))  # on a busy machine no function is quick
    found = await asyncio.gather(*(run_in_thread(threading.current_thread) for _ in range(100)))
    assert len(set(found)) == 1


async def test_a_slow_function_does_not_block_the_loop() -> None:
    release = threading.Event()
    call = asyncio.create_task(run_in_thread(lambda: release.wait(20)))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(release.set)  # by the loop, which must therefore run
    assert await call


async def test_the_outcome_arrives_whoever_is_first() -> None:
    def linger(share: float) -> float:
        end = time.perf_counter() + share * threads.MOMENT
        while time.perf_counter() < end:
            pass
        if share > 1:
            raise KeyError(share)
        return share

    for number in range(400):  # the loop stops blocking at about the time when they end
        share = 0.5 + number / 400
        call = asyncio.wait_for(run_in_thread(partial(linger, share)), 20)
        (found,) = await asyncio.gather(call, return_exceptions=True)
        assert (found.args == (share,)) if isinstance(found, KeyError) else (found == share <= 1)


INTERRUPTED = """
import asyncio, sys, threading, time
from planck_nb.base.threads import run_in_thread

blocked, go_on, done, ended = threading.Event(), threading.Event(), [], threading.Event()

def write_later(steps):
    try:
        blocked.set()
        go_on.wait()
        for _ in range(steps):
            time.sleep(0.001)
        done.append("written")
    finally:
        ended.set()

async def main(steps):
    call = asyncio.create_task(run_in_thread(lambda: write_later(steps), interruptible=True))
    await asyncio.to_thread(blocked.wait)
    call.cancel()
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
    assert await asyncio.to_thread(lambda: not ended.is_set())  # it is blocked, and the event loop is not
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 30)
    assert done == []
"""


def run_apart(code: str) -> None:
    """Run the code in a process of its own, which nothing traces unless the code says so."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV_CORE_")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


@pytest.mark.process
def test_a_cancelled_function_is_interrupted_before_its_next_statement() -> None:
    run_apart(f"{INTERRUPTED}asyncio.run(main(0))")


@pytest.mark.process
def test_an_interrupted_function_stops_no_traced_code() -> None:
    traced = "def trace(frame, event, value): return trace\nthreading.settrace(trace)\nsys.settrace(trace)\n"
    run_apart(f"{INTERRUPTED}{traced}asyncio.run(main(20_000))")


async def test_a_late_interrupt_does_not_hit_another_function() -> None:
    async def cancelled(delay: float) -> None:
        call = asyncio.create_task(run_in_thread(partial(time.sleep, 0.001), interruptible=True))
        await asyncio.sleep(delay)
        call.cancel()
        await asyncio.wait([call])

    for step in range(200):
        await cancelled(0.0005 + step * 0.00001)
        assert await asyncio.wait_for(run_in_thread(lambda: 42), 20) == 42
