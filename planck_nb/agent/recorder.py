"""What happens to one agent, in order: folded into its state, stored, and told to whoever watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from planck_nb.agent import events as ev
from planck_nb.agent.context.conversation import sent
from planck_nb.agent.message_log import LogFollower, MessageLog
from planck_nb.agent.state import AgentState, Entry, changed, fold
from planck_nb.ai.messages import Message, SummaryMessage
from planck_nb.base.event_log import EventLog

Watcher: TypeAlias = EventLog[ev.AgentEvent]

REPLAY = 1_000
"""Events that an agent keeps for subscribers that come late."""


class EventRecorder:
    """The events of one agent. `settled` is its state without what is being written, which is cheap to read.

    `start` is the state that the agent begins with, apart from its messages, which are those of the log. `observers`
    get every event, and so does, while a turn runs, each of `audience`.
    """

    def __init__(
        self, agent_id: str, session_id: str | None, log: MessageLog, start: AgentState, observers: Iterable[Watcher]
    ) -> None:
        self.events: Watcher = EventLog(limit=REPLAY)
        self.audience: list[Watcher] = []
        self._agent_id = agent_id
        self._session_id = session_id
        self._log = log
        self._observers = tuple(observers)
        self._appending = asyncio.Lock()
        self._sequence = 0
        self._deltas: list[ev.AgentEvent] = []
        self.settled = changed(start, messages=self._stored())

    @property
    def state(self) -> AgentState:
        """A snapshot, with the reply that is being written."""
        state = self.settled
        for delta in self._deltas:
            state = fold(state, delta)
        return state

    def follow(self, follower: LogFollower) -> None:
        """Tell `follower` when messages are taken back."""
        self._log.follow(follower)

    def emit(self, kind: type[ev.EventBase], *payload: object, also: Iterable[Watcher] = ()) -> None:
        """Tell whoever watches, and `also` these; store what lasts, without waiting for the disk."""
        event = self._tell(kind, payload, also)
        if event.type not in ev.TRANSIENT and event.type != "message":
            self._log.record(event)

    async def keep(self, kind: type[ev.EventBase], *payload: object) -> None:
        """Like `emit`, and return once what was told cannot be lost any more."""
        await self._log.keep(self._tell(kind, payload))

    async def append(self, message: Message) -> None:
        """Make the message durable, then part of the conversation."""
        async with self._appending:
            await self._append(message)

    async def append_summary(self, summary: str, kept: Sequence[int], *, upto: int | None) -> int:
        """Append a summary of everything as far as the id `upto`, but the messages `kept`; its id."""
        async with self._appending:
            newer = [entry.id for entry in sent(self.settled.messages) if upto is not None and entry.id > upto]
            return await self._append(SummaryMessage(summary, [*kept, *newer]))

    async def take_back(self, message_id: int) -> None:
        """Take back the message and everything after it; followers of the log are told. Raises `SessionError`."""
        await self._log.truncate_from(message_id)

    def taken_back(self, message_id: int) -> None:
        """Go on from what is left in the log."""
        self.emit(ev.Rewound, message_id, self.settled.usage, self.settled.cost)
        self.settled = changed(self.settled, messages=self._stored())

    async def _append(self, message: Message) -> int:
        message_id = await self._log.append(message, turn=self.settled.turn, time=time.time())
        self.emit(ev.Message, message_id, message)
        return message_id

    def _tell(self, kind: type[ev.EventBase], payload: Sequence[object], also: Iterable[Watcher] = ()) -> ev.AgentEvent:
        turn = self.settled.turn + (kind is ev.TurnStart)  # which belongs to the turn that it begins
        event: ev.AgentEvent = kind(  # type: ignore[assignment]  # every subclass of Envelope is an AgentEvent
            self._agent_id, self._session_id, turn, self._sequence, time.time(), *payload
        )
        self._sequence += 1
        if event.type in ev.TRANSIENT:
            self._deltas.append(event)
        else:
            self.settled = fold(self.settled, event)
            if self._deltas and ev.supersedes_deltas(event):
                self._deltas.clear()
        for watchers in (self.audience, also, self._observers):
            for watcher in watchers:
                watcher.append(event)
        self.events.append(event)
        return event

    def _stored(self) -> tuple[Entry, ...]:
        return tuple(Entry(*entry) for entry in self._log.messages())
