"""Progress extends the time of a call, up to a bound."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest
from support.virtual_time import virtually

from planck_nb.sidecars.mcp_client.link.call_progress import CallProgress
from planck_nb.sidecars.mcp_client.link.connection import Connection
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines


def connection() -> Connection:
    return Connection(
        SidecarSpec("x", command="x"),
        nullcontext(),
        log=LogLines(),
        ask=None,
        sample=None,
        root=Path(),
        question_seconds=1,
        on_tools=lambda: None,
    )


@pytest.mark.parametrize(
    ("limit", "every", "answer", "end"),
    [
        (300.0, 60.0, 1_000.0, 1_000.0),  # it answers in the end
        (300.0, 0.0, 1_000.0, 300.0),  # no progress
        (300.0, 400.0, 1_000.0, 300.0),  # progress that comes too late
        (300.0, 60.0, 9_000.0, 3_000.0),  # ten times the limit
        (2_000.0, 60.0, 9_000.0, 3_600.0),  # an hour
    ],
)
def test_a_call_has_its_time_again_after_each_progress(limit: float, every: float, answer: float, end: float) -> None:
    async def call() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        answered, progress = loop.create_future(), CallProgress(None)
        loop.call_at(answer, answered.set_result, None)

        async def work() -> None:
            for done in range(1_000):
                await asyncio.sleep(every)
                await progress(done, None, None)

        working = asyncio.create_task(work()) if every else None
        in_time = await connection().first_of(answered, seconds=limit, progress=progress)
        if working is not None:
            working.cancel()
        return in_time, loop.time()

    assert virtually(call) == (end == answer, end)


def test_progress_is_shown_in_words_or_numbers() -> None:
    shown: list[str] = []

    async def report() -> None:
        progress = CallProgress(shown.append)
        await progress(1, 4, None)
        await progress(2.5, None, None)
        await progress(3, 4, "half\u202e done")

    virtually(report)
    assert shown == ["1 of 4\n", "2.5\n", "half⟨U+202E⟩ done\n"]
