"""A test that cannot find its evidence says what to do, and is not skipped where it must run."""

from __future__ import annotations

import pathlib

import pytest
from support.evidence import evidence


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "streams").mkdir()
    monkeypatch.setenv("PLANCK_NB_TESTDATA", str(tmp_path))
    monkeypatch.delenv("PLANCK_NB_REQUIRE", raising=False)
    return tmp_path


def test_it_is_found(folder: pathlib.Path) -> None:
    assert evidence("streams", "streams") == folder / "streams"


def test_missing_evidence_skips_and_names_the_fix(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match="has no 'llama'; set it to the folder"):
        evidence("llama", "llama")
    monkeypatch.delenv("PLANCK_NB_TESTDATA")
    with pytest.raises(pytest.skip.Exception, match="PLANCK_NB_TESTDATA is not set"):
        evidence("streams", "streams")


def test_required_evidence_fails(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANCK_NB_REQUIRE", "chromium, llama")
    with pytest.raises(pytest.fail.Exception, match="demands it"):
        evidence("llama", "llama")
