"""Settings and prompts for maps, with their digests."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from planck_nb.agent.agent import Agent
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.limits import Limits
from planck_nb.agent.output import OutputSpec
from planck_nb.ai.messages import Usage
from planck_nb.ai.model_lookup.model_source import model_source
from planck_nb.ai.model_lookup.stored_options import stored_options
from planck_nb.ai.models import Model
from planck_nb.ai.providers import may_cost, rules_of
from planck_nb.ai.request import Options
from planck_nb.base.errors import LimitError, UsageError
from planck_nb.base.secrets import redact
from planck_nb.base.visible import series

KeyFunction: TypeAlias = Callable[[Any], object]
"""A function from a prompt or a row to its key."""

CONCURRENCY = 8
"""Usual number of items in flight."""

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ItemSettings:
    """Settings for the agents in a map.

    Args:
        model: The answering model.
        prompt_parts: Returns what surrounds the system prompt.
        limits: Limits for each item.
        name: The name for the model.
        type: The type for the model.
        system_prompt: Instructions to the model.
        tools: The tools.
        options: Request options.
        cwd: The tools' working directory.
    """

    model: Model
    prompt_parts: Callable[[], SystemPromptParts]
    limits: Limits
    name: str = ""
    type: str = ""
    system_prompt: str = ""
    tools: tuple[Tool, ...] = ()
    options: Options | None = None
    cwd: Path | None = None

    @classmethod
    def of(cls, agent: Agent, prompt_parts: Callable[[], SystemPromptParts]) -> ItemSettings:
        """Return an agent's current settings."""
        return cls(
            agent.model,
            prompt_parts,
            agent.limits,
            agent.name,
            agent.type,
            agent.system_prompt,
            agent.tools,
            agent.options,
            agent.cwd,
        )

    def digests(self, output: OutputSpec | None) -> dict[str, str]:
        """Return the digests by the settings' names for people."""
        parts = self.prompt_parts()
        values: dict[str, object] = {
            "model": [str(self.model), model_source(self.model)],
            "system prompt": [self.name, self.type, self.system_prompt],
            "instructions": [parts.instructions, parts.skills],
            "options": {} if self.options is None else stored_options(self.options),
            "output": None if output is None else output.schema,
            "tools": sorted([tool.name, tool.description, tool.parameters, _source(tool)] for tool in self.tools),
        }
        return {name: digest(json.dumps(value, sort_keys=True, default=str))[:12] for name, value in values.items()}

    def require_price(self) -> None:
        """Check that costs can be counted.

        Raises:
            LimitError: The model's price is unknown.
        """
        model, limits = self.model, self.limits
        is_known = model.pricing is not None or limits.unknown_price is not None or not may_cost(model)
        if not is_known and rules_of(model).cost is None:
            raise LimitError(
                f"The price of {model} is not known, so `cost` cannot hold; say what it costs with `unknown_price` in "
                "the limits, or leave `cost` out."
            )

    def largest_cost(self, characters: int) -> float:
        """Compute an item's largest cost, in US dollars or infinity."""
        limits = self.limits
        rounds = 1 if not self.tools else limits.rounds
        max_output = (self.options.max_tokens if self.options else None) or self.model.max_output
        bound = float("inf") if limits.cost is None else limits.cost
        if rounds is None or max_output is None or self.tools:  # tools may return anything
            return bound
        parts = self.prompt_parts()
        read = 4 * (characters + len(self.system_prompt) + len(parts.instructions) + len(parts.skills) + 200)
        return min(bound, limits.price(Usage(input_tokens=read, output_tokens=2 * max_output), self.model))


def digest(text: str) -> str:
    """Return a text's SHA-256."""
    return _sha256(text).hex()


