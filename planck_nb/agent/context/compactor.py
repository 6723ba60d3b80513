"""Compactors: what makes a conversation shorter before it outgrows the model's context window.

A compactor is asked before each request. It gives a summary and the messages that still count word for word, or
nothing; what it gives is checked, because it may be anybody's code.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from planck_nb.agent.context.conversation import cuts, pairs, places
from planck_nb.agent.context.python_file import run_python_file
from planck_nb.agent.context.summary import summarise
from planck_nb.agent.context.tokens import estimate
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client
from planck_nb.ai.messages import Message, SummaryMessage, Usage
from planck_nb.ai.models import Model
from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import CompactionError, ConfigError, UsageError

RATIO = 0.8
"""How full the context window may be before the conversation is compacted, as in Planck."""

KEEP_RECENT = 10
"""How many of the newest messages stay word for word, as in Planck."""

TIMEOUT = 120.0
"""Seconds that a compactor from elsewhere may take before the built-in one is asked, as in Planck."""

_MOST_OPERANDS = 2
"""A function's messages and situation."""


@dataclass(frozen=True, slots=True)
class Compact:
    """A shorter conversation: `summary`, followed by the `kept` ones of the messages that were given, in their order.

    `usage` and `cost`, in US dollars, are what it took to write it; None is an unknown price.
    """

    summary: str
    kept: Sequence[Message] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """How full the window is: the next request would take `tokens` of `window`, which is None where nobody knows.

    `model` is the agent's own, `client` is who asks models.
    """

    tokens: int
    window: int | None
    model: Model
    client: Client


class Compactor(ABC):
    """What makes a conversation shorter. Subclass it, or pass a function to `as_compactor`."""

    def should(self, context_usage: ContextUsage) -> bool:  # noqa: ARG002 - for those that go by it
        """Whether to ask `compact` now. Unless overridden always: `compact` then decides itself."""
        return True

    @property
    def foresees(self) -> bool:
        """Whether `should` tells when it is time, so that room can be made ahead; otherwise only `compact` knows."""
        return type(self).should is not Compactor.should

    @abstractmethod
    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        """A shorter conversation, or None to leave it as it is.

        `messages` are what the model is sent: the latest summary, what it keeps, and all that follows. Called before
        requests, on the agent's event loop; may be cancelled. What it raises leaves the conversation as it is.
        """

    @staticmethod
    def build(
        model: Model | str | None = None,
        *,
        ratio: float = RATIO,
        keep_recent: int = KEEP_RECENT,
        first: Compactor | Callable[..., object] | None = None,
        timeout: float = TIMEOUT,
    ) -> Compactor:
        """A compactor that has `model` write the summary, by default the agent's own.

        It acts when the next request would take `ratio` of the window, and keeps about `keep_recent` messages: fewer
        where they would fill more than half of that, and never a result without its call. Where there is another
        compactor `first`, that one is asked, and the model only where it fails or takes more than `timeout` seconds.
        Raises `ConfigError` for a ratio or count that makes no sense and `ModelError` for a model that does not exist.
        """
        if not 0 < ratio <= 1:
            raise ConfigError(f"A compactor's ratio is above 0 and at most 1, not {ratio!r}; 0.8 is usual.")
        if keep_recent < 0:
            raise ConfigError(f"A compactor cannot keep {keep_recent} messages; say 0 or more.")
        built = _Summarising(get_model(model) if isinstance(model, str) else model, ratio, keep_recent)
        return built if first is None else _WithFallback(as_compactor(first), built, timeout)

    @staticmethod
    def load(path: str | Path) -> Compactor:
        """The compactor that a Python file defines: a function `compact`, or one `Compactor` subclass or instance.

        The file is run. Raises `ConfigError` where it cannot be, or defines none or several.
        """
        path = Path(path)
        found = _defined_in(run_python_file(path))
        if len(found) != 1:
            many = "several compactors" if found else "no compactor"
            raise ConfigError(
                f"{path} defines {many}; define one function compact(messages) or one subclass of Compactor."
            )
        try:
            return as_compactor(found[0])
        except UsageError as error:
            raise ConfigError(f"{path} defines no usable compactor: {error}") from error


class _Summarising(Compactor):
    """Has a model summarise all but the newest messages."""

    def __init__(self, model: Model | None, ratio: float, keep_recent: int) -> None:
        self._model = model
        self._ratio = ratio
        self._keep_recent = keep_recent

    def should(self, context_usage: ContextUsage) -> bool:
        limit = self._limit(context_usage)
        return limit is not None and context_usage.tokens >= limit

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        limit = self._limit(context_usage)
        room = None if limit is None else limit // 2
        cut = _cut(messages, context_usage, keep_recent=self._keep_recent, room=room)
        if cut is None:
            return None
        model = self._model or context_usage.model
        window = self._model.context_window if self._model else context_usage.window
        written = await summarise(messages[:cut], model=model, window=window, client=context_usage.client)
        if not written.text:
            return None
        return Compact(written.text, tuple(messages[cut:]), written.usage, written.cost)

    def _limit(self, context_usage: ContextUsage) -> int | None:
        return None if context_usage.window is None else int(context_usage.window * self._ratio)


