"""Where an agent's messages live. The agent knows this protocol, never a database."""

from __future__ import annotations

from typing import Protocol

from planck_nb.agent.events import AgentEvent
from planck_nb.ai.messages import Message


class LogFollower(Protocol):
    """Somebody who goes by a log and must know when it is taken back."""

    async def rewinding(self) -> None:
        """The log is about to be taken back: stop what writes to it, until `rewound` is called."""
        ...

    def rewound(self, message_id: int | None) -> None:
        """The message and everything after it is gone, what is left is in the log; None: nothing was taken back."""
        ...


class MessageLog(Protocol):
    """The ordered log of one agent.

    Called on the agent's event loop only. `append` and `keep` may raise `SessionError`; the turn then fails and
    nothing after the message happened. `record` never raises and never waits.
    """

    async def append(self, message: Message, *, turn: int, time: float) -> int:
        """Keep the message and return its id, greater than every id before, once it cannot be lost any more.

        A cancellation that comes while it waits is delivered after it has returned, so that what is kept is known.
        """
        ...

    def record(self, event: AgentEvent) -> None:
        """Keep an event that is not a message, in order with the messages, without waiting for the disk."""
        ...

    async def keep(self, event: AgentEvent) -> None:
        """Keep an event, in order, and return once it cannot be lost any more."""
        ...

    def messages(self) -> list[tuple[int, Message]]:
        """What an agent starts from, with ids, oldest first.

        It has everything that a model is still sent: the latest summary, what that keeps, and all that follows.
        """
        ...

    async def truncate_from(self, message_id: int) -> None:
        """Take back the message and everything after it, of all agents of the store; followers are told."""
        ...

    def follow(self, follower: LogFollower) -> None:
        """Tell `follower`, for as long as it lives, when messages are taken back."""
        ...


class SessionStore(Protocol):
    """A store that keeps the logs of several agents: a session, as far as an agent knows it."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...

    def log(self, agent_id: str) -> MessageLog:
        """The log of one agent."""
        ...


class MemoryLog:
    """A log that lasts as long as its agent."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Message]] = []
        self._next_id = 1

    async def append(self, message: Message, *, turn: int, time: float) -> int:  # noqa: ARG002 - the protocol's
        """Keep the message; ids count from 1 and are never used again."""
        message_id = self._next_id
        self._next_id += 1
        self._messages.append((message_id, message))
        return message_id

    def record(self, event: AgentEvent) -> None:
        """Nothing reads a memory log's events."""

    async def keep(self, event: AgentEvent) -> None:
        """Nothing reads a memory log's events."""

    def messages(self) -> list[tuple[int, Message]]:
        """All messages so far with their ids."""
        return list(self._messages)

    async def truncate_from(self, message_id: int) -> None:
        """Nothing: what is not stored cannot be taken back, as in Planck."""

    def follow(self, follower: LogFollower) -> None:
        """Nobody is told, because nothing is taken back."""
