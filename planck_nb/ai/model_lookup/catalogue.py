"""Finds models in a snapshot, on local servers, and in user files.

The snapshot is generated and has the vendors' models.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from planck_nb.ai.auth import Auth
from planck_nb.ai.model_lookup import discovery
from planck_nb.ai.models import Model, PriceStep, Pricing, as_found
from planck_nb.ai.providers import (
    api_of,
    auth_of,
    base_url_of,
    is_first_party,
    key_variables_of,
    provider,
)
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.server_address import is_readable_in_transit
from planck_nb.base.errors import UnknownModelError, UnknownProviderError, did_you_mean
from planck_nb.base.secrets import remember_secret
from planck_nb.base.threads import run_in_thread

MAX_SIMILARITY = 0.85
"""An id that is more similar than this to a known one is taken for a typo."""

_own: dict[str, Model] = {}
"""The models of `add_models`, by the names of `by_name`."""


def list_providers() -> list[str]:
    """List the names of all providers: built in, registered, or from installed packages.

    Returns:
        The names in alphabetical order. A package whose provider cannot be loaded is left out with a warning.

    Example:
        >>> from planck_nb import ai
        >>> {"anthropic", "demo", "ollama"} <= set(ai.list_providers())
        True
    """
    return [known.name for known in REGISTRY.load_all()]


def add_models(models: Iterable[Model]) -> None:
    """Make your own models known to `get_model` and `list_models` in the whole process.

    A workspace uses those of its configuration without adding them here.

    Args:
        models: Models, found by their `alias`, and as "provider:id" if they are at their vendor's own address.
    """
    _own.update(by_name(models))


def by_name(models: Iterable[Model]) -> dict[str, Model]:
    """Index a user's models by their `alias`, and as "provider:id" if they are at their vendor's own address.

    A model of another server has its alias only, so that nothing that was meant for a vendor goes elsewhere.
    """
    found: dict[str, Model] = {}
    for model in models:
        if model.alias:
            found[model.alias] = model
        if is_first_party(model):
            found[str(model)] = model
    return found


def list_models(provider_name: str, *, base_url: str | None = None, api_key: str | None = None) -> list[Model]:
    """List the models of a provider: your own, and those of the catalogue or of the server.

    Servers are asked, for at most two seconds, if they list their models and the key that they need is set, or for
    "openai" at another `base_url`. In a coroutine, `discover` does so without blocking the event loop.

    Args:
        provider_name: The name of the provider.
        base_url: The address of the server, None for the provider's own.
        api_key: The key for that server; by default the one that requests to it would use, from the environment.

    Returns:
        The models; none for a server that does not answer.

    Raises:
        UnknownProviderError: There is no such provider.
        ConfigError: The address is not a URL, or the key is not a string.

    Example:
        >>> from planck_nb import ai
        >>> [str(model) for model in ai.list_models("demo")]
        ['demo:demo', 'demo:script']
    """
    known = provider(provider_name)
    own = {model.alias or model.id: model for model in _own.values() if model.provider == provider_name}
    template = Model(provider_name, "", api_of(provider_name, base_url), base_url=base_url, api_key=api_key)
    if known.discovered or (known.foreign_api is not None and not is_first_party(template)):
        key = _key_for_listing(template)
        can_ask = key is not None or not known.needs_key or template.base_url is not None
        found = [as_found(model) for model in discovery.models_of(template, key)] if can_ask else []
    else:
        ids = (*known.models, *_snapshot().get(provider_name, {}))
        found = [get_model(provider_name, model_id, base_url=base_url, api_key=api_key) for model_id in ids]
    mine = [] if base_url else list(own.values())
    taken = {model.id for model in mine if model.base_url is None}
    return [*mine, *(model for model in found if model.id not in taken)]


def _key_for_listing(template: Model) -> str | None:
    """The key that requests to the server use, None if there is none or it is computed for each request."""
    if template.api_key or auth_of(template) is not None:
        key = (template.api_key or "").strip()
    else:
        key = next(filter(None, (os.environ.get(name, "").strip() for name in key_variables_of(template))), "")
    if not key or not (key.isascii() and key.isprintable()):
        return None
    remember_secret(key, "key")
    if is_readable_in_transit(base_url_of(template)):
        warnings.warn(
            f"The key for {base_url_of(template)} is sent without encryption, and others on the network can read it; "
            "use https://, or a tunnel to this machine.",
            stacklevel=3,
        )
    return key


async def discover(provider_name: str, base_url: str | None = None, *, api_key: str | None = None) -> list[Model]:
    """List the models of a provider like `list_models`, without blocking the event loop.

    Args:
        provider_name: The name of the provider.
        base_url: The address of the server, None for the provider's own.
        api_key: The key for that server; by default the one that requests to it would use, from the environment.

    Returns:
        The models; none for a server that does not answer.

    Raises:
        UnknownProviderError: There is no such provider.
        ConfigError: The address is not a URL, or the key is not a string.
    """
    return await run_in_thread(lambda: list_models(provider_name, base_url=base_url, api_key=api_key))


def get_model(
    provider_name: str,
    model_id: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    key_variable: str | None = None,
    has_api_key: bool = True,
    api: str | None = None,
    auth: Auth | None = None,
    own: Iterable[Model] = (),
) -> Model:
    """Find a model by provider and id, by "provider:id", or by the alias of one of your own models.

    An id that the catalogue does not know is used as it is, with an unknown context window and price, unless it looks
    like a typo. With a `base_url` there is no such check, because another server has other models and prices.

    Args:
        provider_name: The name of the provider, "provider:id", or an alias.
        model_id: The id at the provider.
        base_url: The address of the server, None for the provider's own.
        api_key: The API key, instead of the environment's.
        key_variable: The environment variable to read the key from, instead of the provider's.
        has_api_key: Whether to send a key.
        api: The wire format: "chat", "responses", "messages", "generate_content", "interactions", "ollama", or one that
            was registered; by default the provider's.
        auth: A function that returns the headers with the credentials of each request, called for every attempt. It
            gets an `OutgoingRequest`, may be async, and replaces the API key.
        own: A user's models, to look up before those of `add_models`.

    Returns:
        The model.

    Raises:
        UnknownProviderError: There is no such provider.
        UnknownModelError: The id is missing, or looks like a typo.
        ConfigError: `base_url` is not a URL, or `api_key` is not a string.

    Example:
        >>> from planck_nb import ai
        >>> ai.get_model("anthropic:claude-sonnet-4-6").context_window
        1000000
    """
    mine = {**_own, **by_name(own)}
    described = mine.get(provider_name if model_id is None else f"{provider_name}:{model_id}")
    if described is not None and base_url in {None, described.base_url}:
        return replace(
            described,
            api=api or described.api,
            api_key=api_key or described.api_key,
            key_variable=key_variable or described.key_variable,
            auth=auth or described.auth,
            has_api_key=has_api_key and bool(described.has_api_key or api_key or key_variable),
            found=replace(described, found=None),
        )
    if model_id is None:
        provider_name, _, model_id = provider_name.partition(":")
    if REGISTRY.find(provider_name) is None and (
        found := [*full_names(provider_name), *_near_aliases(provider_name, mine)]
    ):
        raise UnknownProviderError(f"There is no provider {provider_name!r}. Did you mean {' or '.join(found)}?")
    provider(provider_name)
    model_id = _checked(provider_name, model_id, guess=base_url is None)
    model = replace(
        catalogued(provider_name, model_id),
        api=api or api_of(provider_name, base_url),
        base_url=base_url,
        api_key=api_key,
        key_variable=key_variable,
        has_api_key=has_api_key,
        auth=auth,
    )
    return as_found(model if is_first_party(model) else replace(model, pricing=None))


def with_alias(alias: str, own: Iterable[Model] = ()) -> Model | None:
    """The user's model with this alias, None if there is none.

    Args:
        alias: The alias.
        own: A user's models, to look up before those of `add_models`.
    """
    described = {**_own, **by_name(own)}.get(alias)
    return None if described is None or described.alias != alias else as_found(described)


def catalogued(provider_name: str, model_id: str) -> Model:
    """A model at its vendor's own address, with the facts of the snapshot."""
    return _catalogued(provider_name, model_id, provider(provider_name).api)


