"""Who took part in a session, according to the store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.stored import START, reply

from planck_nb.agent import events as ev
from planck_nb.agent.identity import AgentIdentity, Grants
from planck_nb.ai.messages import Usage, UserMessage
from planck_nb.sessions import Session, list_sessions
from planck_nb.sessions.members import AgentRecord, RememberedRule, read_members


class Actor:
    """Writes what an agent would, into its log."""

    def __init__(self, session: Session, agent_id: str) -> None:
        self.session, self.id, self.turn = session, agent_id, -1
        self._log = session.log(agent_id)

    def tell(self, kind: type[ev.EventBase], *payload: object) -> None:
        self._log.record(kind(self.id, self.session.id, self.turn, 0, START, *payload))  # type: ignore[arg-type]

    def join(self, name: str, model: str = "demo:small", tools: tuple[str, ...] = ()) -> None:
        self.tell(ev.AgentStarted, name, "worker", model, "", tools)

    async def begin(self, text: str) -> int:
        """Begin a turn and hear a prompt; its id."""
        self.turn += 1
        self.tell(ev.TurnStart, self.turn, "demo:small")
        return await self._log.append(UserMessage(text), turn=self.turn, time=START)

    async def answer(self) -> None:
        await self._log.append(reply("Yes."), turn=self.turn, time=START)
        self.tell(ev.UsageDelta, reply("Yes.").usage, Usage(), 0.25, None)
        self.tell(ev.TurnEnd, reply("Yes."), Usage(1, 1))

    def summarise(self) -> None:
        self.tell(ev.UsageDelta, Usage(100, 1), Usage(), 0.5, None, 0, "usage_delta", False, "summary", "demo:small")


async def members(session: Session) -> dict[str, AgentRecord]:
    await session.flush()
    return {member.identity.name: member for member in (await read_members(session)).members}


async def test_members_are_as_they_were_last(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ann, bob = Actor(session, "a1"), Actor(session, "b1")
        bob.join("bob")
        grants = Grants(("read",), ("sums",), ("demo:small",))
        ann.tell(
            *(ev.AgentStarted, "it's Ann", "worker", "demo:small", "", ("add",), {}, "worker", "t1", "b1", "Adds."),
            *(grants, {}, ({"api": "demo"},)),
        )
        await ann.begin("one")
        await ann.answer()
        await ann.begin("two")
        await ann.answer()
        ann.tell(ev.AgentChanged, "demo:large", "Be brief.", ("add", "read"), {"thinking": "low"}, {"alias": "big"})
        found = await members(session)
        assert list(found) == ["bob", "it's Ann"]
        assert found["it's Ann"] == AgentRecord(
            AgentIdentity("a1", "it's Ann", "worker", "worker", "t1", "b1"),
            model="demo:large",
            model_source={"alias": "big"},
            system_prompt="Be brief.",
            description="Adds.",
            grants=Grants(("read",), ("sums",), ("demo:small",)),
            tools=("add", "read"),
            options={"thinking": "low"},
            removed=False,
            unfinished=False,
            turn=1,
            usage=Usage(20, 10, 8, 2, 4),
            cost=0.5,
            grant_sources=({"api": "demo"},),
        )
        assert found["bob"] == AgentRecord(
            AgentIdentity("b1", "bob", "worker"),
            model="demo:small",
            model_source={},
            system_prompt="",
            description="",
            grants=Grants(),
            tools=(),
            options={},
            removed=False,
            unfinished=False,
            turn=-1,
            usage=Usage(),
            cost=None,
        )


@pytest.mark.parametrize(
    ("ending", "unfinished"),
    [
        ((), True),
        ((ev.TurnEnd, reply("Yes."), Usage()), False),
        ((ev.Aborted,), False),
        ((ev.Error, "broken", "ProviderError"), False),
        ((ev.AgentStarted, "ann", "worker", "demo:small", "", ()), False),
    ],
    ids=["cut-off", "turn_end", "aborted", "error", "resumed"],
)
async def test_a_turn_that_never_ended_is_unfinished(
    tmp_path: Path, ending: tuple[type[ev.EventBase]], *, unfinished: bool
) -> None:
    with Session.create(tmp_path) as session:
        ann = Actor(session, "a1")
        ann.join("ann")
        await ann.begin("one")
        if ending:
            ann.tell(*ending)
        assert (await members(session))["ann"].unfinished == unfinished


async def test_rewound_turns_do_not_count_but_their_cost_does(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ann, bob = Actor(session, "a1"), Actor(session, "b1")
        ann.join("ann")
        await ann.begin("one")
        await ann.answer()
        second = await ann.begin("two")
        bob.join("bob")
        bob.summarise()
        ann.tell(ev.AgentStopped, True)
        await ann.answer()
        assert {name: member.removed for name, member in (await members(session)).items()} == {
            "ann": True,
            "bob": False,
        }
        await session.truncate_after(second)
        found = await members(session)
        assert list(found) == ["ann"]
        assert (found["ann"].removed, found["ann"].turn, found["ann"].usage, found["ann"].cost) == (
            False,
            1,
            Usage(20, 10, 8, 2, 4),
            0.5,
        )
        await session.flush()
        together = await read_members(session)
        assert (together.tokens, together.cost) == (131, 1.0), "bob is gone, and was paid"
        await session.truncate_after(1)
        together = await read_members(session)
        assert (together.members, together.tokens, together.cost) == ((), 131, 1.0)
        await session.return_to(session.branches()[-1].id)
        await session.return_to(session.branches()[0].id)
        assert {name: member.removed for name, member in (await members(session)).items()} == {
            "ann": True,
            "bob": False,
        }


@pytest.mark.parametrize("materialized", [False, True])
async def test_rules_are_those_that_the_user_said_to_remember(tmp_path: Path, *, materialized: bool) -> None:
    with Session.create(tmp_path) as session:
        ann = Actor(session, "a1")
        ann.join("ann")
        for allowed, by, rule, *scope in [
            (True, "user", "agent_id=a1 write:src/**", "agent"),
            (True, "user", "write:src/**", "all"),
            (True, "user", ""),
            (True, "rule", "read"),
            (False, "user", "network"),
            (True, "user", "bash@execute:git commit -m 'a, b'", "all"),
        ]:
            ann.tell(ev.ApprovalDecision, "c1", "tool", allowed, by, None, rule, "", *scope)
        await session.flush()
        if materialized:
            session.materialize()
        assert (await read_members(session)).rules == (
            RememberedRule("agent_id=a1 write:src/**"),
            RememberedRule("bash@execute:git commit -m 'a, b'"),
            RememberedRule("write:src/**"),
        )


@pytest.mark.slow
async def test_other_sessions_and_the_loop_are_left_alone(tmp_path: Path) -> None:
    for number in range(20):
        with Session.create(tmp_path) as other:
            Actor(other, "a1").join(f"other {number}")
    list_sessions(tmp_path)[0].database.write_bytes(b"damaged")
    with Session.create(tmp_path) as session:
        Actor(session, "a1").join("ann")
        await session.flush()
        waiting = asyncio.create_task(read_members(session))
        await asyncio.sleep(0)  # the query runs in its thread now, and this loop goes on
        assert not waiting.done()
        assert [member.identity.name for member in (await waiting).members] == ["ann"]


async def test_a_session_of_nobody_has_no_members(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        found = await read_members(session)
    assert (found.members, found.rules) == ((), ())
