"""Compactors shorten a conversation before it outgrows the model's context window.

A compactor is called before requests. It returns a summary and the messages to keep unchanged, or None; the result is
checked, because it may come from the user's code.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from planck_nb.agent.charges import LimitCheck, Spend, unlimited
from planck_nb.agent.context.conversation import cuts, pairs, places
from planck_nb.agent.context.python_file import run_python_file
from planck_nb.agent.context.summary import summarise
from planck_nb.agent.tokens import estimate
from planck_nb.ai.client import Client
from planck_nb.ai.messages import Message, SummaryMessage, Usage
from planck_nb.ai.model_lookup.catalogue import get_model
from planck_nb.ai.model_lookup.model_source import model_source
from planck_nb.ai.models import Model
from planck_nb.base.errors import CompactionError, ConfigError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread

RATIO = 0.8
"""How full the context window may be before the conversation is compacted, as in Planck."""

KEEP_RECENT = 10
"""How many of the newest messages are kept unchanged, as in Planck."""

TIMEOUT = 120.0
"""Seconds that the user's compactor may take before the built-in one is used instead, as in Planck."""

_MAX_ARGUMENTS = 2
"""A compactor function's arguments: the messages and the context usage."""


@dataclass(frozen=True, slots=True)
class Compact:
    """A shorter conversation: a summary, followed by some of the messages.

    Args:
        summary: The text of the summary.
        kept: The messages to keep, in their order.
        usage: The tokens that writing the summary took.
        cost: What it cost in US dollars, None if the price is unknown.
    """

    summary: str
    kept: Sequence[Message] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None


def ignore_cost(_usage: Usage, _cost: float | None, /, model: str = "", *, estimated: bool = False) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """How much of the context window the next request would fill.

    Args:
        tokens: The tokens of the request, partly estimated.
        window: The tokens of the model's context window, None if it is unknown.
        model: The agent's model.
        client: Sends requests to models.
        scale: The ratio of counted to estimated tokens.
        spend: To be called with the tokens and US dollars of each request to a model that the compactor sends, so that
            limits hold even if it fails, and with `model=` if it is another model than the agent's. If it is never
            called, those of the `Compact` count.
        exhausted: Returns a sentence if a limit is reached, so that no more requests may be sent, else an empty text.
            Takes the tokens and US dollars of a request that is running, if there is one: it must end then, too.
    """

    tokens: int
    window: int | None
    model: Model
    client: Client
    scale: float = 1.0
    spend: Spend = field(default=ignore_cost, compare=False, repr=False)
    exhausted: LimitCheck = field(default=unlimited, compare=False, repr=False)

    @property
    def overflows(self) -> bool:
        """Whether the request is longer than the context window."""
        return self.window is not None and self.tokens > self.window


class Compactor(ABC):
    """Shortens a conversation. Subclass it, or pass a function to `as_compactor`."""

    def should(self, context_usage: ContextUsage) -> bool:  # noqa: ARG002 - for subclasses
        """Decide whether to call `compact` now.

        Args:
            context_usage: How full the context window is.

        Returns:
            True unless overridden: `compact` then decides, before every request.
        """
        return True

    @property
    def compacts_ahead(self) -> bool:
        """Whether `should` is overridden, so that the conversation can be compacted in the background after a turn."""
        return type(self).should is not Compactor.should

    @abstractmethod
    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        """Shorten a conversation.

        Called on the agent's event loop; may be cancelled. If it raises, the conversation stays as it is.

        Args:
            messages: What the model is sent: the latest summary, the messages that it keeps, and all later ones.
            context_usage: How full the context window is.

        Returns:
            The shorter conversation, or None to leave it as it is.
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
        """Make a compactor that has a model write the summary.

        Args:
            model: The model that writes it, as a `Model` or as "provider:model"; None for the agent's own.
            ratio: The part of the context window, above 0 and at most 1, from which the conversation is compacted.
            keep_recent: About how many of the newest messages to keep: fewer if they would fill more than half of
                `ratio`, and never a result without its call.
            first: Another compactor, or a function as in `as_compactor`, to use instead. The model writes the summary
                only if it fails.
            timeout: Seconds that `first` may take.

        Returns:
            The compactor.

        Raises:
            ConfigError: If `ratio` or `keep_recent` is out of range.
            ModelError: If the model does not exist.
            UsageError: If `first` is not a compactor.

        Example:
            >>> Compactor.build(ratio=0.5).compacts_ahead
            True
        """
        if not 0 < ratio <= 1:
            raise ConfigError(f"A compactor's ratio must be above 0 and at most 1, not {ratio!r}; 0.8 is usual.")
        if keep_recent < 0:
            raise ConfigError(f"A compactor cannot keep {keep_recent} messages; give 0 or more.")
        built = _Summarising(get_model(model) if isinstance(model, str) else model, ratio, keep_recent)
        return built if first is None else _WithFallback(as_compactor(first, timeout=None), built, timeout)

    @staticmethod
    def load(path: str | Path) -> Compactor:
        """Run a Python file and return the compactor that it defines.

        Args:
            path: A file that defines a function `compact`, or one subclass or instance of `Compactor`.

        Returns:
            The compactor.

        Raises:
            ConfigError: If the file cannot be run, or defines no usable compactor or several.
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

    def stored(self) -> JsonObject:
        own: JsonObject = {}
        if self._model is not None:
            own = {"model": str(self._model), "model_source": model_source(self._model)}
        return {"ratio": self._ratio, "keep_recent": self._keep_recent, **own}

    def should(self, context_usage: ContextUsage) -> bool:
        limit = self._limit(context_usage)
        return limit is not None and context_usage.tokens >= limit

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        limit = self._limit(context_usage)
        max_tokens = None if limit is None else limit // 2
        cut = _cut(messages, context_usage, keep_recent=self._keep_recent, max_tokens=max_tokens)
        if cut is None:
            return None
        model = self._model or context_usage.model
        window = self._model.context_window if self._model else context_usage.window
        if window is not None and model == context_usage.model:
            window = int(window / context_usage.scale)
        written = await summarise(
            messages[:cut],
            model=model,
            window=window,
            client=context_usage.client,
            spend=context_usage.spend,
            exhausted=context_usage.exhausted,
        )
        if not written.text:
            return None
        return Compact(written.text, tuple(messages[cut:]), written.usage, written.cost)

    def _limit(self, context_usage: ContextUsage) -> int | None:
        return None if context_usage.window is None else int(context_usage.window * self._ratio)


