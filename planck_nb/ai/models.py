"""What is known of a model: where it lives, which wire format it speaks, what it can take, what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from planck_nb.ai.auth import Auth
from planck_nb.ai.messages import Usage
from planck_nb.ai.request import Options

Modality: TypeAlias = Literal["text", "image", "pdf"]
"""A kind of content that a model can be given."""

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model may think, from not at all upward."""


def nearest_level(level: str, known: Collection[str]) -> str:
    """The level among `known` that is nearest to one of `LEVELS`; of two equally near ones the lower."""
    rank = LEVELS.index(level)
    return min((name for name in LEVELS if name in known), key=lambda name: abs(LEVELS.index(name) - rank))


@dataclass(frozen=True, slots=True)
class PriceStep:
    """The rates of a request with more than `above` input tokens, in US dollars per million tokens."""

    above: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class Pricing:
    """US dollars per million tokens. A cache rate of None means the input rate.

    `steps` are the rates of longer prompts, which hold for all tokens of such a request.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    steps: tuple[PriceStep, ...] = ()

    def cost(self, usage: Usage) -> float:
        """What one request costs in US dollars. Price steps make the sum of two requests' usage another matter."""
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
class Model:
    """A model that can be asked.

    `api` names the wire format. `api_key` overrides the environment and never shows in a repr. `identifier` names the
    variable `<IDENTIFIER>_API_KEY` for servers that are not the vendor's; with `has_api_key` False no key is sent.
    `context_window` and `max_output` are in tokens. `modalities` are the kinds of content it can be given,
    `thinking_levels` the levels of thinking it knows. What is None is unknown. `options` hold where a request names
    none. `alias` is the short name its user gave it. `settings` are the wire format's own.
    `auth` returns the credentials of each request in place of a key; it is never stored.
    """

    provider: str
    id: str
    api: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    identifier: str | None = None
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

    def __str__(self) -> str:
        return f"{self.provider}:{self.id}"

    def cost(self, usage: Usage | None) -> float | None:
        """What one request's usage costs in US dollars, None where usage or price is unknown."""
        return None if usage is None or self.pricing is None else self.pricing.cost(usage)

    def takes(self, modality: Modality) -> bool:
        """Whether the model can be given this kind of content; True where nobody knows."""
        return self.modalities is None or modality in self.modalities
