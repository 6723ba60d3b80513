"""What tools changed on disk: kept and undone, also after the process is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb import BuiltinTools, ToolError
from planck_nb.tools.archive import Change
from planck_nb.tools.changes import Changes
from planck_nb.tools.files import Files

Opener = Callable[[], Changes]


@pytest.fixture(params=["memory", "folder"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Changes:
    return Changes(tmp_path / "kept" if request.param == "folder" else None)


async def call(changed: Changes, name: str, folder: Path, /, **args: object) -> str:
    """Call a file tool in `folder`."""
    (tool,) = (tool for tool in BuiltinTools.all(cwd=folder, files=Files(changed)) if tool.name == name)
    return (await tool.run(args, agent_id="agent", call_id="call")).text


def put(changed: Changes, path: Path, content: bytes) -> None:
    """Write a file as a tool does."""
    before = path.read_bytes() if path.exists() else None
    with changed.recording(path, before, content, tool="write"):
        path.write_bytes(content)


async def test_changes_are_listed_and_undone(kept: Changes, tmp_path: Path) -> None:
    await call(kept, "write", tmp_path, path="f", content="one\n")
    await call(kept, "edit", tmp_path, path="f", old_string="one", new_string="two\n2")
    await call(kept, "write", tmp_path, path="f", content="two\n2\n")
    first, second = kept
    assert [(change.tool, change.added, change.removed, change.number) for change in kept] == [
        ("write", 1, 0, 1),
        ("edit", 2, 1, 2),
    ]
    assert (first.path, first.agent_id, first.call_id, first.before) == (tmp_path / "f", "agent", "call", None)
    assert first.after == second.before
    with pytest.raises(ToolError, match="no longer as the write left it"):
        kept.undo(first)
    assert kept.undo() == second
    assert (tmp_path / "f").read_text() == "one\n"
    assert kept.undo(1) == first
    assert not (tmp_path / "f").exists()
    assert len(kept) == 0
    for gone in (None, 1, first):
        with pytest.raises(ToolError, match="no such change"):
            kept.undo(gone)


async def test_a_failed_write_is_not_recorded(kept: Changes, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolError, match="Is a directory"):
        await call(kept, "write", tmp_path, path="folder", content="x")
    with pytest.raises(OSError, match="full"), kept.recording(tmp_path / "f", b"1", b"2", tool="write"):
        raise OSError(28, "full")
    assert len(kept) == 0
    put(kept, tmp_path / "f", b"x")
    (tmp_path / "f").unlink()
    (tmp_path / "f").mkdir()
    with pytest.raises(ToolError, match=r"f cannot be restored: Is a directory"):
        kept.undo()


def test_the_record_is_bounded(tmp_path: Path) -> None:
    kept = Changes(tmp_path / "kept", kept_bytes=10)
    for content in (b"1234", b"5678", b"90ab", b"x" * 11, b"y"):
        put(kept, tmp_path / "f", content)
    assert [change.number for change in kept] == [3, 4]
    assert kept.forgotten == 3
    kept = Changes(tmp_path / "kept", kept_bytes=10, kept_changes=3)
    for number in range(5):
        put(kept, tmp_path / str(number), b"")
    assert [change.path.name for change in kept] == ["2", "3", "4"]
    assert len(list((tmp_path / "kept").glob("*"))) <= 1


def test_another_process_can_undo(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "kept"
    first = Changes(folder)
    assert list(first) == []
    assert not folder.parent.exists()
    old = os.umask(0)
    try:
        put(first, tmp_path / "f", b"one")
        put(first, tmp_path / "f", b"two")
        put(first, tmp_path / "g", b"three")
    finally:
        os.umask(old)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {entry.stat().st_mode & 0o777 for entry in folder.iterdir()} == {0o600}
    second = Changes(folder)
    assert list(second) == list(first)
    assert second.undo(2).before == first.undo(2).before
    assert (tmp_path / "f").read_bytes() == b"one"
    third = Changes(folder)
    assert [change.number for change in third] == [1, 3]
    put(third, tmp_path / "h", b"")
    assert [change.number for change in Changes(folder)] == [1, 3, 4]


def test_equal_contents_are_kept_once_and_as_long_as_they_are_needed(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for name in "ab":
        (tmp_path / name).write_bytes(b"same")
        put(Changes(folder), tmp_path / name, b"other")
    assert len(list(folder.iterdir())) == 2
    changed = Changes(folder)
    changed.undo(1)
    assert len(list(folder.iterdir())) == 2
    changed.undo(2)
    assert [entry.name for entry in folder.iterdir()] == ["changes.jsonl"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"same"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 2_000), junk=st.binary(max_size=20))
def test_what_a_crash_leaves_half_written_is_ignored(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    tmp_path = Path(tmp_path_factory.mktemp("torn"))
    folder = tmp_path / "kept"
    changed = Changes(folder)
    for number in range(3):
        put(changed, tmp_path / str(number), b"x")
    index = folder / "changes.jsonl"
    whole = index.read_bytes()
    torn = whole[: cut % len(whole)]
    index.write_bytes(torn + junk)
    complete = torn.count(b"\n")
    again = Changes(folder)
    found = [change.number for change in again]
    assert found[:complete] == list(range(1, complete + 1))
    assert len(found) <= complete + 1  # of a line that lacks its end only, nothing is lost
    put(again, tmp_path / "new", b"y")
    assert [change.path.name for change in Changes(folder)][-1] == "new"


def test_only_what_is_ours_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    for name in ("0123456789abcdef" * 4, ".planck-0123456789ab.tmp", "notes.txt"):
        (folder / name).touch()
    changed = Changes(folder)
    assert len(changed) == 0
    put(changed, tmp_path / "f", b"x")
    assert sorted(entry.name for entry in folder.iterdir()) == ["changes.jsonl", "notes.txt"]


def test_lines_of_another_version_are_left_alone(tmp_path: Path) -> None:
    put(Changes(tmp_path / "kept"), tmp_path / "f", b"x")
    index = tmp_path / "kept" / "changes.jsonl"
    strange = [{"v": 2, "change": {}}, {"v": 1, "change": {"number": 9}}, {"v": 1, "moved": 1}, [1], "x", None]
    index.write_bytes(index.read_bytes() + b"".join(json.dumps(line).encode() + b"\n" for line in strange))
    assert [change.number for change in Changes(tmp_path / "kept")] == [1]


def add_dead_lines(folder: Path) -> None:
    """Append what as many changes leave that were undone."""
    with (folder / "changes.jsonl").open("ab") as index:
        index.write(b'{"v": 1, "undone": 0}\n' * 1_000)


def test_the_index_does_not_grow_forever(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for _ in range(3):
        changed = Changes(folder)
        put(changed, tmp_path / "f", b"x")
        number = changed.undo().number
        add_dead_lines(folder)
    assert number == 3
    put(Changes(folder), tmp_path / "f", b"x")
    assert (folder / "changes.jsonl").read_bytes().count(b"\n") == 2


def test_no_number_is_given_twice_when_the_index_is_written_anew(tmp_path: Path) -> None:
    changed = Changes(tmp_path / "kept")
    for number in range(10):
        put(changed, tmp_path / str(number), b"x")
    for number in range(2, 11):
        changed.undo(number)
    add_dead_lines(tmp_path / "kept")
    Changes(tmp_path / "kept").undo(1)
    last = Changes(tmp_path / "kept")
    put(last, tmp_path / "f", b"x")
    assert [change.number for change in last] == [11]


def test_a_damaged_content_is_not_restored(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    changed = Changes(tmp_path / "kept")
    put(changed, tmp_path / "f", b"new")
    (change,) = changed
    content = tmp_path / "kept" / str(change.before)
    content.write_bytes(b"0ld")
    with pytest.raises(ToolError, match=r"What .*f held is damaged"):
        changed.undo()
    content.unlink()
    with pytest.raises(ToolError, match="f cannot be restored: No such file"):
        changed.undo()
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_change_that_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    changed = Changes(tmp_path / "file" / "kept")
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(ToolError, match=r"Changes cannot be kept in .*kept: Not a directory; fix that first"):
        put(changed, tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"


KILLED = """
import os, signal, sys
from pathlib import Path
from planck_nb.agent.calling.tool import ToolContext
from planck_nb.tools import files
from planck_nb.tools.changes import Changes
put = files.write_file
def die(path, data):
    if sys.argv[2] == "after":
        put(path, data)
    os.kill(os.getpid(), signal.SIGKILL)
files.write_file = die
known = files.Files(Changes(Path(sys.argv[1])))
known.write("f", "new", cwd=None, context=ToolContext())
"""


@pytest.mark.process
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_the_writing_loses_nothing(tmp_path: Path, when: str) -> None:
    Path("f").write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "kept"), when], check=False)
    assert done.returncode == -signal.SIGKILL
    assert Path("f").read_text() == ("old" if when == "before" else "new")
    changed = Changes(tmp_path / "kept")
    undone = changed.undo()
    assert isinstance(undone, Change)
    assert Path("f").read_text() == "old"
    assert len(changed) == 0
