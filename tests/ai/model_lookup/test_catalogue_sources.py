"""The catalogue, held against a second source that knows nothing of the first."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import data
from genai_prices.types import ModelPrice, TieredPrices

from planck_nb import ai

VENDORS = ("anthropic", "google", "openai")
TODAY = datetime.now(UTC)

PRICES_DIFFER = {
    "anthropic:claude-sonnet-4-5": "the other source keeps the steps of a long-context trial that has ended",
    "anthropic:claude-sonnet-4-5-20250929": "as above",
    "google:gemini-flash-latest": "an alias; the other source takes it for another model",
    "google:gemini-flash-lite-latest": "as above",
}
WINDOWS_DIFFER = {"openai:gpt-5-chat-latest": "the other source takes it for gpt-5"}
WITHOUT_WINDOW = {"google:gemini-2.5-pro", "google:gemini-3.1-pro-preview"}
"""The other source names none for these."""

COMMON = {
    *("anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-4-6", "anthropic:claude-opus-4-8"),
    *("anthropic:claude-opus-5-5", "anthropic:claude-fable-5-2", "anthropic:claude-haiku-5-5"),
    *("openai:gpt-4.1", "openai:gpt-4o", "openai:gpt-5", "openai:gpt-5.4", "openai:gpt-6.1-sol"),
    *("google:gemini-2.5-flash", "google:gemini-2.5-pro", "google:gemini-3.1-pro-preview"),
}
FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


def pairs() -> list[tuple[ai.Model, ModelPrice, int | None]]:
    """Our models, and what the other source says of those that it knows."""
    found: list[tuple[ai.Model, ModelPrice, int | None]] = []
    for vendor in VENDORS:
        (other,) = [provider for provider in data.providers if provider.id == vendor]
        known = [(model, other.find_model(model.id)) for model in ai.list_models(vendor)]
        found += [(model, info.get_prices(TODAY), info.context_window) for model, info in known if info]
    return found


def steps(price: Decimal | TieredPrices | None) -> list[tuple[int, float | None]]:
    """A rate and those of its steps, by the input tokens above which they hold."""
    if isinstance(price, TieredPrices):
        return [(0, float(price.base)), *((tier.start, float(tier.price)) for tier in price.tiers)]
    return [(0, None if price is None else float(price))]


def ours(pricing: ai.Pricing, field: str) -> list[tuple[int, float | None]]:
    later = [(step.above, getattr(step, field)) for step in pricing.steps]
    return [(0, getattr(pricing, field)), *((above, rate) for above, rate in later if rate is not None)]


def test_two_sources_agree_on_prices() -> None:
    compared, differing = set(), {}
    for model, other, _ in pairs():
        if model.pricing is None:
            continue
        compared.add(str(model))
        wrong = [
            (field, ours(model.pricing, field), steps(getattr(other, name, None)))
            for field, name in FIELDS.items()
            if ours(model.pricing, field) != steps(getattr(other, name, None))
        ]
        if wrong:
            differing[str(model)] = wrong
    assert compared >= COMMON
    assert not {name: wrong for name, wrong in differing.items() if name not in PRICES_DIFFER}


def test_two_sources_agree_on_context_windows() -> None:
    compared, differing = set(), {}
    for model, _, window in pairs():
        if window is None:
            continue
        compared.add(str(model))
        # The other source rounds: 1,048,576 is a million there.
        if model.context_window != pytest.approx(window, rel=0.05):
            differing[str(model)] = (model.context_window, window)
    assert compared >= COMMON - WITHOUT_WINDOW
    assert differing.keys() == WINDOWS_DIFFER.keys()


def test_prices_rise_with_the_prompt() -> None:
    model = ai.get_model("google:gemini-2.5-pro")
    assert model.cost(ai.Usage(200_000, 1_000)) == pytest.approx(0.2 * 1.25 + 0.001 * 10)
    assert model.cost(ai.Usage(200_001, 1_000)) == pytest.approx(0.200001 * 2.5 + 0.001 * 15)
    assert model.cost(ai.Usage(300_000, 0, cache_read_tokens=100_000)) == pytest.approx(0.2 * 2.5 + 0.1 * 0.25)


def test_what_is_unknown_is_none() -> None:
    free = ai.get_model("google:gemma-4-31b-it")
    assert free.pricing is None
    assert free.cost(ai.Usage(1, 1)) is None
    unknown = ai.get_model("anthropic:claude-nova-9")
    assert (unknown.context_window, unknown.modalities, unknown.thinking_levels) == (None, None, None)
    assert unknown.takes("pdf")
    for vendor in VENDORS:
        for model in ai.list_models(vendor):
            assert model.pricing is None or model.pricing.input > 0
            assert model.pricing is None or model.pricing.cache_read != 0


def test_what_models_take_and_how_they_think() -> None:
    opus = ai.get_model("anthropic:claude-opus-5-5")
    assert opus.modalities == ("text", "image", "pdf")
    assert opus.thinking_levels is not None
    assert "off" not in opus.thinking_levels
    assert "max" in opus.thinking_levels
    assert ai.get_model("openai:gpt-4.1").thinking_levels == ()
    assert not ai.get_model("openai:gpt-4").takes("image")