def _cut(messages: Sequence[Message], context_usage: ContextUsage, *, keep_recent: int, room: int | None) -> int | None:
    """Where to cut: what follows is kept, `keep_recent` messages or a few less, in `room` tokens. None: nowhere.

    What was said last and is not answered yet is always kept.
    """
    sizes = [estimate(message) for message in messages]
    # The system prompt and the tools stay, and an estimate may be wrong; by how much, the true size tells.
    weight = min(2.0, max(1.0, context_usage.tokens / max(1, sum(sizes))))

    def fits(place: int) -> bool:
        return room is None or sum(sizes[place:]) * weight <= room

    oldest = 2 if messages and messages[0].type == "summary" else 1
    newest = len(messages)
    while newest and messages[newest - 1].type == "user":
        newest -= 1
    preferred = len(messages) - keep_recent
    if preferred < oldest and fits(0):
        return None
    allowed = [place for place in cuts(messages) if oldest <= place <= newest]
    places_left = [place for place in allowed if place >= preferred] or allowed[-1:]
    return next(filter(fits, places_left), places_left[-1] if places_left else None)


class _WithFallback(Compactor):
    """Asks one compactor, and another where that fails; the other one says when it is time."""

    def __init__(self, first: Compactor, second: Compactor, timeout: float) -> None:
        self._first = first
        self._second = second
        self._timeout = timeout

    def should(self, context_usage: ContextUsage) -> bool:
        return self._second.should(context_usage)

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        try:
            async with asyncio.timeout(self._timeout):
                return checked(await self._first.compact(messages, context_usage), messages)
        except Exception:  # noqa: BLE001 - it may be anybody's code, at the other end of anything
            return await self._second.compact(messages, context_usage)


class _FromFunction(Compactor):
    """A function of the messages, or of the messages and the situation; a sync one runs in a thread."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._operands = _operands(function)

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        operands = (messages, context_usage)[: self._operands]
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(*operands)
        else:
            result = await run_in_thread(lambda: self._function(*operands))
            if inspect.isawaitable(result):
                result = await result
        return checked(result, messages)


def as_compactor(candidate: object) -> Compactor:
    """A compactor from a compactor, a subclass of `Compactor`, or a function.

    A function takes `(messages)` or `(messages, context_usage)`, may be async, and returns a `Compact`, a tuple
    `(summary, kept)`, or None to leave the conversation as it is; it is asked before every request. Raises `UsageError`
    for anything else.
    """
    if isinstance(candidate, Compactor):
        return candidate
    if isinstance(candidate, type) and issubclass(candidate, Compactor):
        try:
            return candidate()
        except TypeError as error:
            raise UsageError(f"{candidate.__name__} cannot be made without arguments ({error}); pass one.") from error
    if callable(candidate) and not isinstance(candidate, type):
        return _FromFunction(candidate)
    raise UsageError(f"{candidate!r} is not a compactor; pass a Compactor or a function of the messages.")


def checked(result: object, messages: Sequence[Message]) -> Compact | None:
    """What a compactor gave for these messages, once it is certain that the conversation can go on with it.

    `kept` are then the very messages that were given. Raises `CompactionError` for an empty summary, for kept messages
    that were not given or not in this order, that separate a call from its result, or that are all there are.
    """
    if result is None:
        return None
    compact = _as_compact(result)
    if not compact.summary.strip():
        raise CompactionError("The compactor gave an empty summary; it must say what the conversation was about.")
    chosen = places(compact.kept, messages)
    if chosen is None:
        raise CompactionError(
            "The compactor keeps messages that it was not given, or in another order; return some of them, in order."
        )
    if len(chosen) == len(messages):
        raise CompactionError("The compactor keeps every message; leave some out, or return None.")
    kept = set(chosen)
    if any((call in kept) != (result in kept) for call, result in pairs(messages)):
        raise CompactionError("The compactor keeps a tool call without its result, or the reverse; keep both.")
    return replace(compact, kept=tuple(messages[place] for place in chosen))


def _as_compact(result: object) -> Compact:
    if isinstance(result, Compact):
        result = (result.summary, result.kept, result.usage, result.cost)
    elif not isinstance(result, tuple | list) or len(result) != 2:  # noqa: PLR2004 - a pair
        raise CompactionError(
            f"The compactor returned a {type(result).__name__}; return a Compact, (summary, kept) or None."
        )
    summary, kept, *cost = result
    if isinstance(summary, SummaryMessage):
        summary = summary.text
    if not isinstance(summary, str) or not isinstance(kept, tuple | list):
        raise CompactionError("The compactor's summary must be a string, and what it keeps a list of messages.")
    return Compact(summary, kept, *cost)


def _operands(function: Callable[..., object]) -> int:
    """How many arguments to give the function. Raises `UsageError` where it takes none, or needs more than two."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return 1
    taken = [item for item in parameters if item.kind not in (item.KEYWORD_ONLY, item.VAR_KEYWORD)]
    needed = sum(item.default is item.empty and item.kind is not item.VAR_POSITIONAL for item in taken)
    if not taken or needed > _MOST_OPERANDS:
        name = getattr(function, "__name__", repr(function))
        raise UsageError(f"{name} cannot be a compactor: it must take (messages) or (messages, situation).")
    asks = needed == _MOST_OPERANDS or any(item.name in {"context_usage", "situation"} for item in taken[1:2])
    return _MOST_OPERANDS if asks else 1


def _defined_in(module: ModuleType) -> list[Any]:
    """The compactors that the file defines itself; its function `compact` counts before all others."""
    function = vars(module).get("compact")
    if callable(function):
        return [function]
    own = [value for value in vars(module).values() if isinstance(value, Compactor)]
    return own or [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Compactor) and value.__module__ == module.__name__
    ]
