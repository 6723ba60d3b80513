"""Prints how much memory each operation on a long session takes; run as a process of its own."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from support.history import FIRST, lines_of, write_journal

from planck_nb.sessions import Session, import_session
from planck_nb.sessions.exports.export import write_export
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.signing import Signer

_MESSAGES = 400
_REPEATED = 40
_AGENTS = ["agent", *(f"agent-{number}" for number in range(9))]


def write_session(directory: Path, session_id: str, name: str, size: int) -> None:
    """Write a session of about so many bytes, a tenth of it hidden by rewinds."""
    template = [line.replace(b"quick", b"quick" * _REPEATED) for line in lines_of(_MESSAGES, begin=FIRST.timestamp())]
    info = write_journal(directory, session_id, name, b"", FIRST)
    row_id = 0
    with info.path.open("ab") as journal:
        while row_id == 0 or journal.tell() < size:
            begin = row_id
            for line in template:
                row_id += 1
                version, _, rest = line.split(b",", 2)
                journal.write(b'%s,"id":%d,%s' % (version, row_id, rest))
            row_id += 1
            hidden = begin + 9 * (row_id - begin) // 10
            journal.write(codec.encode_rewind_line(row_id, "agent", before_id=hidden, time=FIRST.timestamp()))


def main(directory: Path, size: int) -> None:
    """Do everything with a small session first, so that what is loaded once does not count."""
    write_session(directory, "00000000000000aa", "small", 1)
    write_session(directory, "00000000000000ab", "long", size)
    for name in ("small", "long"):
        _measure(directory, name)


def _measure(directory: Path, name: str) -> None:
    reader = Session.read(directory, name)
    _report(name, "branches", reader.branches)
    for ending in ("jsonl", "md", "html", "ipynb"):
        _report(name, f"export.{ending}", partial(write_export, reader.info, directory / f"{name}.{ending}"))
    _report(name, "import", partial(import_session, directory, directory / f"{name}.jsonl", name=f"{name}-imported"))
    session = Session.open(directory, name, signer=Signer(b"key"))
    _report(name, "catch_up", session.catch_up)
    _report(name, "read_ahead", partial(session.read_ahead, _AGENTS))
    forks: list[Session] = []
    _report(name, "fork", lambda: forks.append(session.fork(name=f"{name}-fork")))
    forks[0].close()
    _report(name, "return", lambda: asyncio.run(session.return_to(session.branches()[-1].id)))
    session.close()


def _report(name: str, verb: str, function: Callable[[], object]) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    idle, cpu = _megabytes("VmRSS"), time.process_time()
    function()
    print(name, verb, _megabytes("VmHWM") - idle, f"{time.process_time() - cpu:.2f}", flush=True)


def _megabytes(field: str) -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
