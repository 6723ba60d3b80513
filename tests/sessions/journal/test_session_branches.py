from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from support.stored import START, converse, reply, with_pages

from planck_nb.agent import events
from planck_nb.ai.messages import SummaryMessage, Usage, UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session, list_sessions, query

Settle = Callable[[Session], None]


@pytest.fixture(params=["journal", "materialized"])
def settle(request: pytest.FixtureRequest) -> Settle:
    """Moves what was written so far to where it is to be read from."""
    return Session.materialize if request.param == "materialized" else lambda _: None


async def say(session: Session, *texts: str) -> None:
    for text in texts:
        await session.append("a", UserMessage(text))


def said(session: Session) -> list[str]:
    return [row.message.content[0].text for row in session.messages() if row.message.content[0].type == "text"]


async def test_what_a_rewind_leaves_is_a_branch_that_can_be_returned_to(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        assert session.branches() == []
        await say(session, "1", "2", "3")
        await session.truncate_after(2)
        await say(session, "other")
        settle(session)
        [branch] = session.branches()
        assert (branch.before_id, branch.messages, branch.last_text) == (2, 2, "3")
        assert 0 <= (datetime.now(UTC) - branch.left_at).total_seconds() < 60
        await session.return_to(branch.id)
        assert said(session) == ["1", "2", "3"]
        await say(session, "4")
        settle(session)
        again, other = session.branches()
        assert again == branch
        assert (other.messages, other.last_text) == (1, "other")
        await session.return_to(other.id)
        assert said(session) == ["1", "other"]
        assert [branch.last_text for branch in session.branches()] == ["3", "other", "4"]
    with Session.open(tmp_path, session.id) as opened:
        await opened.return_to(opened.branches()[-1].id)
        assert said(opened) == ["1", "2", "3", "4"]
        assert [row.text for row in query(tmp_path, "from messages order by id").itertuples()] == said(opened)


async def test_the_view_shows_the_same_branches(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        await say(session, *"123456")
        await session.truncate_after(5)
        await say(session, "8")
        await session.truncate_after(3)
        await session.truncate_after(2)
        settle(session)
        await say(session, "11")
        branches = session.branches()
        assert [(branch.messages, branch.last_text) for branch in branches] == [(2, "6"), (3, "8"), (1, "2")]
        found = query(tmp_path, "from branches order by branch_id")
        assert found.branch_id.tolist() == [branch.id for branch in branches]
        assert found.before_id.tolist() == [branch.before_id for branch in branches]
        assert found.messages.tolist() == [branch.messages for branch in branches]
        assert found.last_text.tolist() == [branch.last_text for branch in branches]
        assert found.left_at.tolist() == [pd.Timestamp(branch.left_at).tz_localize(None) for branch in branches]


async def test_only_a_branch_can_be_returned_to(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await say(session, "1", "2")
        await session.truncate_after(2)
        for unknown in (0, 2, 99):
            with pytest.raises(SessionError, match="no branch"):
                await session.return_to(unknown)
        assert said(session) == ["1"]


@pytest.mark.parametrize("beyond", [-(10**30), 10**30])
async def test_a_rewind_to_beyond_all_ids_can_be_read(tmp_path: Path, beyond: int) -> None:
    with Session.create(tmp_path) as session:
        first = await session.append("a", UserMessage("first"))
        await session.truncate_after(beyond)
        await session.append("a", UserMessage("second"))
        await session.truncate_after(first)
        assert session.messages() == []
        assert query(tmp_path, "from messages").empty
        shown = query(tmp_path, "from branches order by branch_id")
        assert shown.branch_id.tolist() == [branch.id for branch in session.branches()]
        await session.return_to(session.branches()[-1].id)
        assert len(session.messages()) == (1 if beyond < 0 else 2)


async def test_a_fork_shares_what_was_said_and_goes_its_own_way(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path, name="old") as session:
        ids = await converse(session)
        await say(session, "wrong")
        await session.truncate_after(ids[-1] + 1)
        await session.save_metadata({"team": "x"})
        settle(session)
        with session.fork(name="new") as fork:
            assert fork.messages() == session.messages()
            assert [event.type for event in fork.events()] == [event.type for event in session.events()]
            assert {event.session_id for event in fork.events()} == {fork.id}
            assert fork.get_metadata() == {"team": "x"}
            assert fork.branches() == []
            await fork.append("a1", reply("mine"))
            await session.append("a1", reply("theirs"))
            assert len(fork.messages()) == len(session.messages()) == 5
            assert fork.messages()[-1].message == reply("mine")
        counted = query(tmp_path, "from sessions order by session_name").set_index("session_name")
        assert counted.loc["new", "parent"] == session.id
        assert counted.messages.to_dict() == {"new": 5, "old": 5}
        assert counted.cost_usd.to_dict() == {"new": 0.25, "old": 1.0}, "what was copied was paid for once"
        assert query(tmp_path, "select sum(cost_usd) as c from usage").c[0] == 1.25


async def test_a_fork_has_a_name_of_its_own(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="old") as session, pytest.raises(SessionError, match="named 'old' already"):
        session.fork(name="old")
    assert [info.name for info in list_sessions(tmp_path)] == ["old"]


async def test_a_fork_may_begin_earlier(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await say(session, "1", "2", "3")
        with session.fork(before=3) as fork, session.fork(before=1) as empty:
            assert said(fork) == ["1", "2"]
            assert await fork.append("a", UserMessage("x")) == 3
            assert said(empty) == []
            assert await empty.append("a", UserMessage("x")) == 1
        with Session.open(tmp_path, fork.id) as again:
            assert said(again) == ["1", "2", "x"]
            assert again.info.parent == session.id


async def test_an_id_is_not_given_again_after_a_segment_began(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await say(session, "1")
        session._writer.start_segment()
    with Session.open(tmp_path, session.id) as again:
        assert await again.append("a", UserMessage("2")) == 2
        with again.fork() as fork:
            assert said(fork) == ["1", "2"]


async def test_turns(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a1")
        log.record(events.TurnStart("a1", session.id, 0, 0, START, index=0, model="demo:small"))
        await converse(session)
        end = events.TurnEnd("a1", session.id, 0, 9, START + 6, message=reply("x"), usage=Usage())
        log.record(end)
        log.record(events.TurnStart("a1", session.id, 1, 0, START + 7, index=1, model="demo:small"))
        await session.append("a1", UserMessage("second"), turn=1)
        settle(session)
        log.record(events.Error("a1", session.id, 1, 0, START + 8, reason="Broken.", kind="ProviderError"))
        log.record(events.TurnStart("a1", session.id, 2, 0, START + 9, index=2, model="demo:small"))
        await session.flush()
        turns = query(tmp_path, "from turns order by turn")
        assert turns.turn.tolist() == [0, 1, 2]
        assert turns.prompt.tolist()[:2] == ["question 0", "second"]
        assert turns.outcome.tolist()[:2] == ["turn_end", "error"]
        assert turns.duration_s.tolist()[:2] == [6.0, 1.0]
        assert turns.loc[2, ["prompt", "ended", "duration_s", "outcome"]].isna().all()
        assert turns.started[2] == pd.Timestamp(START + 9, unit="s")
        assert turns.replies.tolist() == [2, 0, 0]
        assert turns.tool_calls.tolist() == [1, 0, 0]
        assert (turns.input_tokens[0], turns.output_tokens[0], turns.cost_usd[0]) == (17, 8, 0.75)


async def test_chapters(tmp_path: Path, settle: Settle) -> None:
    with Session.create(tmp_path) as session:
        ids = await converse(session)
        settle(session)
        checkpoint = await session.append("a1", SummaryMessage("It was 0 °C."))
        last = await session.append("a1", UserMessage("and now?"))
        other = await session.append("b", UserMessage("hi"))
        chapters = query(tmp_path, "from chapters order by agent_id, chapter")
        assert chapters.chapter.tolist() == [0, 1, 0]
        assert chapters.first_id.tolist() == [ids[0], checkpoint, other]
        assert chapters.last_id.tolist() == [ids[-1], last, other]
        assert chapters.messages.tolist() == [4, 2, 1]
        assert chapters.checkpoint_id.tolist() == [pd.NA, checkpoint, pd.NA]
        assert chapters.summary.dropna().tolist() == ["It was 0 °C."]
        assert chapters.started[0] == pd.Timestamp(START, unit="s")


async def test_pages_of_a_session_with_many_rewinds(tmp_path: Path) -> None:
    """More than a statement can leave out one by one, read from the DuckDB file."""
    with Session.create(tmp_path) as session:
        kept = []
        for number in range(60):
            kept.append(await session.append("a", UserMessage(f"{number}")))
            if number in {20, 40}:
                kept.append(await session.append("a", SummaryMessage(f"until {number}")))
            undone = await session.append("a", SummaryMessage("undone"))
            await session.truncate_after(undone)
        session.materialize()
        with with_pages(Session.read(tmp_path, session.id)) as reader:
            latest = reader.messages_from_latest_checkpoint()
            assert latest.checkpoint_id is not None
            before = reader.messages_before_checkpoint(latest.checkpoint_id)
            assert before.checkpoint_id is not None
            first = reader.messages_before_checkpoint(before.checkpoint_id)
            assert [row.db_id for page in (first, before, latest) for row in page.rows] == kept
            assert [row.db_id for row in reader.messages()] == kept
