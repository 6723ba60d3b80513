"""A changed source file of a sidecar takes effect at the next call."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from support.sidecar_server import importing_from, served, served_here, server_environment, text_of, write_sidecar

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.worker_pool import WorkerCall, WorkerPool
from planck_nb.sidecars.conventions import FIXED_SOURCES

pytestmark = pytest.mark.process

BODY = """
import helper

@sidecar.tool
async def in_loop() -> str:
    return helper.WORD

@sidecar.tool(process=False)
def in_thread() -> str:
    from late import LATE
    return helper.WORD + LATE

@sidecar.tool
def in_process() -> str:
    return helper.WORD
"""

ADDED = "\n@sidecar.tool\nasync def added() -> str:\n    return 'new'\n"

NAMES = ["in_loop", "in_thread", "in_process"]


def write_helper(folder: pathlib.Path, word: str, name: str = "helper", variable: str = "WORD") -> None:
    """Write a module; the change cannot be seen by its size or by its time in seconds."""
    file = folder / f"{name}.py"
    file.write_text(f"{variable} = {word!r}\n", encoding="utf-8")
    number = int.from_bytes(word.encode())
    os.utime(file, ns=(10**18 + number, 10**18 + number))


async def test_changes_are_in_effect_at_the_next_call(tmp_path: pathlib.Path) -> None:
    file = write_sidecar(tmp_path, BODY)
    write_helper(tmp_path, "a")
    write_helper(tmp_path, "x", "late", "LATE")
    async with served_here(tmp_path) as client:

        async def words() -> list[str]:
            return [text_of(await client.call_tool(name, {})) for name in NAMES]

        assert await words() == ["a", "ax", "a"]
        write_helper(tmp_path, "b")
        assert await words() == ["b", "bx", "b"]
        write_helper(tmp_path, "y", "late", "LATE")  # imported when it was called
        assert text_of(await client.call_tool("in_thread", {})) == "by"

        (tmp_path / "helper.py").write_text("WORD = (\n")
        for name in NAMES:
            result = await client.call_tool(name, {})
            assert result.is_error
            assert "The sidecar my_sidecar:sidecar cannot be loaded: SyntaxError" in text_of(result)
            assert "helper.py" in text_of(result)
        file.write_text(file.read_text() + ADDED)
        assert len((await client.list_tools()).tools) == 3  # the list stays as it was
        write_helper(tmp_path, "c")
        assert await words() == ["c", "cy", "c"]
        assert len((await client.list_tools()).tools) == 4


FIXED = {
    "the entry": lambda folder: append(folder / "my_sidecar.py", "\nprint('changed')\n"),
    "a module": lambda folder: write_helper(folder, "b"),
    "a late module": lambda folder: write_helper(folder, "y", "late", "LATE"),
    "one that is gone": lambda folder: (folder / "helper.py").unlink(),
}


@pytest.mark.parametrize("change", FIXED.values(), ids=list(FIXED))
async def test_what_commands_can_change_is_not_loaded_by_a_running_sidecar(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pathlib.Path], object]
) -> None:
    monkeypatch.setenv(FIXED_SOURCES, f":{tmp_path}")
    write_sidecar(tmp_path, BODY)
    write_helper(tmp_path, "a")
    write_helper(tmp_path, "x", "late", "LATE")
    before = contents(tmp_path)
    async with served_here(tmp_path) as client:
        assert text_of(await client.call_tool("in_thread", {})) == "ax"
        for file in before:
            file.touch()
        assert text_of(await client.call_tool("in_loop", {})) == "a"
        change(tmp_path)
        for name in NAMES:  # the process for the last one would be a new one
            result = await client.call_tool(name, {})
            assert result.is_error
            assert "after this sidecar was started" in text_of(result)
        for file, content in before.items():
            file.write_bytes(content)
        assert [text_of(await client.call_tool(name, {})) for name in NAMES] == ["a", "ax", "a"]


async def test_a_new_process_loads_no_source_that_changed_after_the_check(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FIXED_SOURCES, f":{tmp_path}")
    write_sidecar(tmp_path, BODY)
    write_helper(tmp_path, "a")
    with importing_from(tmp_path):
        live = LiveOffer("my_sidecar:sidecar")
        write_helper(tmp_path, "b")
        pool = WorkerPool(live.reference, 1, live.digests)
        result = await pool.call(WorkerCall("in_process", {}, "", "", print))
        await pool.aclose()
    assert "helper.py changed" in json.dumps(result)


async def test_a_source_written_after_the_comparison_is_not_loaded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither at the start, nor by a function that imports it later."""
    write_sidecar(tmp_path, BODY)
    write_helper(tmp_path, "a")
    monkeypatch.setenv(FIXED_SOURCES, f"{time.time_ns()}:{tmp_path}")
    async with served_here(tmp_path) as client:
        write_helper(tmp_path, "x", "late", "LATE")
        assert "late.py changed" in text_of(await client.call_tool("in_thread", {}))
    (tmp_path / "second").mkdir()
    monkeypatch.setenv(FIXED_SOURCES, f"{time.time_ns() - 10**9}:{tmp_path}")
    write_sidecar(tmp_path / "second", BODY, "another")
    with importing_from(tmp_path / "second"), pytest.raises(ConfigError, match=r"another\.py changed"):
        LiveOffer("another:sidecar")


