"""The book of proposed changes: who may decide, what counts, and what the session keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.notebook_tools import outcome
from planck_nb.jupyter.lab.protocol import CellChange, ChangeSet, ChangeState, Decision
from planck_nb.sessions import Session
from planck_nb.sessions.journal.signing import Signer

CHANGES = ChangeSet(
    "s1",
    "analyst",
    "a1",
    "work.ipynb",
    1.0,
    (
        CellChange("x", "change", "c1", before="old", source="new"),
        CellChange("y", "delete", "c2", before="gone"),
    ),
)


def book_of(changes: ChangeSet = CHANGES) -> ChangeBook:
    book = ChangeBook(lambda: None)
    book.put(changes)
    return book


def states(book: ChangeBook) -> list[ChangeState]:
    [found] = book.sets()
    return [change.state for change in found.changes]


def test_one_page_decides_and_its_decision_counts_once() -> None:
    book = book_of()
    assert book.claim("s1", ["x"], "one") == ""
    assert book.claim("s1", ["x"], "one") == "", "the same page may ask again"
    assert book.claim("s1", ["x", "y"], "two") != ""
    assert book.claim("s2", ["x"], "two") != ""
    book.decide("s1", [Decision("x", "refused")], "two")
    assert states(book) == ["open", "open"]
    book.decide("s1", [Decision("x", "edited", source="mine")], "one", [{"kind": "change"}])
    book.decide("s1", [Decision("x", "refused")], "one")
    assert states(book) == ["edited", "open"]
    assert book.sets()[0].changes[0].source == "mine"
    assert book.claim("s1", ["x"], "one") != ""
    assert book.inverse("s1") == ({"kind": "change"},)


def test_a_page_which_cannot_apply_a_change_leaves_it_to_others() -> None:
    book = book_of()
    assert book.claim("s1", ["x"], "one") == ""
    assert book.claim("s1", ["y"], "two") == ""
    book.decide("s1", [], "one")
    assert states(book) == ["open", "open"]
    assert book.claim("s1", ["x"], "three") == ""
    assert book.claim("s1", ["y"], "three") != "", "only that page's claims have ended"


def test_a_page_that_is_gone_decides_nothing() -> None:
    book = book_of()
    assert book.claim("s1", ["x"], "one") == ""
    book.release("one")
    assert book.claim("s1", ["x"], "two") == ""


async def test_waiting_ends_with_the_decision_or_with_the_time() -> None:
    book = book_of()
    [still_open] = await book.wait("s1", {"x"}, 0.001)
    assert still_open.state == "open"
    waiting = asyncio.create_task(book.wait("s1", {"x"}, None))
    await asyncio.sleep(0)
    book.decide("s1", [Decision("y", "accepted")], "one")
    book.decide("s1", [Decision("x", "refused", "too long")], "one")
    [decided] = await waiting
    assert (decided.state, decided.reason) == ("refused", "too long")
    assert [change.id for change in book.news("a1")] == ["y"], "of x it has been told"
    assert book.news("a1") == ()
    assert book.news("other") == ()


async def test_a_set_that_was_taken_back_is_news() -> None:
    book = book_of()
    book.decide("s1", [Decision("x", "accepted"), Decision("y", "refused")], "one", [{"kind": "change"}])
    assert len(book.news("a1")) == 2
    book.take_back("s1")
    assert states(book) == ["taken back", "refused"]
    assert [change.state for change in book.news("a1")] == ["taken back"]
    assert book.inverse("s1") == ()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session.create(tmp_path, signer=Signer(b"k" * 32)) as session:
        yield session


async def test_a_session_keeps_the_sets_with_who_and_when(session: Session) -> None:
    book = ChangeBook(lambda: session)
    book.put(CHANGES)
    book.decide("s1", [Decision("x", "accepted")], "one", [{"kind": "change"}])
    later = ChangeBook(lambda: session)
    await later.load()
    [found] = later.sets()
    assert found == book.sets()[0]
    assert (found.decided_by, found.decided is None) == ("one", False)
    assert later.inverse("s1") == ({"kind": "change"},)
    assert later.news("a1") == (), "what was decided before is no news"


async def test_sets_which_somebody_else_wrote_stay_out(session: Session) -> None:
    """*Take back* would put their outputs into a trusted notebook."""
    await session.save_metadata({"cell_changes:s1": {**asdict(CHANGES), "inverse": [{"kind": "insert"}]}})
    book = ChangeBook(lambda: session)
    await book.load()
    assert book.sets() == ()


@pytest.mark.parametrize("stored", [{}, {"format": 99}, {"format": 1, "id": 3}, {"format": 1, "inverse": 5}])
async def test_what_this_version_cannot_read_is_left_out(session: Session, stored: JsonObject) -> None:
    session.record_signed_metadata("cell_changes:s1", stored)
    book = ChangeBook(lambda: session)
    await book.load()
    assert book.sets() == ()


def test_sets_follow_a_notebook_that_is_renamed() -> None:
    book = book_of()
    book.rename("work.ipynb", "done.ipynb")
    assert book.sets()[0].path == "done.ipynb"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("open", "still open"),
        ("accepted", "Accepted: change of cell c1."),
        ("edited", "It is now:\nnew"),
        ("refused", "Refused: change of cell c1 (why)."),
        ("outdated", "Read the notebook again"),
        ("taken back", "Taken back by the user"),
    ],
)
def test_an_agent_is_told_what_was_decided(state: ChangeState, words: str) -> None:
    assert words in outcome(replace(CHANGES.changes[0], state=state, reason="why"))
