"""Recorded bodies and servers that are too large, or not ours, to keep beside the code."""

from __future__ import annotations

import os
import pathlib

import pytest


def evidence(name: str, word: str) -> pathlib.Path:
    """The path of `name` in the folder that PLANCK_NB_TESTDATA names.

    Where it is missing the test skips, or fails when `word` is in the comma list of PLANCK_NB_REQUIRE.
    """
    folder = os.environ.get("PLANCK_NB_TESTDATA")
    path = pathlib.Path(folder, name) if folder else None
    if path is not None and path.exists():
        return path
    where = f"has no {name!r}" if folder else "is not set"
    missing(f"PLANCK_NB_TESTDATA {where}; set it to the folder that holds {name!r} to run this test.", word)
    raise AssertionError  # pragma: no cover


def missing(reason: str, word: str) -> None:
    """Skip for a reason that names the fix; fail instead when `word` is required."""
    if word in required():
        pytest.fail(f"{reason} PLANCK_NB_REQUIRE demands it.", pytrace=False)
    pytest.skip(reason)


def required() -> set[str]:
    """The words in PLANCK_NB_REQUIRE: what must not be skipped here."""
    return {word.strip() for word in os.environ.get("PLANCK_NB_REQUIRE", "").split(",") if word.strip()}
