"""Earlier segments of an open journal: their open files and replacements."""

from __future__ import annotations

import logging
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.open_files import open_files

from planck_nb.sessions.journal.codec import Header
from planck_nb.sessions.journal.journal_file import CHUNK, JournalFile
from planck_nb.sessions.journal.kept_segments import KeptSegments
from planck_nb.sessions.journal.segments import old_segments, start_segment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no open file")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with one earlier segment."""
    path = tmp_path / "sessions" / "s.journal.jsonl"
    path.parent.mkdir()
    start_segment(JournalFile.create(path, Header("00ff00ff", "mine", datetime(2026, 1, 2, tzinfo=UTC)))).close()
    return path


@pytest.fixture
def segment(journal: Path) -> Path:
    """The earlier segment."""
    [path] = old_segments(journal)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the open files of a process")
def test_each_segment_has_one_open_file_until_the_end(journal: Path, segment: Path) -> None:
    keeper = KeptSegments(journal)
    keeper.add_new()
    assert open_files(journal.parent) == [str(segment)]
    segment.unlink()
    keeper.restore()
    assert open_files(journal.parent) == [str(segment)]
    keeper.close()
    assert open_files(journal.parent) == []
    keeper.close()


def test_a_failure_is_said_once_until_it_is_over(
    journal: Path, segment: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content, keeper, folder = segment.read_bytes(), KeptSegments(journal), journal.parent
    for _ in range(2):
        shutil.rmtree(folder)
        folder.touch()  # a folder cannot be made in its place
        caplog.clear()
        keeper.restore()
        keeper.restore()
        [failure] = caplog.records
        assert failure.levelno == logging.WARNING
        assert "cannot be written again" in failure.getMessage()
        folder.unlink()
        folder.mkdir()
        keeper.restore()
        keeper.restore()
        [_, success] = caplog.records
        assert "has been written again" in success.getMessage()
        assert segment.read_bytes() == content
    keeper.close()


LONG = b"x" * (CHUNK + 1)


@pytest.mark.parametrize(
    ("content", "other"),
    [(LONG, LONG[:-1] + b"y"), (LONG, LONG[:-1]), (LONG[:-1], LONG), (b"", b"x")],
    ids=["last byte", "shorter", "longer", "empty"],
)
def test_a_file_that_differs_at_its_end_is_set_aside(
    journal: Path, segment: Path, content: bytes, other: bytes
) -> None:
    segment.write_bytes(content)
    keeper = KeptSegments(journal)
    segment.unlink()
    segment.write_bytes(other)
    keeper.restore()
    assert segment.read_bytes() == content
    [aside] = journal.parent.glob("*.replaced-*")
    assert aside.read_bytes() == other
    keeper.close()
