"""What is known of the models that exist: a generated snapshot for vendors, the servers themselves for local ones."""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any

from planck_nb.ai.models import Model, Pricing
from planck_nb.ai.providers import PROVIDERS, base_url_of, is_loopback, provider
from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import UnknownModelError, UnknownProviderError, did_you_mean

_DISCOVERY_TIMEOUT = 1.0
_TOO_CLOSE = 0.85
"""Ids more alike than this are taken for a slip of the pen."""

_LOCAL_MODELS = {"demo": ("demo", "script")}


def list_providers() -> list[str]:
    """The names of all providers."""
    return sorted(PROVIDERS)


def list_models(provider_name: str, *, base_url: str | None = None) -> list[Model]:
    """The models of a provider: the catalogue's, or for a local server those it reports within a second.

    A server that does not answer has none. Raises `UnknownProviderError`. In a coroutine, `discover` asks servers
    without holding up the event loop.
    """
    known = provider(provider_name)
    if known.discovered:
        return _ask_server(provider_name, base_url)
    return [
        get_model(provider_name, model_id, base_url=base_url)
        for model_id in (*_LOCAL_MODELS.get(provider_name, ()), *_snapshot().get(provider_name, {}))
    ]


async def discover(provider_name: str, base_url: str | None = None) -> list[Model]:
    """Like `list_models`, without holding up the event loop."""
    return await run_in_thread(lambda: list_models(provider_name, base_url=base_url))


def get_model(
    provider_name: str,
    model_id: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    identifier: str | None = None,
    has_api_key: bool = True,
    api: str | None = None,
) -> Model:
    """A model by provider and id, or by "provider:id".

    Ids that the catalogue does not know are used as they are, with an unknown context window and price, unless they
    look like a misspelt one: then `UnknownModelError` names it. A `base_url` switches that check off, because another
    server has other models. Raises `UnknownProviderError` for a provider that does not exist, `ConfigError` for a
    `base_url` that is not a URL.
    """
    if model_id is None:
        provider_name, _, model_id = provider_name.partition(":")
    if provider_name not in PROVIDERS and (found := _providers_of(provider_name)):
        raise UnknownProviderError(f"There is no provider {provider_name!r}. Did you mean {' or '.join(found)}?")
    known = provider(provider_name)
    model_id = _checked(provider_name, model_id, guess=base_url is None)
    row = _snapshot().get(provider_name, {}).get(model_id, {})
    model = Model(
        provider=provider_name,
        id=model_id,
        api=api or known.api,
        base_url=base_url,
        api_key=api_key,
        identifier=identifier,
        has_api_key=has_api_key,
        name=row.get("name", model_id),
        context_window=row.get("context"),
        max_output=row.get("output"),
        thinking=row.get("thinking", False),
        pricing=Pricing(*row["price"]) if "price" in row else None,
        settings=row.get("settings", {}),
    )
    if base_url is not None:
        base_url_of(model)
    return model


def _checked(provider_name: str, model_id: str, *, guess: bool) -> str:
    """The id, or the one that stands for none given. Raises `UnknownModelError`."""
    if local := _LOCAL_MODELS.get(provider_name):
        if model_id and model_id not in local:
            raise UnknownModelError(f"{provider_name} has no model {model_id!r}. {did_you_mean(model_id, local)}")
        return model_id or local[0]
    if model_id:
        ids = _snapshot().get(provider_name, {})
        near = get_close_matches(model_id, ids, n=3, cutoff=_TOO_CLOSE) if guess and model_id not in ids else []
        if near:
            raise UnknownModelError(f"{provider_name} has no model {model_id!r}. Did you mean {' or '.join(near)}?")
        return model_id
    if provider_name == "llama_cpp":
        return "default"  # its server answers with the one model it has loaded, whatever the request names
    raise UnknownModelError(f"Name a model of {provider_name}, as in {provider_name}:{_example(provider_name)}.")


def _example(provider_name: str) -> str:
    return next(reversed(_snapshot().get(provider_name, {})), "llama3.2")


def _providers_of(model_id: str) -> list[str]:
    """The "provider:id" names of a model given without its provider."""
    return [f"{name}:{model_id}" for name, table in _snapshot().items() if name in PROVIDERS and model_id in table]


@cache
def _snapshot() -> dict[str, dict[str, Any]]:
    text = resources.files("planck_nb.ai.data").joinpath("models.json").read_text(encoding="utf-8")
    providers: dict[str, dict[str, Any]] = json.loads(text)["providers"]
    return providers


def _ask_server(provider_name: str, base_url: str | None) -> list[Model]:
    """The models of a local server; none when it does not answer as it should."""
    template = get_model(provider_name, "any", base_url=base_url)
    root = base_url_of(template)
    try:
        if provider_name == "ollama":
            rows = _get(f"{root.removesuffix('/v1')}/api/tags")["models"]
            found = [(row["name"], None) for row in rows]
        else:
            rows = _get(f"{root}/models")["data"]
            found = [(row["id"], (row.get("meta") or {}).get("n_ctx_train")) for row in rows]
        return [
            Model(provider_name, model_id, template.api, base_url=base_url, name=model_id, context_window=window)
            for model_id, window in found
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _get(url: str) -> Any:  # noqa: ANN401 - somebody else's JSON
    """A JSON document, by the standard library: it is asked for where no event loop runs, too."""
    from urllib.request import ProxyHandler, Request, build_opener  # noqa: PLC0415 - loads much, needed rarely

    request = Request(url, headers={"accept": "application/json"})  # noqa: S310 - the user's own base_url
    opener = build_opener(ProxyHandler({})) if is_loopback(url) else build_opener()
    with opener.open(request, timeout=_DISCOVERY_TIMEOUT) as reply:
        return json.load(reply)
