"""An event log that one thread writes and another reads."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest

from planck_nb.base.event_log import EventLog

EVENTS = 200_000


@pytest.mark.parametrize("limit", [None, EVENTS // 2])
def test_a_reader_in_another_thread_gets_each_event_once(limit: int | None) -> None:
    log: EventLog[int] = EventLog(limit=limit)
    writer = threading.Thread(target=lambda: deque(map(log.append, range(EVENTS))))
    read, interval = [-1], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        while read[-1] < EVENTS - 1:
            new = log.since(read[-1] + 1)
            assert new == list(range(new[0], new[0] + len(new))) if new else True
            assert limit is not None or not new or new[0] == read[-1] + 1
            read += new
    finally:
        sys.setswitchinterval(interval)
        writer.join()
    assert read == sorted(set(read))  # the log drops what a slow reader has not read in time, if it has a limit


@pytest.mark.parametrize("limit", [None, EVENTS // 2])
def test_a_subscription_in_another_thread_gets_each_event_once(limit: int | None) -> None:
    log: EventLog[int] = EventLog(limit=limit)
    subscription = log.subscribe()

    async def read() -> list[int]:
        return [event async for event in subscription]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as pool:
            events = pool.submit(asyncio.run, read())
            for number in range(EVENTS):
                log.append(number)
            log.close()
            read_events = events.result(30)
    finally:
        sys.setswitchinterval(interval)
    assert read_events == sorted(set(read_events))
    assert len(read_events) + subscription.missed == EVENTS


async def test_readers_get_what_was_appended_before_and_while_they_wait() -> None:
    log: EventLog[int] = EventLog()
    reader = log.subscribe()
    log.append(0)
    log.append(1)
    assert [await anext(reader), await anext(reader)] == [0, 1]
    log.append(2)
    assert await anext(reader) == 2
    assert reader.position == 3
    log.close()
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
