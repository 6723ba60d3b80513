"""The agent as a state machine: whatever comes in whatever order, the laws hold.

At every request each call is answered exactly once; nothing acknowledged is lost; folding what is stored gives the live
state; every run settles; every turn ends exactly once, and steering enters turns only.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agents import paired

from planck_nb import Agent, Compactor, Session, ai
from planck_nb.agent.context.compactor import Compact, ContextUsage
from planck_nb.agent.context.conversation import cuts, sent
from planck_nb.agent.events import TRANSIENT, AgentEvent, decode_event, encode_event
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.agent.run import Run
from planck_nb.agent.state import AgentState, fold
from planck_nb.ai.client import Stream
from planck_nb.ai.message_history.portable_history import prepare
from planck_nb.ai.messages import Message
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.async_tasks import cancel_and_wait
from planck_nb.base.errors import PlanckError
from planck_nb.base.event_log import EventLog
from planck_nb.sessions import query
from planck_nb.testing import Call, Reply, scripted_model

SOAK = bool(os.environ.get("PLANCK_NB_SOAK"))

CALLS = [Call("held", {}), Call("held", {}), Call("echo", {"text": "hi"}), Call("broken", {}), Call("ghost", {})]

replies = st.lists(
    st.builds(
        Reply,
        text=st.sampled_from(["", "word", "several words in a row", "x " * 50]),
        thinking=st.sampled_from(["", "", "hm"]),
        calls=st.lists(st.sampled_from(CALLS), max_size=3),
        error=st.sampled_from([None, None, None, None, "broken"]),
    ),
    min_size=1,
    max_size=6,
)


class Checking(ai.Client):
    """A client that looks at every request."""

    def __init__(self) -> None:
        super().__init__(credentials={})
        self.wrong: list[Sequence[Message]] = []

    def stream(self, model: Model, context: Context, options: Options | None = None) -> Stream:
        if not paired(prepare(context.messages, model)):
            self.wrong.append(context.messages)
        return super().stream(model, context, options)


class Halving(Compactor):
    """Keeps the second half of a conversation that is longer than so many messages."""

    def __init__(self, most: int) -> None:
        self._most = most

    def should(self, context_usage: ContextUsage) -> bool:
        return context_usage.tokens > self._most

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        await asyncio.sleep(0)
        places = [place for place in cuts(messages) if place > 0]
        if not places:
            return None
        return Compact("In short.", tuple(messages[places[len(places) // 2] :]))


@dataclass
class World:
    """One agent, what it was sent and what it published; and another agent that shares its session."""

    script: Sequence[Reply]
    most: int
    pace: float
    folder: Path | None
    client: Checking = field(default_factory=Checking)
    told: EventLog[AgentEvent] = field(default_factory=EventLog)
    runs: list[Run[Any]] = field(default_factory=list)
    holds: list[asyncio.Event] = field(default_factory=list)
    awaiting: list[asyncio.Future[Any]] = field(default_factory=list)
    session: Session | None = None
    spend: SessionSpend = field(default_factory=SessionSpend)
    torn: bool = False

    def start(self) -> None:
        if self.folder is not None:
            self.session = self.session or Session.create(self.folder)
        before = AgentState() if self.session is None else self.stored()
        self.told = EventLog()
        self.agent = Agent(
            id="agent",
            model=scripted_model([*self.script] * 20, pace=self.pace),
            tools=[echo, self.held, broken],
            session=self.session,
            client=self.client,
            session_spend=self.spend,
            on_compact=Halving(self.most),
            limits=Limits(rounds=5),
            observers=(self.told,),
            turn=before.turn,
            usage=before.usage,
            cost=before.cost,
        )
        self.first = self.agent.state.messages
        self.other = Agent(
            id="other",
            model=scripted_model([Reply("I hold.", calls=[Call("held", {})]), "done"] * 20, pace=self.pace),
            tools=[self.held],
            session=self.session,
            client=self.client,
            session_spend=self.spend,
        )

    def stored(self, agent_id: str = "agent") -> AgentState:
        assert self.session is not None
        return reduce(fold, self.session.events(agent_id), AgentState())

    async def held(self) -> str:
        hold = asyncio.Event()
        self.holds.append(hold)
        await hold.wait()
        return "held"

    def release(self, everything: bool = False) -> None:
        count = len(self.holds) if everything else 1
        for hold in self.holds[:count]:
            hold.set()
        del self.holds[:count]

    async def settle(self) -> None:
        """Let everything come to rest."""
        waiting = asyncio.gather(*(run.wait() for run in self.runs), return_exceptions=True)
        while not waiting.done():
            self.release(everything=True)
            await asyncio.sleep(0)
        await asyncio.gather(*self.awaiting)
        if self.agent.state.compacting:
            async for event in self.agent.subscribe():
                if event.type == "compacted":
                    break

    async def do_prompt(self, number: int) -> None:
        run = self.agent.prompt(f"prompt {len(self.runs)}")
        self.runs.append(run)
        if number % 2:
            self.awaiting.append(asyncio.ensure_future(asyncio.gather(run, return_exceptions=True)))

    async def do_join(self, _number: int) -> None:
        self.runs.append(self.agent.prompt(f"join {len(self.runs)}", join=True))

    async def do_steer(self, _number: int) -> None:
        self.runs.append(self.agent.steer(f"steer {len(self.runs)}"))

    async def do_other(self, _number: int) -> None:
        self.runs.append(self.other.prompt(f"other {len(self.runs)}"))

    async def do_nudge(self, _number: int) -> None:
        if self.agent.state.messages and (run := self.agent.continue_()):
            self.runs.append(run)

    async def do_abort(self, _number: int) -> None:
        await self.agent.abort()

    async def do_drop(self, number: int) -> None:
        if self.runs:
            self.runs[number % len(self.runs)].abort()

    async def do_release(self, _number: int) -> None:
        self.release()

    async def do_yield(self, number: int) -> None:
        for _ in range(1 + number * number):
            await asyncio.sleep(0)

    async def do_work(self, _number: int) -> None:
        """Go on until a tool runs, or the turn is over."""
        if self.agent.status == "streaming":
            async for event in self.agent.subscribe():
                if event.type in {"tool_start", "turn_end", "aborted", "error"}:
                    break

    async def do_wait(self, _number: int) -> None:
        await self.settle()

    async def do_edit(self, number: int) -> None:
        if queue := self.agent.state.queue:
            prompt = queue[number % len(queue)]
            self.agent.edit_queued(prompt.id, "steer edited" if prompt.steer else "edited")

    async def do_remove(self, number: int) -> None:
        if queue := self.agent.state.queue:
            self.agent.remove_queued(queue[number % len(queue)].id)

    async def do_checkpoint(self, _number: int) -> None:
        await self.agent.checkpoint("A summary.")

    async def do_compact(self, _number: int) -> None:
        await self.agent.compact()

    async def do_tool(self, number: int) -> None:
        if number % 2:
            self.agent.remove_tool("echo")
        else:
            self.agent.add_tool(echo)

    async def do_rewind(self, number: int) -> None:
        if entries := self.agent.state.messages:
            self.torn = True
            await self.agent.rewind_to_message(entries[number % len(entries)].id)

    async def do_rewinds(self, number: int) -> None:
        """Two at once, one of which may be given up, and a prompt meanwhile."""
        if entries := self.agent.state.messages:
            self.torn = True
            places = (number % len(entries), number // 2 % len(entries))
            both = [asyncio.create_task(self.agent.rewind_to_message(entries[place].id)) for place in places]
            await self.do_yield(number % 3)
            if number % 2:
                both[0].cancel()
            self.runs.append(self.agent.prompt("meanwhile"))
            await asyncio.gather(*both, return_exceptions=True)

    async def do_cancel(self, _number: int) -> None:
        """End the agent's task as a closing event loop does."""
        if self.agent._runner._task is not None:
            await cancel_and_wait(self.agent._runner._task)

    async def do_crash(self, _number: int) -> None:
        if self.session is not None:
            await self.crash()

    async def crash(self) -> None:
        """The session is lost without warning, and somebody opens it again."""
        assert self.session is not None
        assert self.folder is not None
        self.torn = True
        self.session.close()
        kept = self.acknowledged()
        await self.agent.stop()
        await self.other.stop()
        self.check_events()
        self.session = Session.open(self.folder, self.session.id)
        stored = {row.db_id: row.message for row in self.session.messages("agent")}
        assert {key: stored[key] for key in kept} == kept
        self.start()

    def acknowledged(self) -> dict[int, Message]:
        found = {entry.id: entry.message for entry in self.first}
        for event in self.told.since(0):
            if event.type == "message":
                found[event.id] = event.message
            elif event.type == "rewound" and self.session is not None:
                found = {key: message for key, message in found.items() if key < event.message_id}
        return found

    def check_events(self) -> None:
        events = self.told.since(0)
        assert [event.seq for event in events] == list(range(len(events)))
        within = False
        for event in events:
            if event.type == "turn_start":
                assert not within
                within = True
            elif event.type in {"turn_end", "aborted", "error"}:
                assert within
                within = False
            elif event.type == "steered":
                assert within
        assert not within

    def check_answers(self) -> None:
        """A prompt is answered alone, or together with others that join; only steering enters its turn."""
        for run in self.runs:
            outcome = run._done.exception() or run._done.result()
            messages = () if isinstance(outcome, BaseException) else outcome.messages
            asked = [message.text for message in messages if message.type == "user"]
            asked = [text for text in asked if not text.startswith("steer")]
            if not asked or run.steer or not run.prompt.content:
                continue
            assert run.prompt.text in asked
            if not run.join:
                assert len(asked) == 1, asked

    def check(self) -> None:
        """Check what must hold when everything has come to rest."""
        state = self.agent.state
        assert self.client.wrong == []
        assert (state.status, state.queue, state.running, state.partial) == ("idle", (), (), None)
        assert {run.status for run in self.runs} <= {"done", "aborted", "failed"}
        self.check_events()
        self.check_answers()
        events = self.told.since(0)
        kept = [decode_event(encode_event(event)) for event in events if event.type not in TRANSIENT]
        log = [entry.message for entry in state.messages if entry.message.type != "summary"]
        if not self.torn:
            assert paired(log)
            paid = {each.id: each.state.usage.total_tokens for each in (self.agent, self.other)}
            assert self.spend.tokens == sum(paid.values())
        if self.session is None:
            assert reduce(fold, events, AgentState()) == reduce(fold, kept, AgentState()) == state
        else:
            stored = self.stored()
            assert replace(stored, messages=()) == replace(state, messages=())
            assert sent(stored.messages) == sent(state.messages)
            rows = {row.db_id: row.message for row in self.session.messages("agent")}
            mine = self.acknowledged()
            assert {key: rows[key] for key in mine} == mine
            assert list(rows) == sorted(rows)
            assert {entry.id for entry in state.messages} <= set(rows)
            assert sent(self.stored("other").messages) == sent(self.other.state.messages)
            assert self.other.status == "idle"
            if not self.torn:
                assert self.folder is not None
                rows_paid = query(self.folder, "select agent_id, input_tokens + output_tokens as tokens from charges")
                sums = rows_paid.groupby("agent_id").tokens.sum()
                assert {name: sums.get(name, 0) for name in paid} == paid


