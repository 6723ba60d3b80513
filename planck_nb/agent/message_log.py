"""Where an agent's messages are stored: the protocol that sessions implement, and a log in memory."""

from __future__ import annotations

from typing import Protocol

from planck_nb.agent.events import AgentEvent
from planck_nb.ai.messages import Message


class LogFollower(Protocol):
    """Is called before and after messages are removed from a log."""

    async def rewinding(self) -> None:
        """Stop writing to the log until `rewound` is called: messages are about to be removed."""
        ...

    def rewound(self, message_id: int | None) -> None:
        """Continue from what is left in the log.

        Args:
            message_id: The first message that was removed, None if none was.
        """
        ...


class MessageLog(Protocol):
    """The messages and events of one agent, in order.

    Called on the agent's event loop only. `append` and `keep` may raise `SessionError`; the turn then fails before
    its next step. `record` never raises and never waits.
    """

    async def append(self, message: Message, *, turn: int, time: float) -> int:
        """Store a message durably.

        A cancellation that arrives during the write is delivered after this has returned, so that the caller knows
        what was stored.

        Args:
            message: The message to store.
            turn: The index of the turn that it belongs to.
            time: Seconds since the epoch.

        Returns:
            The id of the message, greater than all ids before, once the message is durable.

        Raises:
            SessionError: If it cannot be stored.
        """
        ...

    def record(self, event: AgentEvent) -> None:
        """Store an event that is not a message, in order with the messages, without waiting for the disk."""
        ...

    async def keep(self, event: AgentEvent) -> None:
        """Store an event, in order, and return once it is durable.

        Args:
            event: The event to store.

        Raises:
            SessionError: If it cannot be stored.
        """
        ...

    def messages(self) -> list[tuple[int, Message]]:
        """The messages that an agent starts with and their ids, oldest first.

        They include everything that a model is still sent: the latest summary, the messages that it keeps, and all
        later ones.
        """
        ...

    async def truncate_from(self, message_id: int) -> None:
        """Remove the message and everything after it, of all agents of the store, and call the followers."""
        ...

    def follow(self, follower: LogFollower) -> None:
        """Call `follower`, for as long as it lives, when messages are removed."""
        ...


class SessionStore(Protocol):
    """Stores the logs of several agents: a session, as far as an agent knows it."""

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
        """Store the message; ids count from 1 and are never reused."""
        message_id = self._next_id
        self._next_id += 1
        self._messages.append((message_id, message))
        return message_id

    def record(self, event: AgentEvent) -> None:
        """Do nothing: the events of a log in memory are never read."""

    async def keep(self, event: AgentEvent) -> None:
        """Do nothing: the events of a log in memory are never read."""

    def messages(self) -> list[tuple[int, Message]]:
        """All messages so far with their ids."""
        return list(self._messages)

    async def truncate_from(self, message_id: int) -> None:
        """Do nothing: a conversation that is not stored cannot be rewound, as in Planck."""

    def follow(self, follower: LogFollower) -> None:
        """Do nothing: messages are never removed."""
