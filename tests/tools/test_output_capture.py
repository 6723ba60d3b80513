"""Long outputs are cut, but not inside a secret, which could then no longer be found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planck_nb.base.secrets import redact
from planck_nb.tools.output_capture import HEAD, HEAD_LINES, TAIL, TAIL_LINES, Capture, spill_folder

SECRET = "hunter2-very-long-and-secret"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", SECRET)


def captured(data: bytes, piece: int) -> str:
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