async def test_a_module_in_the_working_directory_replaces_no_installed_one(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, "import string\n\n@sidecar.tool\ndef place() -> str:\n    return string.__file__")
    (tmp_path / "json.py").write_text("raise RuntimeError('planted')")
    (tmp_path / "string.py").write_text("")
    (tmp_path / "mcp.py").write_text("raise RuntimeError('planted')")
    async with served(tmp_path, environment=server_environment(PYTHONSAFEPATH="1")) as client:
        assert str(tmp_path) not in text_of(await client.call_tool("place", {}))


@pytest.mark.parametrize("place", [".planck/sidecar", "../elsewhere"])
async def test_what_commands_cannot_change_is_loaded_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    project, folder = tmp_path / "project", tmp_path / "project" / place
    project.mkdir()
    folder.mkdir(parents=True)
    monkeypatch.setenv(FIXED_SOURCES, f":{project}")
    write_sidecar(folder.resolve(), BODY)
    write_helper(folder, "a")
    async with served_here(folder.resolve()) as client:
        assert text_of(await client.call_tool("in_loop", {})) == "a"
        write_helper(folder, "b")
        assert text_of(await client.call_tool("in_loop", {})) == "b"


def contents(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {file: file.read_bytes() for file in folder.glob("*.py")}


def append(file: pathlib.Path, text: str) -> None:
    file.write_text(file.read_text() + text)


async def test_clients_are_told_of_new_tools(tmp_path: pathlib.Path) -> None:
    file = write_sidecar(tmp_path, BODY)
    write_helper(tmp_path, "a")
    changed = asyncio.Event()

    async def notice(message: object) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            changed.set()

    async with (
        served(tmp_path, mode="legacy", message_handler=notice) as old,
        served(tmp_path) as new,
        new.listen(tools_list_changed=True) as events,
        asyncio.timeout(20),
    ):
        for client in (old, new):
            assert text_of(await client.call_tool("in_loop", {})) == "a"
        file.write_text(file.read_text() + ADDED)
        for client in (old, new):
            assert text_of(await client.call_tool("added", {})) == "new"
        await changed.wait()
        assert type(await anext(events)).__name__ == "ToolsListChanged"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("import missing_module_x", "No module named 'missing_module_x'"),
        ("sidecar = 3\ndef tools():\n    return 3", None),
        ("other = 3", "has no attribute 'sidecar'"),
        ("def f(:", "SyntaxError"),
    ],
)
async def test_a_sidecar_that_cannot_be_loaded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str | None
) -> None:
    name = f"broken_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    if words is None:
        assert LiveOffer(f"{name}:sidecar").offer.tools == {}
        return
    with pytest.raises(ConfigError, match=words):
        LiveOffer(f"{name}:sidecar")


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="There is no module no_such_module"):
        LiveOffer("no_such_module:sidecar")


@pytest.fixture
def package(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The folder of a package with modules that import one another, in this process."""
    folder = tmp_path / "reloaded_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from planck_nb.sidecars import Sidecar\nfrom .words import word\nsidecar = Sidecar('s')\n"
        "@sidecar.tool\nasync def say() -> str:\n    return word()\n"
    )
    (folder / "words.py").write_text("from reloaded_package.deep import DEEP\ndef word():\n    return DEEP\n")
    (folder / "deep.py").write_text("DEEP = 'old'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield folder
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.startswith("reloaded_package")]:
        del sys.modules[name]


async def said(live: LiveOffer) -> str:
    return (await (await live.current()).tools["say"].run({})).text


async def test_modules_of_a_package_are_imported_again_together(package: pathlib.Path) -> None:
    live = LiveOffer("reloaded_package:sidecar")
    before = live.offer
    assert await said(live) == "old"
    assert await live.current() is before  # nothing is imported again without need
    (package / "deep.py").write_text("DEEP = 'new one'\n")
    assert await said(live) == "new one"
    assert (await before.tools["say"].run({})).text == "old"  # calls that were running go on with the old code
    (package / "words.py").write_text("from .added import word\n")
    with pytest.raises(ConfigError, match=r"No module named 'reloaded_package\.added'.*line 1\)"):
        await live.current()
    assert (await before.tools["say"].run({})).text == "old"
    (package / "added.py").write_text("def word():\n    return 'from a new file'\n")
    (package / "words.py").write_text("from .added import word  # again\n")
    assert await said(live) == "from a new file"
    (package / "deep.py").unlink()  # no longer needed
    assert await said(live) == "from a new file"


async def test_a_file_that_is_saved_many_times_is_loaded_as_it_is_last(package: pathlib.Path) -> None:
    live = LiveOffer("reloaded_package:sidecar")
    for number in range(6):
        (package / "deep.py").write_text(f"DEEP = '{number:02}'\n")
        results = await asyncio.gather(*(said(live) for _ in range(3)))
        assert results == [f"{number:02}"] * 3
    assert live.reloads == 6
