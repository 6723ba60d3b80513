"""Processes that are forked while a session is open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from planck_nb.sessions import Session, query

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("end", ["close", "kill"])
@pytest.mark.timeout(180)
def test_children_lose_nothing_of_their_parent_and_hold_nothing_back(tmp_path: Path, end: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "support.forking", str(tmp_path), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
    )
    printed: list[str] = []
    child = 0
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            printed.append(line.rstrip())
            if line.startswith("hangs"):
                child = int(line.split()[1])
                if end == "kill":
                    process.send_signal(signal.SIGKILL)
                break
        if end == "close":
            assert process.stdout.readline() == "closed\n"
        process.wait(60)
        ids = [int(word) for line in printed if line.startswith("acknowledged") for word in line.split()[1:]]
        assert ids, process.stderr
        ended = [line for line in printed if not line.startswith(("acknowledged", "hangs"))]
        assert ended == [
            *(f"{ending} 0" for ending in ("returns", "uses", "exits", "exits at once", "executes") for _ in range(3)),
            "multiprocessing 0",
            "subprocess 0",
            "spilled True",
        ] * (end == "close")
        with Session.open(tmp_path, "parent") as session:  # while the child hangs
            assert [row.db_id for row in session.messages()][: len(ids)] == ids
        assert set(ids) <= set(query(tmp_path, "select id from messages").id)
    finally:
        process.kill()
        if child:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, errors = process.communicate()
    assert "Traceback" not in errors  # DuckDB may list what the threads of the parent had in use
