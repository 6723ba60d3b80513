"""Chooses the model for agents that are created without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planck_nb.ai.model_lookup.catalogue import by_name, discover, get_model
from planck_nb.ai.models import Model
from planck_nb.config import Config

WITH_KEY = (
    ("ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-6"),
    ("OPENAI_API_KEY", "openai", "gpt-5.4"),
    ("GOOGLE_API_KEY", "google", "gemini-3.8-flash"),
    ("GEMINI_API_KEY", "google", "gemini-3.8-flash"),
)
"""For each variable that may hold an API key, the provider and its model for everyday work."""

LOCAL = ("ollama", "llama_cpp")
"""Providers whose servers are looked for on their default ports."""

DEMO_NOTICE = (
    "No API key and no local model server were found, so the demo model answers, which is only a script. "
    "Set a key such as ANTHROPIC_API_KEY, or choose a model with `%planck model provider:model`."
)


async def choose_model(
    config: Config, environment: Mapping[str, str] | None = None, *, local: Sequence[str] = LOCAL
) -> tuple[Model, str]:
    """The model to use, and a notice for the user, which is empty if there is nothing to say.

    It is the configured model; otherwise that of the first provider with a key in the environment; otherwise the first
    model of an Ollama or llama.cpp server on its default port (`local`); otherwise the demo model.
    """
    if config.default_model:
        return paced(get_model(config.default_model, own=config.models), config), ""
    environment = config.environment() if environment is None else environment
    for variable, provider, model_id in WITH_KEY:
        if environment.get(variable):
            return get_model(provider, model_id, own=config.models), ""
    for provider in local:
        found = await discover(provider)
        if found:
            return by_name(config.models).get(str(found[0]), found[0]), ""
    return paced(get_model("demo"), config), DEMO_NOTICE


def paced(model: Model, config: Config) -> Model:
    """The model; a demo model streams at the configured pace."""
    if model.provider != "demo" or not config.demo_pace:
        return model
    settings = {"pace": config.demo_pace, **model.settings}
    return replace(model, settings=settings, found=model.found and replace(model.found, settings=settings))