async def echo(text: str) -> str:
    await asyncio.sleep(0)
    return text


def broken() -> str:
    raise ValueError("broken")


OFTEN = ["prompt", "prompt", "steer", "work", "work", "work", "release", "yield"]
ACTIONS = [*OFTEN, *(name.removeprefix("do_") for name in vars(World) if name.startswith("do_"))]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7)), min_size=3, max_size=18)


async def live(world: World, steps: Sequence[tuple[str, int]]) -> None:
    world.start()
    try:
        for action, number in steps:
            await asyncio.wait_for(getattr(world, f"do_{action}")(number), 20)
        await asyncio.wait_for(world.settle(), 20)
        world.check()
        await asyncio.wait_for(world.agent.stop(), 20)
        await asyncio.wait_for(world.other.stop(), 20)
        with pytest.raises(PlanckError):
            world.agent.prompt("too late")
    finally:
        if world.session is not None:
            world.session.close()


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "disk"])
@pytest.mark.timeout(3_600 if SOAK else 120)
@pytest.mark.soak
def test_the_laws_hold_for_any_order_of_things(stored: bool) -> None:
    examples = (12 if stored else 60) * (100 if SOAK else 1)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=replies, steps=actions, most=st.sampled_from([20, 80, 100_000]), pace=st.sampled_from([0, 1e-9]))
    def law(script: list[Reply], steps: list[tuple[str, int]], most: int, pace: float) -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = World(script, most, pace, Path(folder) if stored else None)
            asyncio.run(live(world, steps))

    law()
