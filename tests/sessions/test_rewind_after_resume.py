from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from planck_nb import Agent, Session
from planck_nb.agent.context.compactor import Compact, ContextUsage
from planck_nb.agent.state import AgentState, fold
from planck_nb.ai.messages import Message
from planck_nb.testing import scripted_model


def summarize(messages: Sequence[Message], _usage: ContextUsage) -> Compact:
    return Compact("The second summary.", tuple(messages[-2:]))


def agent_in(session: Session) -> Agent:
    return Agent(id="ann", model=scripted_model(["Yes."] * 2), session=session, on_compact=summarize)


async def test_a_resumed_agent_that_goes_back_before_a_summary_has_the_summary_before_it(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        async with agent_in(session) as agent:
            await agent.prompt("First.")
            await agent.checkpoint("The first summary.")
            await agent.prompt("Second.")
            assert await agent.compact()
            second = agent.state.messages[-1].id
    with Session.open(tmp_path, session.id) as session:
        async with agent_in(session) as agent:
            assert agent.state.messages[-1].id == second
            await agent.rewind_to_message(second)
            texts = [getattr(entry.message, "text", "") for entry in agent.state.messages]
            assert texts == ["The first summary.", "Second.", "Yes."]
            stored = reduce(fold, session.events("ann"), AgentState())
            assert agent.state.messages == stored.messages[-3:]
