"""A new agent of a session reads nothing of it, so that many agents can be created one after another."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stored import converse

from planck_nb import Agent
from planck_nb.ai.messages import UserMessage
from planck_nb.base.ids import NewId
from planck_nb.sessions import Session
from planck_nb.sessions.database.paging import Pager
from planck_nb.testing import scripted_model


async def test_a_new_agent_reads_nothing_of_a_new_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
        with monkeypatch.context() as patch:
            patch.setattr(Pager, "conversation", lambda *_, **__: pytest.fail("the session was read"))
            agents = [Agent(model=scripted_model(["Yes."]), session=session, id=f"new-{n}") for n in range(3)]
        assert [len(agent.state.messages) for agent in agents] == [0, 0, 0]
        await agents[0].prompt("hi")
        again = Agent(model=scripted_model(["Yes."]), session=session, id="new-0")
        assert [entry.message for entry in again.state.messages] == [
            entry.message for entry in agents[0].state.messages
        ]


async def test_a_new_agent_reads_nothing_of_a_resumed_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
        session_id = session.id
    with Session.open(tmp_path, session_id) as session:
        monkeypatch.setattr(Pager, "conversation", lambda *_, **__: pytest.fail("the session was read"))
        for agent_id in (None, NewId("new")):
            assert Agent(model=scripted_model(["Yes."]), session=session, id=agent_id).state.messages == ()
        with pytest.raises(pytest.fail.Exception, match="the session was read"):
            Agent(model=scripted_model(["Yes."]), session=session, id="a1")


async def test_agents_of_sessions_that_were_there_before_have_their_messages(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="first") as session:
        await session.append("a1", UserMessage("hi"))
        with session.fork() as copy:
            assert len(copy.log("a1").messages()) == 1
            assert copy.log("a2").messages() == []
        session_id = session.id
    with Session.open(tmp_path, "first") as session:
        assert len(session.log("a1").messages()) == 1
    with Session.start(session_id, directory=tmp_path) as session:
        assert len(session.log("a1").messages()) == 1


async def test_messages_that_a_rewind_took_back_come_back_with_their_branch(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a1")
        first = await session.append("a1", UserMessage("hi"))
        await log.truncate_from(first)
        assert log.messages() == []
        await session.return_to(session.branches()[0].id)
        assert [message_id for message_id, _ in log.messages()] == [first]
