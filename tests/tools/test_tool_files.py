"""read, write and edit on real files."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from pathlib import Path

import pytest

from planck_nb import BuiltinTools, ToolError
from planck_nb.base.atomic import write_atomically
from planck_nb.tools.files import Files


class Desk:
    """The file tools in a folder, as one agent uses them."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.folder = folder
        self.files = files or Files()
        self.tools = {tool.name: tool for tool in BuiltinTools.all(cwd=folder, files=self.files)}

    async def __call__(self, name: str, /, *, agent_id: str = "agent", **args: object) -> str:
        return (await self.tools[name].run(args, agent_id=agent_id, call_id="call")).text

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_read_skips_and_limits_lines(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"1\n2\r\n3\n4\n5")
    assert await desk("read", path="f") == "1\n2\r\n3\n4\n5"
    assert await desk("read", path="f", offset=1, limit=2) == "2\r\n3\n"
    assert await desk("read", path="f", offset=99) == ""
    assert await desk("read", path="f", limit=0) == ""
    for wrong in ({"offset": -1}, {"limit": -1}, {"offset": "1"}, {"lines": 3}):
        with pytest.raises(ToolError, match="Invalid arguments for read"):
            await desk("read", path="f", **wrong)


async def test_read_expands_home_and_follows_the_working_directory(tmp_path: Path) -> None:
    for path, text in ((Path.home() / "x", "home"), (Path.cwd() / "y", "here")):
        path.write_text(text)
    loose = BuiltinTools.read(files=Files())
    assert (await loose.run({"path": "~/x"})).text == "home"
    assert (await loose.run({"path": "y"})).text == "here"
    (tmp_path / "y").write_text("there")
    os.chdir(tmp_path)
    assert (await loose.run({"path": "y"})).text == "there"


async def test_what_cannot_be_read_is_named(desk: Desk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    cases = [
        ("none", "No such file"),
        (".", "Is a directory"),
        ("pipe", "Not a regular"),
        ("a\0b", "null"),
        ("loop", ""),
    ]
    for path, reason in cases:
        with pytest.raises(ToolError, match=f"cannot read {path}: .*{reason}"):
            await desk("read", path=path)


async def test_binary_files_and_cut_characters(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\x89PNG\0")
    (tmp_path / "latin").write_bytes("é".encode("latin-1") * 3)
    (tmp_path / "cut").write_text("x" + "é" * 5_000)
    assert await desk("read", path="b") == "[binary file, 5 bytes: cannot be shown as text]"
    assert "binary" in await desk("read", path="latin")
    assert await desk("read", path="cut") == "x" + "é" * 5_000


async def test_reading_long_files_goes_on_where_it_was_cut(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"{number} {'x' * 50}\n" for number in range(3_000)))
    whole, offset = "", 0
    while True:
        part, _, note = (await desk("read", path="f", offset=offset)).partition("[… cut here; read on with offset=")
        whole += part
        if not note:
            break
        offset = int(note.split(" ")[0])
    assert whole == (tmp_path / "f").read_text()
    (tmp_path / "one").write_text("é" * 100_000)
    assert "line 1 is too long" in await desk("read", path="one")


async def test_reading_a_huge_file_takes_little_memory(desk: Desk, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"one\ntwo\n" + b"x" * 10_000)
        file.seek(3_000_000_000)
        file.write(b"\nend\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert await desk("read", path="huge", limit=1) == "one\n"
    assert "too long" in await desk("read", path="huge", offset=2, limit=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


async def test_write_makes_folders_keeps_modes_and_follows_links(desk: Desk, tmp_path: Path) -> None:
    assert await desk("write", path="a/b/c", content="é\n") == "Written a/b/c (new file, 3 bytes)."
    script = tmp_path / "run.sh"
    script.write_text("old\n")
    script.chmod(0o750)
    (tmp_path / "link").symlink_to("run.sh")
    result = await desk("write", path="link", content="new\n")
    assert result == "Written link.\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-old\n+new\n"
    assert script.read_text() == "new\n"
    assert script.stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "link").is_symlink()
    with pytest.raises(ToolError, match=r"cannot write run\.sh/x: "):
        await desk("write", path="run.sh/x", content="")
    assert desk.names() == ["a", "link", "run.sh"]


async def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_text("whole")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ToolError, match="cannot write f: No space left"):
        await desk("write", path="f", content="other")
    assert path.read_text() == "whole"
    assert desk.names() == ["f"]


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    versions = [bytes([letter]) * 500_000 for letter in b"ab"]
    write_atomically(path, versions[0])
    over = threading.Event()

    def write() -> None:
        for turn in range(40):
            write_atomically(path, versions[turn % 2])
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        assert path.read_bytes() in versions
    writer.join()


async def test_edit_changes_one_place_and_says_so(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\r\n")
    result = await desk("edit", path="f", old_string="b", new_string="c\nd")
    assert result.startswith("Edited f.\n--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n")
    assert (tmp_path / "f").read_bytes() == b"a\r\nc\r\nd\r\n"
    for old in ("nothing", "\r\n"):
        with pytest.raises(ToolError, match=r"not found|more than once"):
            await desk("edit", path="f", old_string=old, new_string="x")
    assert (tmp_path / "f").read_bytes() == b"a\r\nc\r\nd\r\n"
    with pytest.raises(ToolError, match="cannot access none: No such file"):
        await desk("edit", path="none", old_string="a", new_string="b")


async def test_what_changed_since_it_was_read_is_not_overwritten(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("mine")
    await desk("read", path="f")
    path.write_text("theirs!")
    for name, args in (("write", {"content": "x"}), ("edit", {"old_string": "theirs", "new_string": "x"})):
        with pytest.raises(ToolError, match="f has changed on disk since you read it; read it again"):
            await desk(name, path="f", **args)
    assert path.read_text() == "theirs!"
    await desk("edit", agent_id="another, that never read it", path="f", old_string="!", new_string="?")
    await desk("read", path="f")
    await desk("edit", path="f", old_string="theirs", new_string="ours")
    await desk("edit", path="f", old_string="ours", new_string="ours too")
    assert path.read_text() == "ours too?"


async def test_parallel_edits_of_one_file_all_count(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"<{number}>\n" for number in range(30)))
    edits = (desk("edit", path="f", old_string=f"<{number}>", new_string=f"[{number}]") for number in range(30))
    await asyncio.gather(*edits)
    assert (tmp_path / "f").read_text() == "".join(f"[{number}]\n" for number in range(30))