def _sha256(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _source(tool: Tool) -> str:
    function = tool.function or tool.execute_fn
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # a callable object, or typed where no source is kept
        return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"


class MapPrompt(NamedTuple):
    """One prompt.

    Args:
        name: Its key, or its number from 1.
        text: The prompt.
        digest: What it is known by, a 64-bit number.
    """

    name: str
    text: str
    digest: int


class MapPrompts:
    """Reads prompts one after another and checks each.

    Args:
        prompts: Texts: a list, an iterator, an async iterator or a column; or a frame, for which `template` is needed.
        key: Returns what an item is known by instead of its prompt, or a column's name.
        template: Each row's prompt, with `{column}` where its values belong.
    """

    def __init__(
        self,
        prompts: Iterable[object] | AsyncIterable[object],
        key: KeyFunction | str | None,
        template: str | None,
    ) -> None:
        self._columns = [str(name) for name in getattr(prompts, "columns", ())]
        is_source = isinstance(prompts, Iterable | AsyncIterable) and not isinstance(prompts, str | bytes)
        if not is_source:
            raise UsageError("`prompts` must be a list, an iterator, a column or a frame; put one prompt in a list.")
        if len(set(self._columns)) < len(self._columns):
            twice = next(name for name in self._columns if self._columns.count(name) > 1)
            raise UsageError(f"The frame has several columns named {twice!r}; rename all but one.")
        if bool(self._columns) != (template is not None):
            raise UsageError(
                "A frame needs a `template`, such as 'Which product is meant? {text}', and nothing else has one; pass "
                "a column for prompts that are complete."
            )
        if isinstance(key, str) and key not in self._columns:
            raise UsageError(f"There is no column {key!r} for `key`; pass a column of the frame, or a function.")
        self._prompts = prompts
        self._key = key
        self._template = template

    @property
    def total(self) -> int | None:
        """Their number, None for iterators."""
        prompts = self._prompts
        return len(prompts) if isinstance(prompts, Sized) and not isinstance(prompts, AsyncIterable) else None

    async def read(self) -> AsyncIterator[MapPrompt]:
        """Yield the prompts.

        Raises:
            UsageError: One cannot be sent, or reading failed; the sentence names it.
        """
        if not isinstance(self._prompts, AsyncIterable):
            for prompt in self.iterate():
                yield prompt
            return
        keys: set[int] = set()
        number = 0
        source = aiter(self._prompts)
        while True:
            number += 1
            try:
                value = await anext(source)
            except StopAsyncIteration:
                return
            except Exception as error:
                raise _unreadable(number, error) from error
            yield self._unique(number, self._prompt(number, value), keys)

    def iterate(self) -> Iterator[MapPrompt]:
        """Yield the prompts from a source without waits.

        Raises:
            UsageError: As for `read`.
        """
        keys: set[int] = set()
        number = 0
        source = self._rows()
        while True:
            number += 1
            try:
                value = next(source)
            except StopIteration:
                return
            except Exception as error:
                raise _unreadable(number, error) from error
            yield self._unique(number, self._prompt(number, value), keys)

    def _unique(self, number: int, prompt: MapPrompt, keys: set[int]) -> MapPrompt:
        """Return the prompt, or raise `UsageError` for an earlier item's key."""
        if self._key is not None:
            if prompt.digest in keys:
                raise UsageError(f"Item {number} has the key {prompt.name!r} of an earlier item; make keys unique.")
            keys.add(prompt.digest)
        return prompt

    def _rows(self) -> Iterator[object]:
        if not self._columns:
            assert isinstance(self._prompts, Iterable)  # noqa: S101 - for the type checker
            yield from self._prompts
            return
        frame: Any = self._prompts
        for values in zip(*(frame[name] for name in frame.columns), strict=True):
            yield dict(zip(self._columns, values, strict=True))

    def _prompt(self, number: int, value: object) -> MapPrompt:
        text = value if self._template is None else self._filled(number, value)
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"Item {number} has no text ({text!r}); drop it, or write what the agent is to do.")
        if redact(text) != text:
            raise UsageError(f"Item {number} contains a secret of this process; replace it, since prompts are stored.")
        if self._key is None:
            return MapPrompt(str(number), text, _number(text))
        key = value[self._key] if isinstance(self._key, str) and isinstance(value, dict) else self._called(value)
        if key is None or key != key:  # noqa: PLR0124 - NaN
            raise UsageError(f"Item {number} has no key ({key!r}); give each item one.")
        return MapPrompt(str(key), text, _number(str(key)))

    def _called(self, value: object) -> object:
        assert callable(self._key)  # noqa: S101 - for the type checker
        return self._key(value)

    def _filled(self, number: int, row: object) -> str:
        assert self._template is not None and isinstance(row, dict)  # noqa: S101, PT018 - for the type checker
        names = [name for name in row if f"{{{name}" in self._template]
        missing = [name for name in names if row[name] is None or row[name] != row[name]]
        if missing:
            raise UsageError(
                f"Item {number} has no value in {series(missing[:_MOST_NAMED])}; fill it, or drop the row."
            )
        try:
            return self._template.format_map(row)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise UsageError(f"The template does not fit item {number} ({type(error).__name__}: {error}).") from error


def _unreadable(number: int, error: Exception) -> UsageError:
    return UsageError(
        f"The prompts could not be read at item {number} ({type(error).__name__}: {error}); the answers to those "
        "before it are kept, and the same call goes on after them."
    )


def _number(text: str) -> int:
    return int.from_bytes(_sha256(text)[:8])
