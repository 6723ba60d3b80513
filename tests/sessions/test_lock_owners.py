"""Processes as lock files name them."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from planck_nb.base.processes import boot_id, process_namespace, start_time
from planck_nb.sessions import SessionInfo
from planck_nb.sessions.directory import new_session_info
from planck_nb.sessions.lock import _Owner, _owner_of, lock_session, open_in, remove_lock

HERE = socket.gethostname()


@pytest.fixture
def info(tmp_path: Path) -> SessionInfo:
    return new_session_info(tmp_path, "00ff" * 4, "mine")


def test_this_process_is_read_as_it_was_written(info: SessionInfo) -> None:
    owner = _Owner.this("sales.ipynb")
    owner.write(info.lock)
    found = _Owner.read(info.lock)
    assert replace(found, since=0) == replace(owner, since=0)
    assert found.since == pytest.approx(owner.since, abs=0.01)
    assert found.is_here
    assert found.is_running
    assert found.is_this
    assert str(found) == found.described() == "this process"


CHANGES: dict[str, object] = {
    "pid": "1",
    "owner": None,
    "host": 3,
    "boot": None,
    "namespace": "x",
    "started": 1.5,
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_file_with_a_wrong_field_names_nobody(info: SessionInfo, field: str) -> None:
    _Owner.this("x").write(info.lock)
    data = json.loads(info.lock.read_text())
    info.lock.write_text(json.dumps({**data, field: CHANGES[field]}))
    assert _Owner.read(info.lock) == _Owner()
    info.lock.write_text(json.dumps({name: value for name, value in data.items() if name != field}))
    assert _Owner.read(info.lock) == _Owner()


@pytest.mark.parametrize("since", [-1, 10**12, "now", None, True])
def test_an_impossible_time_is_unknown(info: SessionInfo, since: object) -> None:
    _Owner.this("x").write(info.lock)
    info.lock.write_text(json.dumps({**json.loads(info.lock.read_text()), "since": since}))
    assert _Owner.read(info.lock).since == 0
    assert _Owner.read(info.lock).process == os.getpid()


def test_a_process_is_running_only_on_this_computer_since_this_time() -> None:
    other = replace(_Owner.this("x.ipynb"), process=1, started=start_time(1))
    assert other.is_running
    assert not other.is_this
    assert not replace(other, started=other.started + 1).is_running
    for changed in ({"host": "elsewhere"}, {"boot": "another"}, {"namespace": 1}, {"process": 0}):
        assert not replace(other, **changed).is_here
        assert not replace(other, **changed).is_running
    assert not replace(_Owner.this("x"), host="elsewhere").is_this


def test_owners_are_described() -> None:
    assert str(_Owner()) == _Owner().described() == "another process"
    here = _Owner(7, "x.ipynb", HERE, since=0)
    assert str(here) == "process 7 (x.ipynb)"
    assert here.described() == f"process 7 on {HERE} (x.ipynb)"
    there = _Owner(7, "", "there", since=86_400)
    assert str(there) == "process 7 on there"
    assert there.described() == "process 7 on there, started 1970-01-02 00:00 UTC"
    assert str(_Owner(7, "x")) == "process 7 (x)"


def test_a_marker_names_a_process_that_had_no_time_to_name_itself(info: SessionInfo) -> None:
    assert _owner_of(info) == _Owner()
    info.lock_marker.write_text(f"1\n{HERE}?4026531836\n")
    assert _owner_of(info) == _Owner(1, "", HERE, boot_id(), process_namespace(), max(start_time(1), 0))
    info.lock_marker.write_text("1\nthere?1\n")
    assert _owner_of(info) == _Owner(process=1, host="there?1")
    for nonsense in ("", "x\ny\n", "1"):
        info.lock_marker.write_text(nonsense)
        assert _owner_of(info) == _Owner()
    _Owner.this("x").write(info.lock)
    info.lock_marker.write_text(f"{os.getpid()}\n{HERE}\n")
    assert _owner_of(info) == _Owner.read(info.lock)


def test_a_lock_that_was_only_looked_at_is_free(info: SessionInfo) -> None:
    assert open_in(info) is None
    lock = lock_session(info, "x")
    lock.release()
    assert info.lock.exists()
    for _ in range(2):
        assert open_in(info) is None
    remove_lock(info)
    assert not info.lock.exists()
    lock_session(info, "x").release()
