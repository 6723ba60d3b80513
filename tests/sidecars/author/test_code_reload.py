"""A source file of a sidecar that was changed is in effect at the next call."""

from __future__ import annotations

import os
import pathlib

import pytest
from support.sidecar_server import Mode, served, text_of, write_sidecar

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.author.live_offer import LiveOffer

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

NAMES = ["in_loop", "in_thread", "in_process"]


def write_helper(folder: pathlib.Path, word: str, name: str = "helper", variable: str = "WORD") -> None:
    """Write a module; the change cannot be seen by its size or by its time in seconds."""
    file = folder / f"{name}.py"
    file.write_text(f"{variable} = {word!r}\n", encoding="utf-8")
    number = int.from_bytes(word.encode())
    os.utime(file, ns=(10**18 + number, 10**18 + number))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_changes_are_in_effect_at_the_next_call(tmp_path: pathlib.Path, mode: Mode) -> None:
    file = write_sidecar(tmp_path, BODY)
    write_helper(tmp_path, "a")
    write_helper(tmp_path, "x", "late", "LATE")
    changed: list[str] = []

    async def notice(message: object) -> None:
        changed.append(type(message).__name__)

    async with served(tmp_path, mode=mode, message_handler=notice) as client:

        async def words() -> list[str]:
            return [text_of(await client.call_tool(name, {})) for name in NAMES]

        assert await words() == ["a", "ax", "a"]
        write_helper(tmp_path, "b")
        assert await words() == ["b", "bx", "b"]
        write_helper(tmp_path, "y", "late", "LATE")  # imported when it was called
        assert await words() == ["b", "by", "b"]

        file.write_text(file.read_text() + "\n@sidecar.tool\nasync def added() -> str:\n    return 'new'\n")
        assert text_of(await client.call_tool("added", {})) == "new"
        assert "added" in [tool.name for tool in (await client.list_tools()).tools]
        if mode == "legacy":
            assert "ToolListChangedNotification" in changed

        (tmp_path / "helper.py").write_text("WORD = (\n")
        for name in NAMES:
            result = await client.call_tool(name, {})
            assert result.is_error
            assert "The sidecar my_sidecar:sidecar cannot be loaded: SyntaxError" in text_of(result)
            assert "helper.py" in text_of(result)
        assert len((await client.list_tools()).tools) == 4  # the list stays as it was
        write_helper(tmp_path, "c")
        assert await words() == ["c", "cy", "c"]


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
