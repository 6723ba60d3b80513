"""What is known of a model: where it lives, which wire format it speaks, what it can take, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planck_nb.ai.messages import Usage


@dataclass(frozen=True, slots=True)
class Pricing:
    """US dollars per million tokens. A cache rate of None means the input rate."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """What the usage costs in US dollars."""
        plain = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        total = (
            plain * self.input
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
            + usage.output_tokens * self.output
        )
        return total / 1_000_000


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be asked.

    `api` names the wire format. `api_key` overrides the environment and never shows in a repr. `identifier` names the
    variable `<IDENTIFIER>_API_KEY` for servers that are not the vendor's; with `has_api_key` False no key is sent.
    `context_window` and `max_output` are in tokens, None where unknown. `settings` are the provider's own.
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

    def __str__(self) -> str:
        return f"{self.provider}:{self.id}"

    def cost(self, usage: Usage | None) -> float | None:
        """What the usage costs in US dollars, None where usage or price is unknown."""
        return None if usage is None or self.pricing is None else self.pricing.cost(usage)
