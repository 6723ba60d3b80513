from __future__ import annotations

import gzip

import pytest

from planck_nb.jupyter.live.view import LOADER, FirstCode, code_of

STATIC = LOADER.parent
FILE = next(word for word in LOADER.read_text(encoding="utf-8").split('"') if word.startswith("live-"))


def test_the_loader_requests_the_file_that_was_built() -> None:
    assert code_of(FILE) == (STATIC / "live.js").read_bytes()


@pytest.mark.parametrize(
    "file", ["", "live", "live-", "live-000000000000", f"../static/{FILE}", "/etc/passwd-x", "x" * 9999]
)
def test_nothing_else_is_sent(file: str) -> None:
    assert code_of(file) is None


def test_the_code_is_brought_along_once() -> None:
    first = FirstCode()
    assert [len(first.take()) > 10_000, first.take()] == [True, b""]


@pytest.mark.parametrize(("name", "most"), [("live", 110_000), ("mathematics", 55_000)])
def test_the_code_of_the_view_stays_small(name: str, most: int) -> None:
    """In bytes as they are compressed on their way; each page gets the code once, and formulas when it has one."""
    assert len(gzip.compress((LOADER.parent / f"{name}.js").read_bytes(), mtime=0)) <= most
    assert len(LOADER.read_bytes()) <= 1024