def _cut(
    messages: Sequence[Message], context_usage: ContextUsage, *, keep_recent: int, max_tokens: int | None
) -> int | None:
    """The index of the first message to keep, None if there is nothing to summarise.

    Keeps `keep_recent` messages or slightly fewer, in at most `max_tokens`. Prompts that are not answered yet are
    always kept.
    """
    sizes = [estimate(message) for message in messages]
    # The request also has the system prompt and the tools, and an estimate may be wrong: its whole size corrects both.
    weight = max(context_usage.scale, min(2.0, max(1.0, context_usage.tokens / max(1, sum(sizes)))))

    def fits(index: int) -> bool:
        return max_tokens is None or sum(sizes[index:]) * weight <= max_tokens

    oldest = 2 if messages and messages[0].type == "summary" else 1
    newest = len(messages)
    while newest and messages[newest - 1].type == "user":
        newest -= 1
        if context_usage.overflows:  # then only the newest prompt
            break
    preferred = len(messages) - keep_recent
    if preferred < oldest and fits(0):
        return None
    allowed = [index for index in cuts(messages) if oldest <= index <= newest]
    candidates = [index for index in allowed if index >= preferred] or allowed[-1:]
    return next(filter(fits, candidates), candidates[-1] if candidates else None)


class _WithFallback(Compactor):
    """Uses one compactor, and a second one if the first fails; the second one decides when to compact."""

    def __init__(self, first: Compactor, second: _Summarising, timeout: float) -> None:
        self._first = first
        self._second = second
        self._timeout = timeout

    def stored(self) -> JsonObject:
        first = stored_compactor(self._first)
        # With only a name, versions that know of no second compactor find the first one, or say that it is lost.
        own: JsonObject = first if first.keys() == {"name"} else {"first": first}
        return {**self._second.stored(), **own, "timeout": self._timeout}

    def should(self, context_usage: ContextUsage) -> bool:
        return self._second.should(context_usage)

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        try:
            async with asyncio.timeout(self._timeout):
                return checked(await self._first.compact(messages, context_usage), messages)
        except Exception:  # noqa: BLE001 - the user's own code may fail in any way
            return await self._second.compact(messages, context_usage)


class _FromFunction(Compactor):
    """Calls a function with the messages, and the context usage if it accepts it; a sync one runs in a thread."""

    def __init__(self, function: Callable[..., object], timeout: float | None) -> None:
        self.name = str(getattr(function, "__qualname__", type(function).__qualname__))
        self._function = function
        self._timeout = timeout
        self._argument_count = _argument_count(function)

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return checked(await self._call(messages, context_usage), messages)
        except TimeoutError:
            if not limit.expired():
                raise
            raise CompactionError(
                f"The compactor {self.name} did not return within {self._timeout:g} s; pass it as "
                "`Compactor.build(first=…, timeout=…)` to give it another time."
            ) from None

    async def _call(self, *arguments: object) -> object:
        arguments = arguments[: self._argument_count]
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*arguments)
        result = await run_in_thread(lambda: self._function(*arguments))
        return await result if inspect.isawaitable(result) else result


class _Named(Compactor):
    """Another compactor, stored under the name by which it was chosen and is found again."""

    def __init__(self, compactor: Compactor, name: str) -> None:
        self.name = name
        self._compactor = compactor

    @property
    def compacts_ahead(self) -> bool:
        return self._compactor.compacts_ahead

    def should(self, context_usage: ContextUsage) -> bool:
        return self._compactor.should(context_usage)

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        return await self._compactor.compact(messages, context_usage)


