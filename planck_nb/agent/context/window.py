"""Keeps an agent's conversation within its model's window: when it is shortened, and how that is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from planck_nb.agent import events as ev
from planck_nb.agent.context.compactor import Compact, Compactor, ContextUsage, checked
from planck_nb.agent.context.conversation import cuts, places, sent, without_old_outputs
from planck_nb.agent.state import Entry
from planck_nb.ai.messages import Message, Usage
from planck_nb.base.aio import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, PlanckError

FULL = 0.95
"""The part of the window from which a turn waits for a compaction in the background."""

TRIMMED = 0.5
"""The part of what did not fit that is sent instead, once there is no other way."""


class Tenant(Protocol):
    """What keeping the conversation short needs of its agent."""

    @property
    def entries(self) -> Sequence[Entry]:
        """All messages with their ids."""
        ...

    def context_usage(self) -> ContextUsage:
        """How much of which model's window the next request would fill."""
        ...

    async def append_summary(self, summary: str, kept: Sequence[int], *, upto: int | None) -> int:
        """Append a summary of everything as far as the id `upto`, but the messages `kept`; its id."""
        ...

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Count what a compaction took."""
        ...

    def emit(self, kind: type[ev.EventBase], *payload: object) -> None:
        """Tell whoever watches."""
        ...


class ContextWindow:
    """The room that one agent's conversation has.

    It is made before a request that would need more, or ahead of it, in the background, when a turn has ended. A
    compaction that fails leaves the conversation as it was.
    """

    def __init__(self, tenant: Tenant, compactor: Compactor | None) -> None:
        self._tenant = tenant
        self._compactor = compactor
        self._task: asyncio.Task[bool] | None = None
        self._overflowed = False
        self._most: int | None = None

    async def make(self) -> None:
        """Make room for the next request, where it needs some."""
        if self._compactor is None:
            return
        context_usage = self._tenant.context_usage()
        if self._task is not None:
            if context_usage.window is None or context_usage.tokens >= context_usage.window * FULL:
                await asyncio.wait([self._task])
        elif self._is_due(self._compactor, context_usage):
            await self._finished(self._start(self._compactor, context_usage))

    def make_ahead(self) -> None:
        """Make room in the background, where the next request would need it."""
        if self._compactor is None or self._task is not None or not self._compactor.foresees:
            return
        context_usage = self._tenant.context_usage()
        if self._is_due(self._compactor, context_usage):
            self._start(self._compactor, context_usage)

    async def compact(self) -> bool:
        """Shorten the conversation now; whether it got shorter. Raises `AgentError` without a compactor."""
        if self._compactor is None:
            raise AgentError("The agent has no compactor; give it `on_compact=Compactor.build()`.")
        return await self._finished(self._task or self._start(self._compactor, self._tenant.context_usage()))

    async def after_overflow(self) -> bool:
        """Make the conversation shorter after the model refused its length; whether it did."""
        if self._compactor is not None and not self._overflowed:
            self._overflowed = True
            if await self.compact():
                return True
        if self._most is not None:
            return False
        before = [entry.message for entry in sent(self._tenant.entries)]
        self._most = int(self._tenant.context_usage().tokens * TRIMMED)
        return self.fit(before) != before

    def fit(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as they are sent: old tool outputs left out, where nothing else made the request fit."""
        return list(messages) if self._most is None else without_old_outputs(messages, self._most)

    def settled(self) -> None:
        """Take in that a request was answered."""
        self._overflowed = False

    async def close(self) -> None:
        """Stop the compaction under way and return when it has ended; the conversation stays as it was."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _is_due(self, compactor: Compactor, context_usage: ContextUsage) -> bool:
        try:
            return compactor.should(context_usage)
        except Exception as error:  # noqa: BLE001 - the user's own compactor, as below
            return self._unchanged(context_usage, f"The compactor failed: {type(error).__name__}: {error}")

    def _start(self, compactor: Compactor, context_usage: ContextUsage) -> asyncio.Task[bool]:
        self._task = spawn(self._compact(compactor, context_usage), name="planck-compaction")
        self._task.add_done_callback(self._forget)
        return self._task

    async def _finished(self, task: asyncio.Task[bool]) -> bool:
        """Wait for a compaction, which ends with whoever waits for it; whether the conversation got shorter."""
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await cancel_and_wait(task)
            raise
        return not task.cancelled() and task.result()

    async def _compact(self, compactor: Compactor, context_usage: ContextUsage) -> bool:
        entries = _complete(sent(self._tenant.entries))
        if compactor.foresees:
            self._tenant.emit(ev.Compacting, len(entries), context_usage.tokens)
        messages = [entry.message for entry in entries]
        try:
            found = checked(await compactor.compact(messages, context_usage), messages)
            if found is None and not compactor.foresees:
                return False
            if found is None:
                return self._unchanged(context_usage, "There is nothing to shorten.")
            return await self._replace(compactor, entries, messages, found, context_usage)
        except asyncio.CancelledError:
            self._unchanged(context_usage, "It was stopped.")
            raise
        except PlanckError as error:
            return self._unchanged(context_usage, str(error))
        except Exception as error:  # noqa: BLE001 - the user's own compactor: the conversation goes on without it
            return self._unchanged(context_usage, f"The compactor failed: {type(error).__name__}: {error}")

    async def _replace(
        self,
        compactor: Compactor,
        entries: Sequence[Entry],
        messages: Sequence[Message],
        found: Compact,
        context_usage: ContextUsage,
    ) -> bool:
        if not compactor.foresees:
            self._tenant.emit(ev.Compacting, len(entries), context_usage.tokens)
        kept = [entries[place].id for place in places(found.kept, messages) or ()]
        self._tenant.spend(found.usage, found.cost)
        upto = max((entry.id for entry in entries), default=None)
        summary_id = await self._tenant.append_summary(found.summary, kept, upto=upto)
        self._most = None
        self._tenant.emit(ev.Compacted, summary_id, context_usage.tokens, self._tenant.context_usage().tokens)
        return True

    def _unchanged(self, context_usage: ContextUsage, reason: str) -> bool:
        self._tenant.emit(ev.Compacted, None, context_usage.tokens, context_usage.tokens, reason)
        return False

    def _forget(self, _task: asyncio.Task[bool]) -> None:
        self._task = None


def _complete(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries without a reply whose calls still run, and what follows it: they stay as they are."""
    ends = cuts([entry.message for entry in entries])
    return entries[: ends[-1]] if ends else entries
