"""What is read from the end of the journal is what would be read from all of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored import with_pages

from planck_nb.ai.messages import SummaryMessage, UserMessage
from planck_nb.sessions import Session
from planck_nb.sessions.database.paging import Page, Pager, Row
from planck_nb.sessions.directory import SessionInfo, new_session_info
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import Position, compress_segment, old_segments, read_last_lines, start_segment

AGENTS = ("a1", "b2")
NO_FILE = "DuckDB was asked"


@dataclass
class Say:
    agent: str
    length: int


@dataclass
class Summarise:
    agent: str
    kept: tuple[int, ...]


@dataclass
class Rewind:
    back: int


class Rotate:
    def __repr__(self) -> str:
        return "Rotate()"


agents = st.sampled_from(AGENTS)
steps = st.lists(
    st.one_of(
        st.builds(Say, agents, st.integers(0, 400)),
        st.builds(Say, agents, st.integers(0, 400)),
        st.builds(Summarise, agents, st.lists(st.integers(-1, 12), max_size=4).map(tuple)),
        st.builds(Rewind, st.integers(-2, 15)),
        st.builds(Rotate),
    ),
    max_size=25,
)


def write(directory: Path, script: list[Say | Summarise | Rewind | Rotate]) -> tuple[SessionInfo, Position]:
    """A session in which this happened, and where its journal ends."""
    info = new_session_info(directory, "00000000000000aa", "last-lines")
    journal = JournalFile.create(info.path, codec.Header(info.id, info.name, info.created))
    row_id = 0
    for step in script:
        if isinstance(step, Rotate):
            journal = start_segment(journal)
            continue
        row_id += 1
        if isinstance(step, Rewind):
            line = codec.encode_rewind_line(row_id, "", before_id=row_id - step.back, time=0.0)
        else:
            kept = [row_id - back for back in step.kept] if isinstance(step, Summarise) else []
            message = SummaryMessage("s", kept=kept) if isinstance(step, Summarise) else UserMessage("x" * step.length)
            line = codec.encode_message_line(row_id, step.agent, message, turn=0, time=0.0)
        journal.append(line, sync=False)
    end = Position(journal.segment, journal.size)
    journal.close()
    return info, end


def look(info: SessionInfo, end: Position, sizes: tuple[int, ...]) -> list[Page | list[Row]]:
    """All that can be asked, where so many of the last bytes are tried first."""
    pager = Pager(info, last_bytes=sizes, few_agents=0)
    pages = [pager.chapter(before, agent, end=end) for before in (None, 5, 10) for agent in (None, *AGENTS)]
    one_by_one = {agent: pager.conversation(agent, end=end) for agent in AGENTS}
    assert pager.conversations(set(AGENTS), end=end) == one_by_one
    return [*pages, *one_by_one.values()]


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(steps, st.lists(st.integers(1, 6000), max_size=2).map(tuple), st.booleans())
def test_reading_from_the_end_gives_what_reading_everything_gives(
    script: list[Say | Summarise | Rewind | Rotate], sizes: tuple[int, ...], compressed: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        info, end = write(Path(folder), script)
        expected = look(info, end, ())
        if compressed:
            for segment in old_segments(info.path):
                compress_segment(segment)
        assert look(info, end, sizes) == expected


@pytest.mark.parametrize("compressed", [False, True])
def test_a_summary_keeps_the_last_message_of_the_segment_before(tmp_path: Path, compressed: bool) -> None:
    info, end = write(tmp_path, [Say("a1", 0), Rotate(), Summarise("a1", (1,))])
    if compressed:
        for segment in old_segments(info.path):
            compress_segment(segment)
    for size in (end.offset, 10**6):  # as many bytes as the segment has, and as the reader tries
        pager = Pager(info, last_bytes=(size,))
        assert [row.db_id for row in pager.conversation("a1", end=end)] == [1, 2]


@settings(max_examples=30, deadline=None)
@given(steps, st.integers(1, 6000))
def test_the_last_lines_are_the_end_of_all_lines(script: list[Say | Summarise | Rewind | Rotate], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        info, end = write(Path(folder), script)
        everything, whole = read_last_lines(info.path, end, 10**9)
        assert whole
        lines, complete = read_last_lines(info.path, end, size)
        assert lines == everything[len(everything) - len(lines) :]
        assert complete == (len(lines) == len(everything))
        assert sum(map(len, lines)) <= size


async def test_a_near_chapter_is_read_without_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attached(_pager: Pager) -> None:
        raise AssertionError(NO_FILE)

    with with_pages(Session.create(tmp_path), (2000,)) as session:
        for number in range(100):
            await session.append("a", SummaryMessage("so far") if number == 97 else UserMessage("x"))
        monkeypatch.setattr(Pager, "_attached", attached)
        assert [row.db_id for row in session.messages_from_latest_checkpoint().rows] == [98, 99, 100]
        assert [row_id for row_id, _ in session.log("a").messages()] == [98, 99, 100]
        with pytest.raises(AssertionError, match="DuckDB"):
            session.messages_before_checkpoint(98)