def with_name(compactor: Compactor, name: str) -> Compactor:
    """The compactor, which is stored under this name."""
    return _Named(compactor, name)


def as_compactor(candidate: object, *, timeout: float | None = TIMEOUT) -> Compactor:
    """Make a compactor.

    Args:
        candidate: A compactor, a subclass of `Compactor` whose constructor needs no arguments, or a function. A
            function accepts `(messages)` or `(messages, context_usage)`, may be async, and returns a `Compact`, a tuple
            `(summary, kept)`, or None to leave the conversation as it is; it is called before every request.
            Its own requests to a model count towards the agent's usage and limits only if it reports them: with
            `context_usage.spend(reply.usage, reply.cost)` after each request, or with `usage` and `cost` of the
            `Compact` that it returns.
        timeout: Seconds that a function may take, None for no limit.

    Returns:
        The compactor.

    Raises:
        UsageError: If the candidate is none of these.
    """
    if isinstance(candidate, Compactor):
        return candidate
    if isinstance(candidate, type) and issubclass(candidate, Compactor):
        try:
            return candidate()
        except TypeError as error:
            raise UsageError(
                f"{candidate.__name__} cannot be created without arguments ({error}); pass an instance."
            ) from error
    if callable(candidate) and not isinstance(candidate, type):
        return _FromFunction(candidate, timeout)
    raise UsageError(f"{candidate!r} is not a compactor; pass a Compactor or a function of the messages.")


def stored_compactor(compactor: Compactor) -> JsonObject:
    """What a session stores about a compactor.

    This is not a method, so that whatever attributes a user's subclass has, they are not stored.

    Args:
        compactor: The compactor.

    Returns:
        All that `restored_compactor` needs, or the name of the user's own function or class.
    """
    match compactor:
        case _WithFallback():
            return compactor.stored()
        case _Summarising():
            return compactor.stored()
        case _FromFunction() | _Named():
            return {"name": compactor.name}
        case _:
            return {"name": type(compactor).__qualname__}


def restored_compactor(
    stored: Mapping[str, Any], model: Model | None = None, first: Compactor | None = None
) -> Compactor:
    """Make a compactor that `Compactor.build` made before.

    Args:
        stored: What `stored_compactor` returned for that compactor.
        model: The model that writes the summary, None for the agent's own.
        first: The compactor to use instead, for which that name or `first` was stored; None if there is none.

    Returns:
        The compactor.

    Raises:
        ConfigError: It was made by the user's own code, or what was stored is damaged.
    """
    if (name := stored.get("name")) and first is None:
        raise ConfigError(f"its compactor {name} is a function or class that is not stored")
    try:
        return Compactor.build(
            model,
            ratio=stored["ratio"],
            keep_recent=stored["keep_recent"],
            first=first,
            timeout=float(stored.get("timeout", TIMEOUT)),
        )
    except (KeyError, TypeError, ValueError, ConfigError):
        raise ConfigError("what the session stored about its compactor is damaged") from None


def checked(result: object, messages: Sequence[Message]) -> Compact | None:
    """Check that the conversation can continue with the result of a compactor.

    Args:
        result: What the compactor returned.
        messages: What it was given.

    Returns:
        The shorter conversation, whose kept messages are the very objects in `messages`; None if it is to stay as it
        is.

    Raises:
        CompactionError: If the summary is empty, or the kept messages were not given, are in another order, separate a
            call from its result, or are all of the messages.
    """
    if result is None:
        return None
    compact = _as_compact(result)
    if not compact.summary.strip():
        raise CompactionError("The compactor returned an empty summary; it must say what the conversation was about.")
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
    return replace(compact, kept=tuple(messages[index] for index in chosen))


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


def _argument_count(function: Callable[..., object]) -> int:
    """How many arguments to pass to the function. Raises `UsageError` if it accepts none, or requires more than two."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return 1
    positional = [item for item in parameters if item.kind not in (item.KEYWORD_ONLY, item.VAR_KEYWORD)]
    required = sum(item.default is item.empty and item.kind is not item.VAR_POSITIONAL for item in positional)
    if not positional or required > _MAX_ARGUMENTS:
        name = getattr(function, "__name__", repr(function))
        raise UsageError(f"{name} cannot be a compactor: it must accept (messages) or (messages, context_usage).")
    wants_usage = any(item.name == "context_usage" for item in positional[1:2])
    return _MAX_ARGUMENTS if wants_usage or required == _MAX_ARGUMENTS else 1


def _defined_in(module: ModuleType) -> list[Any]:
    """The compactors that the file defines, not those that it imports; only the function `compact` if there is one."""
    function = vars(module).get("compact")
    if callable(function):
        return [function]
    own = [value for value in vars(module).values() if isinstance(value, Compactor)]
    return own or [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Compactor) and value.__module__ == module.__name__
    ]
