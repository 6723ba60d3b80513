"""The providers, as data: a new one is a row here and, where it has its own wire format, one module.

A provider is a name with defaults; a dialect is the wire format it speaks. Dialects load on first use.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import cast
from urllib.parse import urlsplit

from planck_nb.ai.dialect import Dialect, LocalModel
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError, UnknownProviderError, UnsupportedFeatureError, did_you_mean


@dataclass(frozen=True, slots=True)
class Provider:
    """What holds for all models of a provider unless a model says otherwise.

    `api` is the wire format, `foreign_api` the one at addresses that are not the vendor's own where it differs; a
    `local` provider answers without a server and has none. `key_variable` is the
    environment variable that holds its key, `other_key_variable` a second name that its users know. A provider that is
    `discovered` is asked for its models; the others are in the catalogue.
    """

    api: str
    base_url: str | None = None
    key_variable: str | None = None
    other_key_variable: str | None = None
    needs_key: bool = False
    discovered: bool = False
    local: bool = False
    foreign_api: str | None = None


PROVIDERS = {
    "anthropic": Provider("messages", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", needs_key=True),
    "openai": Provider("responses", "https://api.openai.com/v1", "OPENAI_API_KEY", needs_key=True, foreign_api="chat"),
    "google": Provider(
        "generate_content",
        "https://generativelanguage.googleapis.com/v1beta",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        needs_key=True,
    ),
    "ollama": Provider("ollama", "http://127.0.0.1:11434", "OLLAMA_API_KEY", discovered=True),
    "llama_cpp": Provider("chat", "http://127.0.0.1:8080/v1", "LLAMA_CPP_API_KEY", discovered=True),
    "demo": Provider("demo", local=True),
}

_DIALECTS = {
    "chat": "planck_nb.ai.dialects.openai_chat:DIALECT",
    "responses": "planck_nb.ai.dialects.openai_responses:DIALECT",
    "messages": "planck_nb.ai.dialects.anthropic_messages:DIALECT",
    "ollama": "planck_nb.ai.dialects.ollama:DIALECT",
    "generate_content": "planck_nb.ai.dialects.google_generate_content:DIALECT",
    "interactions": "planck_nb.ai.dialects.google_interactions:DIALECT",
}

_LOCAL = {
    "demo": "planck_nb.ai.dialects.demo:DEMO",
}


def provider(name: str) -> Provider:
    """The provider of this name. Raises `UnknownProviderError` that suggests the nearest ones."""
    try:
        return PROVIDERS[name]
    except KeyError:
        raise UnknownProviderError(f"There is no provider {name!r}. {did_you_mean(name, PROVIDERS)}") from None


def dialect(model: Model) -> Dialect:
    """The wire format of a model. Raises `UnsupportedFeatureError` when nobody speaks it."""
    if model.api not in _DIALECTS:
        raise UnsupportedFeatureError(f"There is no wire format {model.api!r}. {did_you_mean(model.api, _DIALECTS)}")
    return cast("Dialect", _load(_DIALECTS[model.api]))


def local_model(model: Model) -> LocalModel | None:
    """What answers for a model that needs no server, None for one that does."""
    return cast("LocalModel", _load(_LOCAL[model.api])) if model.api in _LOCAL else None


@lru_cache
def _load(target: str) -> object:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def base_url_of(model: Model) -> str:
    """The address that paths such as `/chat/completions` are added to, without a slash at its end.

    Raises `ConfigError` for one that is not an HTTP URL.
    """
    known = provider(model.provider)
    url = model.base_url or known.base_url or ""
    if known.api == "ollama" and "://" not in url:
        url = f"http://{url}"  # as the variable OLLAMA_HOST has it
    version = "v1beta" if model.provider == "google" else "v1"
    url = _versioned(url, version, always=known.discovered or model.api == "messages")
    return url.removesuffix("/v1") if model.api == "ollama" else url


@lru_cache
def _versioned(url: str, version: str, *, always: bool) -> str:
    """The URL with its version: where it has no path at all, and always where the server is known to have one."""
    url = url.rstrip("/")
    try:
        split = urlsplit(url)
        valid = split.scheme in {"http", "https"} and bool(split.hostname)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"{url!r} is not the address of a server; write base_url as in http://127.0.0.1:8080/v1.")
    if url.endswith("/v1") or (split.path and not always):
        return url
    return f"{url}/{version}"


def address_of(model: Model) -> str:
    """`base_url_of` as messages may show it: without a name and password in it."""
    url = base_url_of(model)
    split = urlsplit(url)
    return split._replace(netloc=split.netloc.rpartition("@")[2]).geturl()


def is_first_party(model: Model) -> bool:
    """Whether the model is asked at its vendor's own address."""
    return model.base_url is None or base_url_of(model) == PROVIDERS[model.provider].base_url


def api_of(name: str, base_url: str | None) -> str:
    """The wire format that is spoken to a provider at this address unless a model names another."""
    known = provider(name)
    if known.foreign_api is None or is_first_party(Model(name, "", known.api, base_url=base_url)):
        return known.api
    return known.foreign_api


def key_variable_of(model: Model) -> str | None:
    """The environment variable that holds the model's key."""
    if model.identifier:
        return f"{model.identifier.upper()}_API_KEY"
    return provider(model.provider).key_variable


@lru_cache
def is_loopback(url: str) -> bool:
    """Whether a URL points to this machine."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.endswith(".localhost") or host.startswith("127.") or host == "::1"