@lru_cache  # each new agent needs it, to describe its model
def _catalogued(provider_name: str, model_id: str, api: str) -> Model:
    row = _snapshot().get(provider_name, {}).get(model_id)
    if row is None:
        return Model(provider_name, model_id, api, name=model_id)
    steps = tuple(PriceStep(*step) for step in row.get("steps", ()))
    return Model(
        provider=provider_name,
        id=model_id,
        api=api,
        name=row["name"],
        context_window=row["context"],
        max_output=row["output"],
        modalities=tuple(row["modalities"]),
        thinking=bool(row["thinking"]),
        thinking_levels=tuple(row["thinking"]),
        pricing=replace(Pricing(*row["price"]), steps=steps) if "price" in row else None,
        settings=row.get("settings", {}),
    )


def _checked(provider_name: str, model_id: str, *, guess: bool) -> str:
    """The id, or the default one if it is empty. Raises `UnknownModelError`."""
    known = provider(provider_name)
    if not model_id and known.default_model is not None:
        return known.default_model
    if known.models:
        if model_id not in known.models:
            raise UnknownModelError(
                f"{provider_name} has no model {model_id!r}. {did_you_mean(model_id, known.models)}"
            )
        return model_id
    if model_id:
        ids = _snapshot().get(provider_name, {})
        near = get_close_matches(model_id, ids, n=3, cutoff=MAX_SIMILARITY) if guess and model_id not in ids else []
        if near:
            raise UnknownModelError(f"{provider_name} has no model {model_id!r}. Did you mean {' or '.join(near)}?")
        return model_id
    raise UnknownModelError(f"Name a model of {provider_name}, as in {provider_name}:{_example(provider_name)}.")


def _example(provider_name: str) -> str:
    own = [model.alias or model.id for model in _own.values() if model.provider == provider_name]
    listed = next(reversed(_snapshot().get(provider_name, {})), None)
    return listed or next(iter(own), "llama3.2" if provider_name == "ollama" else "NAME")


def full_names(model_id: str) -> list[str]:
    """Return the "provider:id" names for a model's id."""
    return [f"{name}:{model_id}" for name, table in _snapshot().items() if model_id in table]


def _near_aliases(name: str, mine: Iterable[str]) -> list[str]:
    """Aliases of the user's models that are similar to the name."""
    return get_close_matches(name, [alias for alias in mine if ":" not in alias], n=3, cutoff=MAX_SIMILARITY)


@cache
def _snapshot() -> dict[str, dict[str, Any]]:
    text = resources.files("planck_nb.ai.model_lookup.data").joinpath("models.json").read_text(encoding="utf-8")
    providers: dict[str, dict[str, Any]] = json.loads(text)["providers"]
    return providers
