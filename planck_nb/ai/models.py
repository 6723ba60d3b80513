"""The facts about a model: its address, its wire format, what it accepts and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeAlias

from planck_nb.ai.auth import Auth
from planck_nb.ai.messages import Usage
from planck_nb.ai.numbers import dollars
from planck_nb.ai.request import Options
from planck_nb.ai.server_address import shown_url
from planck_nb.ai.server_rules import ServerRules
from planck_nb.base.errors import ConfigError
from planck_nb.base.json_types import JsonObject

Modality: TypeAlias = Literal["text", "image", "pdf"]
"""A kind of content that a model may accept."""

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""Levels of thinking, the lowest first."""


def nearest_level(level: str, known: Collection[str]) -> str:
    """The level among `known` that is nearest to one of `LEVELS`; the lower of two that are equally near."""
    rank = LEVELS.index(level)
    return min((name for name in LEVELS if name in known), key=lambda name: abs(LEVELS.index(name) - rank))


@dataclass(frozen=True, slots=True)
class PriceStep:
    """The rates of requests with many input tokens, in US dollars per million tokens.

    Args:
        above: The rates apply to requests with more input tokens than this.
        input: The rate of input tokens.
        output: The rate of output tokens.
        cache_read: The rate of tokens read from the cache; None means the input rate.
        cache_write: The rate of tokens written to the cache; None means the input rate.
    """

    above: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices in US dollars per million tokens.

    Args:
        input: The rate of input tokens.
        output: The rate of output tokens.
        cache_read: The rate of tokens read from the cache; None means the input rate.
        cache_write: The rate of tokens written to the cache; None means the input rate.
        steps: The rates of longer prompts, which apply to all tokens of such a request.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    steps: tuple[PriceStep, ...] = ()

    def cost(self, usage: Usage) -> float:
        """Compute the cost of one request.

        Args:
            usage: The token counts of that request alone, because rates may depend on its length.

        Returns:
            US dollars.

        Example:
            >>> from planck_nb import ai
            >>> ai.Pricing(input=3.0, output=15.0).cost(ai.Usage(input_tokens=1_000_000, output_tokens=100_000))
            4.5
        """
        rates = max(
            (step for step in self.steps if usage.input_tokens > step.above), key=lambda step: step.above, default=self
        )
        plain = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        read = rates.input if rates.cache_read is None else rates.cache_read
        write = rates.input if rates.cache_write is None else rates.cache_write
        total = (
            plain * rates.input
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
            + usage.output_tokens * rates.output
        )
        return total / 1_000_000


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a model of a stored session cannot be used in this process.

    Args:
        reason: One sentence that says what to do.
        source: How the model was found when the session was written; see `planck_nb.ai.model_lookup.model_source`.
    """

    reason: str
    source: JsonObject = field(default_factory=dict[str, object], repr=False)


@dataclass(frozen=True, slots=True)
class Model:
    """A model, with what is known about it; `get_model` makes one. None means unknown.

    Args:
        provider: The name of its provider.
        id: Its id at the provider.
        api: The name of its wire format.
        base_url: The address of its server, None for the provider's own.
        api_key: Its API key, instead of the environment's; never part of a repr.
        key_variable: The environment variable that holds its API key, instead of the provider's.
        has_api_key: Whether a key is sent.
        name: Its name for display.
        context_window: Tokens that it can read and write in one request.
        max_output: Tokens that it can write in one request.
        thinking: Whether it can think.
        pricing: What it costs.
        settings: Facts that only its wire format needs.
        modalities: The kinds of content that it accepts.
        thinking_levels: The levels of thinking that it has.
        options: Options that apply where a request sets none.
        alias: The short name that its user gave it.
        auth: A function that returns the credentials of each request instead of a key; never stored.
        unavailable: Why it cannot be used, None if it can.
        found: The model as it was looked up, before any of its facts was replaced; None if it was not looked up.
        rules: How its server differs from others; None for its provider's rules.

    Raises:
        ConfigError: `api_key` is not a string.
    """

    provider: str
    id: str
    api: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    key_variable: str | None = None
    has_api_key: bool = True
    name: str = ""
    context_window: int | None = None
    max_output: int | None = None
    thinking: bool = False
    pricing: Pricing | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    modalities: tuple[Modality, ...] | None = None
    thinking_levels: tuple[str, ...] | None = None
    options: Options = field(default_factory=Options, repr=False)
    alias: str = ""
    auth: Auth | None = field(default=None, repr=False)
    unavailable: Unavailable | None = None
    found: Model | None = field(default=None, repr=False, compare=False)
    rules: ServerRules | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        key: object = self.api_key
        if key is not None and not isinstance(key, str):
            raise ConfigError(
                f"api_key must be a string, not {type(key).__name__}; pass a function that returns the credentials to "
                "get_model as auth= instead."
            )

    def __str__(self) -> str:
        return f"{self.provider}:{self.id}"

    def __repr__(self) -> str:
        shown = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}
        if self.base_url is not None:
            shown["base_url"] = shown_url(self.base_url)
        return f"Model({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def cost(self, usage: Usage | None) -> float | None:
        """Compute the cost of one request.

        Args:
            usage: The token counts of that request, None if unknown.

        Returns:
            US dollars, None if usage or price is unknown, or if the result is not an amount.
        """
        return None if usage is None or self.pricing is None else dollars(self.pricing.cost(usage))

    def takes(self, modality: Modality) -> bool:
        """Check whether the model accepts a kind of content.

        Args:
            modality: The kind of content.

        Returns:
            Whether it does; True if that is unknown.
        """
        return self.modalities is None or modality in self.modalities


def as_found(model: Model) -> Model:
    """The model as the result of a lookup: its current facts are those that can be looked up again."""
    return replace(model, found=replace(model, found=None))
