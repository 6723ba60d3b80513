"""Long outputs are cut, but not inside a secret, which could then no longer be found."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from planck_nb import BuiltinTools, ExternalTool, ToolError
from planck_nb.base.secrets import redact
from planck_nb.tools.output_capture import HEAD, HEAD_LINES, TAIL, TAIL_LINES, Capture, binary_kind, spill_folder

SECRET = "hunter2-very-long-and-secret"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", SECRET)


def captured(data: bytes, piece: int = 4_096) -> str:
    capture = Capture()
    for start in range(0, len(data), piece):
        capture.feed(data[start : start + piece])
    text = capture.text()
    capture.close()
    return text


def parts(text: str) -> list[str]:
    """Pieces of the secret that are in the text."""
    return [SECRET[at : at + 6] for at in range(len(SECRET) - 5) if SECRET[at : at + 6] in text]


@pytest.mark.parametrize("size", [HEAD + TAIL + 1, HEAD + TAIL + 20_000, 200_000])
@pytest.mark.parametrize("piece", [1_000, 10**6])
@pytest.mark.parametrize("cut", [1, 5, 16, 27])
def test_a_secret_at_a_limit_is_left_out(size: int, piece: int, cut: int) -> None:
    data = bytearray(b"." * size)
    for start in (HEAD - cut, size - TAIL - cut):
        data[start : start + len(SECRET)] = SECRET.encode()
    text = captured(bytes(data), piece)
    assert parts(text) == []
    assert "bytes left out" in text
    assert HEAD + TAIL - 2 * len(SECRET) <= text.count(".") <= HEAD + TAIL


def test_a_secret_of_several_lines_at_a_limit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "first-line-1\nsecond-line-2\nthird-line-3")
    lines = ["x"] * (HEAD_LINES + TAIL_LINES + 10)
    for start in (HEAD_LINES - 1, len(lines) - TAIL_LINES - 1):
        lines[start : start + 3] = ["first-line-1", "second-line-2", "third-line-3"]
    text = captured("\n".join(lines).encode(), 10**6)
    assert "bytes left out" in text
    assert "-line-" not in redact(text)


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork")
def test_a_forked_process_has_a_folder_of_its_own() -> None:
    mine = spill_folder()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        folder = spill_folder()
        os.write(writing, str(folder).encode())
        folder.rmdir()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        folder = Path(stream.read())
    os.waitpid(child, 0)
    assert folder.name != ""
    assert folder != mine


# Output of commands that is not text is replaced by a line that says where it is.

NOISE = os.urandom(50_000)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (NOISE, "binary output"),
        (b"\x89PNG\r\n\x1a\n" + NOISE, "binary output, a PNG image"),
        (b"\xff\xd8\xff" + NOISE[:500], "binary output, a JPEG image"),
        (gzip.compress(NOISE), "binary output, gzip data"),
        (b"\x7fELF" + b"\0" * 900, "binary output, an ELF program"),
        (b"\0" * 200_000, "binary output"),
        (b"\xff\xfe" + ("wide " * 50).encode("utf-16-le"), "binary output, UTF-16 text"),
        (b"a line of text\n" * 2_000 + NOISE, "binary output"),
    ],
)
def test_binary_output_is_named_and_kept(data: bytes, kind: str) -> None:
    text = captured(data)
    found = re.fullmatch(r"\[(.*), ([\d,]+) bytes: cannot be shown as text; all of it in (.*)\]\n", text)
    assert found is not None
    assert (found[1], found[2]) == (kind, f"{len(data):,}")
    assert Path(found[3]).read_bytes() == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain\n" * 5_000,
        "größe, 東京, emoji 😀 " * 4_000,
        "\x1b[31mred\x1b[0m\r\b" * 500,
        "one\0two\0three-is-a-longer-name\0" * 300,
    ],
)
def test_text_is_shown(text: str) -> None:
    assert "cannot be shown" not in captured(text.encode(), piece=4_099)


def test_a_few_bytes_in_another_encoding_are_shown() -> None:
    assert captured("Ein Stück Käse für Jürgen\n".encode("latin-1") * 50).count("St\ufffdck") == 50
    assert captured(b"\xff\x00") == "\ufffd\0"
    assert binary_kind("東".encode() * 10_000, "東".encode()[1:] * 2) == ""


@pytest.mark.process
async def test_bash_and_described_tools_and_failures_do_not_fill_the_conversation(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\x89PNG\r\n\x1a\n" + NOISE)
    result = await BuiltinTools.bash(cwd=tmp_path).run({"command": "cat noise; echo done >&2"})
    assert "[binary output, a PNG image, 50,008 bytes" in result.text
    assert "done" in result.text
    assert len(result.text) < 400
    with pytest.raises(ToolError, match="binary output") as failure:
        await BuiltinTools.bash(cwd=tmp_path).run({"command": "cat noise; exit 3"})
    assert len(str(failure.value)) < 500
    folder = tmp_path / "tools" / "dump"
    folder.mkdir(parents=True)
    program = f"{shlex.quote(sys.executable)} -c 'import os, sys; sys.stdout.buffer.write(os.urandom(9000))'"
    described = {"name": "dump", "description": "Dump.", "command": program, "parameters": {"type": "object"}}
    (folder / "TOOL.json").write_text(json.dumps(described))
    (dump,) = ExternalTool.load_all([tmp_path / "tools"], cwd=tmp_path)
    assert "[binary output, 9,000 bytes" in (await dump.run({})).text
