"""The recorded bodies of vendors, as test parameters."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from support.evidence import evidence


def recorded(kind: str, *apis: tuple[str, str]) -> list[Any]:
    """A parameter for each recording of this kind ("stream", "json" or "error") of these providers and formats.

    Where there are none, one None, so that a test that asks for its body skips with a reason.
    """
    folder = os.environ.get("PLANCK_NB_TESTDATA", "")
    index = pathlib.Path(folder, "streams", "index.json")
    rows = json.loads(index.read_text()) if folder and index.exists() else []
    mine = [row for row in rows if row["kind"] == kind and (row["provider"], row["api"]) in apis]
    return [pytest.param(row, id=row["file"]) for row in mine] or [None]


def body_of(row: dict[str, Any] | None) -> bytes:
    """The recorded body."""
    streams = evidence("streams", "streams")
    assert row is not None
    return pathlib.Path(streams, row["file"]).read_bytes()


def request_of(row: dict[str, Any] | None) -> dict[str, Any]:
    """The body of the request that was answered."""
    streams = evidence("streams", "streams")
    assert row is not None
    path = pathlib.Path(streams, row["file"]).parent / pathlib.Path(row["request"]).name
    sent: dict[str, Any] = json.loads(path.read_text())
    return sent
