"""Keeps an agent's conversation within the model's context window: when it is compacted, and the events about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from planck_nb.agent import events as ev
from planck_nb.agent.context.compactor import Compact, Compactor, ContextUsage, checked
from planck_nb.agent.context.conversation import cuts, places, sent, without_old_outputs
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.state import Entry
from planck_nb.ai.messages import Message, Usage
from planck_nb.base.aio import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, PlanckError

FULL = 0.95
"""The part of the window from which a turn waits for a compaction in the background."""

TRIMMED = 0.5
"""The part of a refused conversation that is sent instead, if nothing else made it shorter."""


class ContextWindow:
    """Keeps one agent's conversation short enough.

    The conversation is compacted before a request that would not fit or, in the background, after a turn. A compaction
    that fails leaves it as it was.

    Args:
        recorder: The agent's conversation and events.
        compactor: Writes the summaries, None for an agent without one.
        measure: Returns how much of which model's window the next request would fill.
        spend: Called with the tokens and US dollars that a compaction took.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        compactor: Compactor | None,
        measure: Callable[[], ContextUsage],
        spend: Callable[[Usage, float | None], None],
    ) -> None:
        self._recorder = recorder
        self.compactor = compactor
        """Writes the summaries from the next request on, None for an agent without one."""
        self._measure = measure
        self._spend = spend
        self._task: asyncio.Task[bool] | None = None
        self._overflowed = False
        self._trim_to: int | None = None

    @property
    def compaction(self) -> asyncio.Task[bool] | None:
        """The compaction that runs, None if there is none."""
        return self._task

    def messages(self) -> list[Message]:
        """The messages that the next request sends: without old tool outputs, if nothing else made them fit."""
        return self._trimmed([entry.message for entry in sent(self._recorder.settled.messages)])

    async def prepare(self) -> None:
        """Compact the conversation before a request that would not fit."""
        if self.compactor is None:
            return
        usage = self._measure()
        if self._task is not None:
            if usage.window is None or usage.tokens >= usage.window * FULL:
                await asyncio.wait([self._task])
        elif self._is_due(self.compactor, usage):
            await self._finished(self._start(self.compactor, usage))

    def prepare_ahead(self) -> None:
        """Compact the conversation in the background, if the next request would need it."""
        if self.compactor is None or self._task is not None or not self.compactor.compacts_ahead:
            return
        usage = self._measure()
        if self._is_due(self.compactor, usage):
            self._start(self.compactor, usage)

    async def compact(self) -> bool:
        """Compact the conversation now.

        Returns:
            Whether it became shorter.

        Raises:
            AgentError: If the agent has no compactor.
        """
        if self.compactor is None:
            raise AgentError("The agent has no compactor; give it `on_compact=Compactor.build()`.")
        return await self._finished(self._task or self._start(self.compactor, self._measure()))

    async def recover_from_overflow(self) -> bool:
        """Shorten the conversation after the model refused its length; whether it became shorter."""
        if self.compactor is not None and not self._overflowed:
            self._overflowed = True
            if await self.compact():
                return True
        if self._trim_to is not None:
            return False
        before = [entry.message for entry in sent(self._recorder.settled.messages)]
        self._trim_to = int(self._measure().tokens * TRIMMED)
        return self._trimmed(before) != before

    def answered(self) -> None:
        """Note that a request was answered, so that the next overflow may be compacted again."""
        self._overflowed = False

    async def close(self) -> None:
        """Stop a running compaction and return when it has ended; the conversation stays as it was."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _trimmed(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages) if self._trim_to is None else without_old_outputs(messages, self._trim_to)

    def _is_due(self, compactor: Compactor, usage: ContextUsage) -> bool:
        try:
            return compactor.should(usage)
        except Exception as error:  # noqa: BLE001 - the user's own compactor, as below
            return self._unchanged(usage, f"The compactor failed: {type(error).__name__}: {error}")

    def _start(self, compactor: Compactor, usage: ContextUsage) -> asyncio.Task[bool]:
        self._task = spawn(self._compact(compactor, usage), name="planck-compaction")
        self._task.add_done_callback(self._forget)
        return self._task

    async def _finished(self, task: asyncio.Task[bool]) -> bool:
        """Wait for a compaction, which is cancelled with its waiter; whether the conversation became shorter."""
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await cancel_and_wait(task)
            raise
        return not task.cancelled() and task.result()

    async def _compact(self, compactor: Compactor, usage: ContextUsage) -> bool:
        entries = _without_open_calls(sent(self._recorder.settled.messages))
        if compactor.compacts_ahead:
            self._recorder.emit(ev.Compacting, len(entries), usage.tokens)
        messages = [entry.message for entry in entries]
        try:
            found = checked(await compactor.compact(messages, usage), messages)
            if found is None and not compactor.compacts_ahead:
                return False
            if found is None:
                return self._unchanged(usage, "There is nothing to shorten.")
            return await self._replace(compactor, entries, messages, found, usage)
        except asyncio.CancelledError:
            self._unchanged(usage, "It was stopped.")
            raise
        except PlanckError as error:
            return self._unchanged(usage, str(error))
        except Exception as error:  # noqa: BLE001 - the user's own compactor: the conversation goes on without it
            return self._unchanged(usage, f"The compactor failed: {type(error).__name__}: {error}")

    async def _replace(
        self,
        compactor: Compactor,
        entries: Sequence[Entry],
        messages: Sequence[Message],
        found: Compact,
        usage: ContextUsage,
    ) -> bool:
        if not compactor.compacts_ahead:
            self._recorder.emit(ev.Compacting, len(entries), usage.tokens)
        kept = [entries[place].id for place in places(found.kept, messages) or ()]
        newest = max((entry.id for entry in entries), default=0)
        self._spend(found.usage, found.cost)
        summary_id = await self._recorder.append_summary(
            found.summary, lambda now: [*kept, *(entry.id for entry in sent(now) if entry.id > newest)]
        )
        self._trim_to = None
        self._recorder.emit(ev.Compacted, summary_id, usage.tokens, self._measure().tokens)
        return True

    def _unchanged(self, usage: ContextUsage, reason: str) -> bool:
        self._recorder.emit(ev.Compacted, None, usage.tokens, usage.tokens, reason)
        return False

    def _forget(self, _task: asyncio.Task[bool]) -> None:
        self._task = None


def _without_open_calls(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries before a reply whose calls are still running: that reply and what follows it stay as they are."""
    ends = cuts([entry.message for entry in entries])
    return entries[: ends[-1]] if ends else entries
