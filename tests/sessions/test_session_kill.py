from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest
from support import storm

from planck_nb.sessions import find_session

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")]

KILLS = 100 if os.environ.get("PLANCK_NB_SOAK") else 6
EACH = 3
TESTS = Path(__file__).parents[1]


def run_and_kill(
    directory: Path, name: str, seed: int, lines: int, seconds: float, *, word: str = "", most: int = 0
) -> list[str]:
    """Let a process write to the session and kill it; the lines that it printed of what was acknowledged.

    It is killed so many seconds after it has printed so many lines that begin with the word. `most` is how many bytes
    a file may have; 0 stands for any number.
    """
    command = [sys.executable, "-m", "support.storm", str(directory), name, str(seed), str(most)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    # The last line may end in the middle of a letter.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace", env=environment
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        printed: list[str] = []
        while lines:
            printed.append(writer.stdout.readline())
            lines -= printed[-1].startswith(word)
        time.sleep(seconds)  # what it is at when it is killed is left to chance
        writer.send_signal(signal.SIGKILL)
        printed += writer.stdout.read().splitlines(keepends=True)
    return [line.removesuffix("\n") for line in printed if line.endswith("\n")]


def damage(database: Path, chance: random.Random) -> str:
    """Delete the DuckDB file, flip some of its bytes, or leave it; what was done."""
    way = chance.choice(("nothing", "delete", "flip"))
    if not database.exists() or way == "nothing":
        return "nothing"
    if way == "delete":
        database.unlink()
        return way
    content = bytearray(database.read_bytes())
    for _ in range(20):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    database.write_bytes(content)
    return way


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    printed: dict[str, list[str]] = {}
    for number in range(KILLS):
        name = f"session-{number // EACH}"
        lines = run_and_kill(tmp_path, name, seed + number, chance.randrange(150), chance.uniform(0, 0.05))
        done = damage(find_session(tmp_path, name).database, chance)
        print(f"kill {number}: {len(lines)} acknowledged, then: {done}")
        mine = printed.setdefault(name, [])
        mine += lines
        assert "full" not in mine
        storm.check(tmp_path, name, mine)
    everything = [line for lines in printed.values() for line in lines]
    print(f"{KILLS} kills, {len(everything)} acknowledged, {everything.count('rewind')} rewinds among them")
    assert len(everything) > KILLS


PLACES = [
    ("summary", "planck_nb.sessions.journal.journal_file:_write_at", "half"),
    ("summary", "planck_nb.sessions.journal.journal_file:_sync", "before"),
    ("summary", "planck_nb.sessions.journal.journal_file:_sync", "after"),
    ("rewind", "planck_nb.sessions.journal.journal_file:_write_at", "half"),
    ("materialize", "planck_nb.sessions.database.materialize:read_rows", "before"),
    ("materialize", "planck_nb.sessions.database.tables:insert_staged", "after"),
    ("materialize", "planck_nb.sessions.database.materialize:_materialize", "after"),
    ("rotation", "planck_nb.sessions.journal.segments:readable_end", "before"),
    ("rotation", "os:link", "before"),
    ("rotation", "os:link", "after"),
    ("rotation", "pathlib:Path.replace", "after"),
]


@pytest.mark.parametrize(("step", "place", "when"), PLACES)
def test_a_kill_inside_a_step_leaves_a_session_that_is_whole(tmp_path: Path, step: str, place: str, when: str) -> None:
    command = [sys.executable, "-m", "support.halting", str(tmp_path), "halted", step, place, when]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        printed = [line.removesuffix("\n") for line in takewhile(lambda line: line != "halted\n", writer.stdout)]
        writer.send_signal(signal.SIGKILL)
        assert writer.stdout.read() == ""
    assert (writer.returncode, len(printed)) == (-signal.SIGKILL, 13)
    for _ in range(2):  # what is repaired stays repaired
        storm.check(tmp_path, "halted", printed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a file system; a full disk is also tried with a limit on the size of files")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_full_disk_loses_nothing_that_was_acknowledged(small_disk: Path) -> None:
    printed: list[str] = []
    for number in range(2):
        printed += run_and_kill(small_disk, "full", number, 20, 0.02, word="full")
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert len(printed) > 2 * 20
    storm.check(small_disk, "full", printed, gaps=True)


def test_files_that_may_not_grow_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    printed: list[str] = []
    for number in range(2):
        printed += run_and_kill(tmp_path, "full", number, 20, 0.02, word="full", most=1_000_000)
    assert len(printed) > 2 * 20
    assert not list(tmp_path.glob("*.bad")), "there is nothing wrong with the file"
    storm.check(tmp_path, "full", printed, gaps=True)
