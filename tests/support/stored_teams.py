"""Teams of scripted agents that write to a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from planck_nb import Agent
from planck_nb.agent.identity import Grants
from planck_nb.sessions import Session
from planck_nb.teams import orchestrator_tools, worker_tools
from planck_nb.testing import Call, Reply, scripted_model

TEAM = "t"


def ask(name: str, question: str) -> Call:
    return Call("ask_agent", {"agent_id": name, "question": question})


def delegate(name: str, task: str) -> Call:
    return Call("delegate_task", {"agent_id": name, "task": task})


def respond(text: str) -> Reply:
    return Reply(calls=(Call("send_response", {"response": text}),))


def worker(session: Session, boss: Agent, name: str, script: Sequence[Reply | str], **options: Any) -> Agent:
    """Make a worker of the team of `boss`."""
    return Agent(
        model=scripted_model(script),
        name=name,
        type="builder",
        session=session,
        team_id=TEAM,
        parent_id=boss.id,
        tools=[*worker_tools(), *options.pop("tools", ())],
        **options,
    )


@asynccontextmanager
async def running_team(
    session: Session, boss: Sequence[Reply | str], **workers: Sequence[Reply | str]
) -> AsyncIterator[dict[str, Agent]]:
    """A team with the scripts of its orchestrator, `boss`, and of its workers."""
    leader = Agent(
        model=scripted_model(boss),
        name="boss",
        type="orchestrator",
        session=session,
        team_id=TEAM,
        tools=orchestrator_tools(),
        description="leads",
        grants=Grants(("read",), ("charts",)),
    )
    try:
        yield {"boss": leader, **{name: worker(session, leader, name, script) for name, script in workers.items()}}
    finally:
        await leader.stop()


async def idle(agent: Agent, *, messages: int) -> None:
    """Wait until the agent has so many messages and no turn runs."""
    async with asyncio.timeout(20), agent.subscribe(since=0) as events:
        while len(agent.state.messages) < messages or agent.status != "idle":
            await anext(events)
