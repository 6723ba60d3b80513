"""Records what happens to one agent, in order: folds it into its state, stores it, and publishes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeAlias

from planck_nb.agent import events as ev
from planck_nb.agent.charges import Charge
from planck_nb.agent.message_log import LogFollower, MessageLog
from planck_nb.agent.state import AgentState, Entry, changed, fold
from planck_nb.ai.messages import Message, SummaryMessage
from planck_nb.base.event_log import EventLog
from planck_nb.base.event_loops import LoopLock

P = ParamSpec("P")


class Observer(Protocol):
    """Gets events, such as a log does."""

    def append(self, event: ev.AgentEvent, /) -> None:
        """Receive an event, at once and without waiting."""
        ...


EventType: TypeAlias = Callable[Concatenate[str, str | None, int, int, float, P], ev.AgentEvent]
"""A class of events: called with the fields of `EventBase`, then with its payload, which mypy checks."""

REPLAY = 1_000
"""Events that an agent keeps for late subscribers."""

_NOT_RECORDED = ev.TRANSIENT | {"message"}
"""Types of the events that the log does not get: a message is appended to it before its event."""


_DELTAS = frozenset({ev.TextDelta, ev.ThinkingDelta, ev.ToolArgsDelta})


class EventRecorder:
    """The events of one agent and the state that they add up to.

    Args:
        agent_id: The agent.
        session_id: Its session, None for an agent without one.
        log: Where messages and events are stored.
        start: The state to start from, without its messages, which are read from the log.
        observers: Get every event.
        new: Whether the log has nothing of this agent yet, so that it need not be read.
        deltas: Whether there are events for replies in progress; an unwatched agent needs only whole messages.

    `settled` is the state without the reply that is being streamed, which is cheap to read. `audience` are further
    logs that get every event while a turn runs.
    """

    def __init__(
        self,
        agent_id: str,
        session_id: str | None,
        log: MessageLog,
        start: AgentState,
        observers: Iterable[Observer],
        *,
        new: bool = False,
        deltas: bool = True,
    ) -> None:
        self.has_deltas = deltas
        self._left_out: frozenset[object] = frozenset() if deltas else _DELTAS
        self.events: EventLog[ev.AgentEvent] = EventLog(limit=REPLAY)
        self.audience: Sequence[Observer] = ()
        self._agent_id = agent_id
        self._session_id = session_id
        self._log = log
        self.observers = tuple(observers)
        self._appending = LoopLock()
        self._sequence = 0
        self._deltas: list[ev.AgentEvent] = []
        self.settled = start if new else changed(start, messages=self._stored())

    @property
    def state(self) -> AgentState:
        """A snapshot, with the reply that is being streamed."""
        state = self.settled
        for delta in self._deltas:
            state = fold(state, delta)
        return state

    def follow(self, follower: LogFollower) -> None:
        """Call `follower` when messages are removed."""
        self._log.follow(follower)

    def emit(self, kind: EventType[P], /, *payload: P.args, **named: P.kwargs) -> None:
        """Publish an event and store it, if it is not transient, without waiting for the disk."""
        if kind in self._left_out:
            return
        event = self._publish(kind, payload, named)
        if event.type not in _NOT_RECORDED:
            self._log.record(event)

    def emit_to(self, also: Iterable[Observer], kind: EventType[P], /, *payload: P.args, **named: P.kwargs) -> None:
        """Like `emit`, but to further logs as well."""
        event = self._publish(kind, payload, named, also)
        if event.type not in _NOT_RECORDED:
            self._log.record(event)

    async def keep(self, kind: EventType[P], /, *payload: P.args, **named: P.kwargs) -> None:
        """Like `emit`, but return once the event is durable."""
        await self._log.keep(self._publish(kind, payload, named))

    def add_charge(self, charge: Charge, context_tokens: int | None = None) -> None:
        """Add tokens and US dollars to the agent's totals.

        Args:
            charge: What a request took.
            context_tokens: The conversation's tokens in the context window now, None if they are as before.
        """
        state, cost = self.settled, charge.cost
        self.emit(
            ev.UsageDelta,
            charge.usage,
            state.usage + charge.usage,
            cost,
            state.cost if cost is None else (state.cost or 0.0) + cost,
            state.context_tokens if context_tokens is None else context_tokens,
            estimated=charge.estimated,
            purpose=charge.purpose,
            model=charge.model,
        )

    async def append(self, message: Message) -> None:
        """Make the message durable, then part of the conversation."""
        async with self._appending:
            await self._append(message)

    async def append_summary(self, summary: str, kept: Callable[[Sequence[Entry]], Sequence[int]]) -> int:
        """Append a summary of the conversation.

        Args:
            summary: Its text.
            kept: Called with the conversation at the moment of the append, so that no message that arrives meanwhile
                is lost; returns the ids of the messages that are still sent in full.

        Returns:
            The id of the summary.
        """
        async with self._appending:
            return await self._append(SummaryMessage(summary, list(kept(self.settled.messages))))

    async def take_back(self, message_id: int) -> None:
        """Remove the message and everything after it from the log, which calls its followers. Raises `SessionError`."""
        await self._log.truncate_from(message_id)

    def reload(self, message_id: int) -> None:
        """Continue from what is left in the log after the message was removed."""
        self.emit(ev.Rewound, message_id, self.settled.usage, self.settled.cost)
        self.settled = changed(self.settled, messages=_joined(self.settled.messages, self._stored()))

    async def _append(self, message: Message) -> int:
        message_id = await self._log.append(message, turn=self.settled.turn, time=time.time())
        self.emit(ev.MessageAppended, message_id, message)
        return message_id

    def _publish(
        self,
        kind: Callable[..., ev.AgentEvent],
        payload: tuple[object, ...],
        named: Mapping[str, object],
        also: Iterable[Observer] = (),
    ) -> ev.AgentEvent:
        turn = self.settled.turn + (kind is ev.TurnStart)  # which belongs to the turn that it starts
        sequence = self._sequence
        self._sequence = sequence + 1
        event = kind(self._agent_id, self._session_id, turn, sequence, time.time(), *payload, **named)
        if event.type in ev.TRANSIENT:
            self._deltas.append(event)
        else:
            self.settled = fold(self.settled, event)
            if self._deltas and ev.supersedes_deltas(event):
                self._deltas.clear()
        for observer in self.audience:
            observer.append(event)
        for observer in also:
            if observer not in self.audience:
                observer.append(event)
        for observer in self.observers:
            observer.append(event)
        self.events.append(event)
        return event

    def _stored(self) -> tuple[Entry, ...]:
        return tuple(Entry(*entry) for entry in self._log.messages())


def _joined(known: Sequence[Entry], stored: Sequence[Entry]) -> tuple[Entry, ...]:
    """The messages that a log returns, which begin with the latest summary, and the older messages that are known.

    The conversation before a message is always the one in which it was written; so before the newest message that both
    have, what either has is right, however many branches there are. Neither need have all of it: what is known to a
    resumed agent begins with the summary that was the latest then, which may have been removed since.
    """
    ids = {entry.id for entry in stored}
    common = max((entry.id for entry in known if entry.id in ids), default=None)
    if common is None:
        return tuple(stored)
    older = (entry for entry in known if entry.id <= common and entry.id not in ids)
    return tuple(sorted((*older, *stored), key=lambda entry: entry.id))
