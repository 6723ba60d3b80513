"""read, write and edit on real files."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planck_nb import BuiltinTools, ToolError
from planck_nb.base.atomic import write_atomically
from planck_nb.tools.files import Files, TextDiff, replace_once, text_diff


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


# One exact replacement, and diffs that say what it did.

TEXT = st.text(st.sampled_from("ab\n é🎉"), max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@given(before=TEXT, old=TEXT, new=TEXT, after=TEXT)
def test_an_edit_and_its_reverse_give_the_bytes_from_before(
    newline: str, before: str, old: str, new: str, after: str
) -> None:
    data = (before + old + after).replace("\n", newline).encode()
    try:
        edited = replace_once(data, old, new, "f")
        assume(newline == "\n" or (b"\r\n" in edited) == (b"\r\n" in data))  # else nothing says how its lines end
        restored = replace_once(edited, new, old, "f")
    except ToolError:
        assume(False)
    assert restored == data


@pytest.mark.parametrize(
    ("data", "old", "said"),
    [
        (b"abc", "x", "old_string not found in f"),
        (b"abab", "ab", "appears more than once in f"),
        (b"aaa", "aa", "appears more than once in f"),
        (b"abc", "", "old_string is empty"),
        (b"abc", "new", "are the same"),
        (b"abc", "\ud800", "half of a surrogate pair"),
    ],
)
def test_what_is_not_one_exact_match_is_refused(data: bytes, old: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        replace_once(data, old, "new", "f")


def test_line_ends_and_foreign_bytes_stay() -> None:
    assert replace_once(b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2\n2b", "f") == b"1\r\n2\r\n2b\r\nthree\r\n"
    assert replace_once(b"one\r\ntwo\nthree\n", "two\n", "2\n", "f") == b"one\r\n2\nthree\n"
    assert replace_once(b"\xe9\xff one \xe9", "one", "é", "f") == b"\xe9\xff \xc3\xa9 \xe9"


@pytest.mark.process
@settings(max_examples=60, deadline=None)
@given(old=st.lists(st.sampled_from("abc"), max_size=12), new=st.lists(st.sampled_from("abc"), max_size=12))
@pytest.mark.parametrize("many", [0, 2_500])
def test_patch_understands_the_diff(
    tmp_path_factory: pytest.TempPathFactory, many: int, old: list[str], new: list[str]
) -> None:
    common = [f"line {number}" for number in range(many)]
    before, after = ("".join(f"{line}\n" for line in common + lines + common) for lines in (old, new))
    assume(before != after)
    folder = Path(tmp_path_factory.mktemp("patch"))
    (folder / "f").write_text(before)
    changed = text_diff(before.encode(), after.encode(), "f")
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], cwd=folder, input=changed.text.encode(), check=True)
    assert (folder / "f").read_text() == after
    assert len(old) - changed.removed == len(new) - changed.added
    assert changed.text.count("\n+") - 1 == changed.added


def test_diffs_are_bounded_and_linear() -> None:
    before, after = b"a\n" * 200_000, b"b\n" * 200_000
    changed = text_diff(before, after, "f")
    assert len(changed.text) < 15_000
    assert "left out" in changed.text
    assert (changed.added, changed.removed) == (200_000, 200_000)
    assert text_diff(b"\0", b"ab", "f") == TextDiff("[binary: 1 bytes became 2]", 0, 0)
    changed = text_diff(b"a", b"b\n", "f")
    assert changed.text.endswith("-a\n\\ No newline at end of file\n+b\n")
    assert (changed.added, changed.removed) == (1, 1)
    assert text_diff(b"a\n", b"++ b\n-- c\na\n", "f").added == 2
