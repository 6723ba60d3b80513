"""Keeps an agent's conversation within the model's context window: when it is compacted, and the events about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import ceil
from operator import is_

from planck_nb.agent import events as ev
from planck_nb.agent.calling.user_code import UserInterrupt, calls_user_code
from planck_nb.agent.charges import Spend
from planck_nb.agent.context.compactor import Compact, Compactor, ContextUsage, checked
from planck_nb.agent.context.conversation import cuts, places, sent
from planck_nb.agent.context.fitting import fitted, newest_prompts, size
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.state import Entry
from planck_nb.agent.tokens import MAX_SCALE, has_media
from planck_nb.ai.context_windows import cuts_silently
from planck_nb.ai.messages import AssistantMessage, Message, Usage
from planck_nb.ai.models import Model
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, ContextOverflowError, PlanckError, PromptTooLongError

FULL = 0.95
"""The fraction of the window above which a turn waits for a background compaction to end."""

TRIMMED_PART = 0.5
"""The fraction of a refused conversation that is sent instead, if the refusal does not name the sizes."""

MIN_TRIMMED_PART = 0.25
"""The least fraction of it that is sent instead, if the refusal names only the limit: the rest is an estimate."""

MARGIN = 0.9
"""The fraction of a limit that is used, because the size of what is sent instead is an estimate."""

MOST = 0.75
"""If all but the prompt fills more than this fraction of the window, the prompt is not what is too long."""

CALIBRATING_REPLIES = 3
"""How many of the newest replies determine the ratio of counted to estimated tokens."""

NOTHING_TO_SHORTEN = "There is nothing to shorten."
TOO_LITTLE = (
    "No summary would make it short enough; the longest texts are cut in what is sent, and stay in the history."
)


class ContextWindow:
    """Keeps one agent's conversation short enough.

    The conversation is compacted before a request that would not fit or, in the background, after a turn. A compaction
    that fails leaves it as it was.

    Args:
        recorder: The agent's conversation and events.
        compactor: Writes the summaries, None for an agent without one.
        measure: Returns how much of which model's window a request with these messages would fill. Its other arguments
            are the ratio of counted to estimated tokens, and whether the messages are those that the model counted.
        count: Returns the tokens of such a request alone, given the same.
        model: Returns the model that answers now.
        ratio: Returns the ratio of counted to estimated tokens for what was sent before a reply among the messages.
        spend: Counts what a compaction takes.
        seconds_left: Returns the seconds that a compaction may take, None without a limit.
        stop: Stops the run, because the user has stopped the compactor.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        compactor: Compactor | None,
        *,
        measure: Callable[[Sequence[Message], float, bool], ContextUsage],
        count: Callable[[Sequence[Message], float, bool], int],
        model: Callable[[], Model],
        ratio: Callable[[Sequence[Message], int], float],
        spend: Spend,
        seconds_left: Callable[[], float | None],
        stop: Callable[[], None],
    ) -> None:
        self._recorder = recorder
        self.compactor = compactor
        """Writes the summaries from the next request on, None for an agent without one."""
        self._measure_messages = measure
        self._count_messages = count
        self._model = model
        self._ratio = ratio
        self._spend = spend
        self._seconds_left = seconds_left
        self._stop = stop
        self._spent = False
        self._task: asyncio.Task[bool] | None = None
        self._overflowed = False
        self._failed = False
        self._trim_to: int | None = None
        self._trimmed_size = 0
        self._trimmed_messages: tuple[int, Sequence[Message], Sequence[Message]] | None = None
        self._sent: tuple[Sequence[Entry], Sequence[Message]] = (), ()
        """The conversation that was last looked at, and what of it a model is sent."""
        self._learned_from: Model | None = None
        self._ratios: dict[int, tuple[Message, float]] = {}
        self._refused_scale = 1.0

    @property
    def compaction(self) -> asyncio.Task[bool] | None:
        """The compaction that runs, None if there is none."""
        return self._task

    def messages(self) -> Sequence[Message]:
        """The messages that the next request sends: with long texts cut, if nothing else made them fit."""
        self._forget_other_model()
        return self._trimmed(self._whole())

    def usage(self, added: Sequence[Message] = ()) -> ContextUsage:
        """How much of which model's window the next request would fill, with further messages."""
        messages = self.messages()
        return self._measure([*messages, *added] if added else messages, counted=self._trim_to is None)

    def tokens(self) -> int:
        """The tokens of the next request, as in `usage`, without looking at the window."""
        messages, counted = self.messages(), self._trim_to is None
        return self._count_messages(messages, self._scale(messages if counted else self._whole()), counted)

    def start_turn(self) -> None:
        """Note that a turn starts, in which what failed before is tried again."""
        self._overflowed = self._failed = False

    def require_fit(self) -> None:
        """Refuse a request that its server would not refuse but silently cut.

        Raises:
            ContextOverflowError: The request is longer than the window of such a server.
        """
        if not cuts_silently(self._model()):
            return
        usage = self.usage()
        if usage.window is None or usage.tokens <= usage.window * FULL:
            return
        error = ContextOverflowError(
            f"The conversation of about {usage.tokens:,} tokens is too long for the context window of {usage.model}, "
            f"{usage.window:,} tokens; shorten it or choose a model with a larger context window.",
            status=400,
            provider=usage.model.provider,
            model=usage.model.id,
        )
        error.tokens, error.limit = usage.tokens, usage.window
        raise error

    async def prepare(self) -> bool:
        """Compact the conversation before a request that would not fit.

        Returns:
            Whether there was a compaction, which may have taken time and tokens, however it ended.
        """
        if self.compactor is None and self._trim_to is None:
            return False
        usage = self._measure_whole()
        if self._fits_again(usage):
            self._trim_to = None
        if self.compactor is None:
            return False
        if self._task is not None:
            if usage.window is not None and usage.tokens < usage.window * FULL:
                return False
            await asyncio.wait([self._task])
            return True
        if self._failed or not self._is_due(self.compactor, usage):
            return False
        await self._finished(self._start(self.compactor, usage))
        return True

    def prepare_ahead(self) -> None:
        """Compact the conversation in the background, if the next request would need it."""
        if self.compactor is None or self._task is not None or not self.compactor.compacts_ahead:
            return
        usage = self._measure_whole()
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
        usage = self._measure_whole()
        shortened = await self._finished(self._task or self._start(self.compactor, usage))
        if shortened or not usage.overflows or usage.window is None:
            return shortened
        return self._trim(MARGIN * usage.window / usage.tokens)

    async def recover_from_overflow(self, error: ContextOverflowError) -> bool:
        """Shorten the conversation after its length was refused; whether it became shorter.

        Compacts it if that was not tried yet in this turn, and otherwise cuts the texts that are sent.
        """
        usage = self.usage()
        limit = self._learn(error, usage)
        if _writes_too_much(error):
            return False
        if self.compactor is not None and not self._overflowed and not self._failed:
            self._overflowed = True
            before = self._measure_whole()
            if await self._finished(self._task or self._start(self.compactor, before)):
                return True
        if limit is None:
            return self._trim(TRIMMED_PART)
        if error.tokens is not None and error.tokens > limit:
            read = error.input_tokens or error.tokens
            return self._trim(MARGIN * (limit - (error.tokens - read)) / read)
        return self._trim(min(MARGIN, max(MIN_TRIMMED_PART, MARGIN * limit / max(1, usage.tokens))))

    async def set_aside(self, error: ContextOverflowError) -> ContextOverflowError:
        """Exclude the newest prompts from later requests if they are what does not fit.

        How much of the window they seem to take does not matter: the tokens of files and images are a rough estimate,
        and the refusal may be about bytes. Kept in the conversation, they would be refused with every later prompt.

        Args:
            error: The refusal of a request that cannot be made shorter.

        Returns:
            The error to raise.
        """
        entries = sent(self._recorder.settled.messages)
        messages = [entry.message for entry in entries]
        first, end = newest_prompts(messages)
        usage = self.usage()
        tokens = ceil(usage.scale * size(messages[first:end]))
        too_much_else = usage.window is not None and usage.tokens - tokens > MOST * usage.window
        if end < len(messages) or first == end or too_much_else or _writes_too_much(error):
            return error
        model, ids = usage.model, tuple(entry.id for entry in entries[first:end])
        if error.about_window and (usage.window is None or usage.tokens > usage.window * FULL):
            window = "" if usage.window is None else f", {usage.window:,} tokens"
            refused = (
                f"The prompt has about {tokens:,} tokens and does not fit into the context window of {model}{window}"
            )
        else:  # by the estimate it would fit
            refused = f"{model} refused the request as too long, and nothing but the prompt could be left out"
        text = (
            f"{refused}, so it was set aside: it stays in the history and is not sent again; send a shorter one, "
            f"choose a model with a larger window, or take it back with `agent.rewind_to_message({ids[0]})` or "
            f"`%planck rewind {ids[0]}`."
        )
        await self._recorder.append(
            AssistantMessage((), "error", provider=model.provider, model=model.id, error=text, set_aside=ids)
        )
        aside = PromptTooLongError(text, status=error.status, provider=error.provider, model=error.model)
        aside.tokens, aside.limit = error.tokens or tokens, usage.window
        return aside

    def answered(self) -> None:
        """Note that a request was answered, so that the next overflow may be compacted again."""
        self._overflowed = False

    def count_compaction(
        self, usage: Usage, cost: float | None, /, model: str = "", *, estimated: bool = False
    ) -> None:
        """Count tokens and US dollars that the compactor reports while it works."""
        self._spent = True
        self._spend(usage, cost, model, estimated=estimated)

    async def close(self) -> None:
        """Stop a running compaction and return when it has ended; the conversation stays as it was."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _whole(self) -> Sequence[Message]:
        entries = self._recorder.settled.messages  # a new tuple after every change
        if self._sent[0] is not entries:
            self._sent = entries, tuple(entry.message for entry in sent(entries))
        return self._sent[1]

    def _trimmed(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self._trim_to is None:
            self._trimmed_messages = None
            return messages
        if self._trimmed_messages is not None:  # each request needs them several times
            trim_to, whole, short = self._trimmed_messages
            if trim_to == self._trim_to and len(whole) == len(messages) and all(map(is_, whole, messages)):
                return short
        short = tuple(fitted(messages, self._trim_to))
        self._trimmed_messages = self._trim_to, messages, short
        return short

    def _trim(self, part: float) -> bool:
        """From now on, send only about this fraction of what would be sent. Returns whether that is less."""
        before = self.messages()
        empty = self._measure_messages((), 1.0, False)
        self._trim_to = max(0, int(part * (empty.tokens + size(before))) - empty.tokens)
        self._trimmed_size = size(self._whole())
        self._learned_from = empty.model
        return size(self.messages()) < size(before)

    def _fits_again(self, usage: ContextUsage) -> bool:
        """Whether a conversation whose texts were cut has become short enough to be sent whole.

        A refusal need not be about the window, so it is not enough that the conversation fits: it must also be shorter
        than when it was refused.
        """
        if self._trim_to is None or usage.window is None or usage.tokens >= usage.window * MARGIN:
            return False
        return size(self._whole()) < self._trimmed_size * MARGIN

    def _forget_other_model(self) -> None:
        """Forget what refusals have shown if another model answers now."""
        if self._learned_from is None or self._model() == self._learned_from:
            return
        self._trim_to, self._refused_scale, self._learned_from = None, 1.0, None

    def _measure_whole(self) -> ContextUsage:
        self._forget_other_model()
        # If long texts were cut, the newest counts are those of what was sent instead.
        return self._measure(self._whole(), counted=self._trim_to is None)

    def _measure(self, messages: Sequence[Message], *, counted: bool = True) -> ContextUsage:
        return self._measure_messages(messages, self._scale(messages if counted else self._whole()), counted)

    def _scale(self, messages: Sequence[Message]) -> float:
        """The ratio of counted to estimated tokens, by the newest counts and refusals of the model."""
        scale, recent = self._refused_scale, dict[int, tuple[Message, float]]()
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if message.type != "assistant" or message.usage is None or message.estimated:
                continue
            known = self._ratios.get(id(message))
            if known is None or known[0] is not message:
                known = message, self._ratio(messages, index)
            recent[id(message)] = known
            scale = max(scale, known[1])
            if len(recent) == CALIBRATING_REPLIES:
                break
        self._ratios = recent
        return scale

    def _learn(self, error: ContextOverflowError, usage: ContextUsage) -> int | None:
        """Remember what a refusal says about the window and the tokenizer. Returns the limit that it names."""
        if cuts_silently(usage.model) and error.limit == usage.window:  # our own refusal
            return error.limit
        preamble = self._measure_messages((), 1.0, False).tokens
        read = error.tokens if error.input_tokens is None else error.input_tokens
        # What an image or a file really takes says nothing about the tokenizer.
        if read is not None and not any(map(has_media, self.messages())):
            ratio = read / max(1, preamble + size(self.messages()))
            self._refused_scale = min(MAX_SCALE, max(self._refused_scale, ratio))
            self._learned_from = usage.model
        # Without a limit it says little about a window that is known.
        if error.about_window and (error.limit is not None or usage.model.context_window is None):
            usage.client.refused(usage.model, error.limit or max(1, usage.tokens - 1))
        return error.limit

    def _is_due(self, compactor: Compactor, usage: ContextUsage) -> bool:
        try:
            return _should(compactor, usage)
        except UserInterrupt as interrupt:
            self._stop()
            return self._unchanged(usage, str(interrupt))
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
        self._spent = False
        entries = _without_open_calls(sent(self._recorder.settled.messages))
        if compactor.compacts_ahead:
            self._recorder.emit(ev.Compacting, len(entries), usage.tokens)
        messages = [entry.message for entry in entries]
        try:
            async with asyncio.timeout(self._seconds_left()) as limit:
                found = checked(await _compacted(compactor, messages, usage), messages)
            if found is None and not compactor.compacts_ahead:
                return False
            if found is None:
                return self._unchanged(usage, TOO_LITTLE if usage.overflows else NOTHING_TO_SHORTEN)
            return await self._replace(compactor, entries, messages, found, usage)
        except asyncio.CancelledError:
            self._unchanged(usage, "It was stopped.")
            raise
        except (PlanckError, UserInterrupt) as error:
            self._failed = True
            if isinstance(error, UserInterrupt):
                self._stop()
            return self._unchanged(usage, str(error))
        except Exception as error:  # noqa: BLE001 - the user's own compactor: the conversation goes on without it
            self._failed = True
            if isinstance(error, TimeoutError) and limit.expired():
                return self._unchanged(usage, "The time was up before there was a summary.")
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
        if not self._spent:
            self._spend(found.usage, found.cost)
        summary_id = await self._recorder.append_summary(
            found.summary, lambda now: [*kept, *(entry.id for entry in sent(now) if entry.id > newest)]
        )
        self._trim_to = None
        self._recorder.emit(ev.Compacted, summary_id, usage.tokens, self.usage().tokens)
        return True

    def _unchanged(self, usage: ContextUsage, reason: str) -> bool:
        self._recorder.emit(ev.Compacted, None, usage.tokens, usage.tokens, reason)
        return False

    def _forget(self, _task: asyncio.Task[bool]) -> None:
        self._task = None


@calls_user_code
def _should(compactor: Compactor, usage: ContextUsage) -> bool:
    return compactor.should(usage)


@calls_user_code
async def _compacted(compactor: Compactor, messages: Sequence[Message], usage: ContextUsage) -> Compact | None:
    return await compactor.compact(messages, usage)


def _writes_too_much(error: ContextOverflowError) -> bool:
    """Whether the reply that was requested is longer than the window by itself, so that nothing else matters."""
    if error.tokens is None or error.input_tokens is None or error.limit is None:
        return False
    return error.tokens - error.input_tokens >= error.limit


def _without_open_calls(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries before a reply whose calls are still running: that reply and what follows it stay as they are."""
    ends = cuts([entry.message for entry in entries])
    return entries[: ends[-1]] if ends else entries
