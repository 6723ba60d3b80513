"""What a model takes from its provider: wire format, address, and the variable of its key."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import cast
from urllib.parse import urlsplit

from planck_nb.ai.auth import Auth
from planck_nb.ai.dialect import Dialect, LocalModel
from planck_nb.ai.models import Model
from planck_nb.ai.registry import REGISTRY, Provider, is_local
from planck_nb.ai.server_address import ServerAddress, is_loopback, server_address
from planck_nb.ai.server_rules import ServerRules
from planck_nb.base.errors import ConfigError, UnsupportedFeatureError


def provider(name: str) -> Provider:
    """The provider with this name. Raises `UnknownProviderError`, which suggests similar names."""
    return REGISTRY.provider(name)


def dialect(model: Model) -> Dialect:
    """The wire format of a model. Raises `UnsupportedFeatureError` if nothing speaks it."""
    found = REGISTRY.format(model.api)
    if is_local(found):
        raise UnsupportedFeatureError(f"{model.api!r} is not a wire format: its models need no server.")
    return cast("Dialect", found)


def local_model(model: Model) -> LocalModel | None:
    """The object that answers for a model that needs no server, None for a model that does."""
    found = REGISTRY.format(model.api)
    return cast("LocalModel", found) if is_local(found) else None


def needs_server(name: str) -> bool:
    """Whether the models of a provider are on a server."""
    return not is_local(REGISTRY.format(provider(name).api))


def auth_of(model: Model) -> Auth | None:
    """The function that returns the credentials of the model's requests, None if it has an API key or nothing.

    The provider's own function is not used for a server without a key, or with a key of its own.
    """
    if model.auth is not None or model.key_variable is not None or not model.has_api_key:
        return model.auth
    return provider(model.provider).auth


def base_url_of(model: Model) -> str:
    """The address that paths such as `/chat/completions` are added to, without a slash at its end.

    Args:
        model: A model on a server.

    Returns:
        The address, without a user name, password or query.

    Raises:
        ConfigError: Its address is not an HTTP URL, or it has none.
        UnknownProviderError: Its provider does not exist.
    """
    return request_address(model).url


def has_address(model: Model) -> bool:
    """Tell if a model is on a server, unlike the demo model."""
    return bool(model.base_url or provider(model.provider).base_url)


def request_address(model: Model) -> ServerAddress:
    """`base_url_of`, plus what every request carries: the query of the address, and its user and password.

    Raises `ConfigError`.
    """
    return _address(REGISTRY.revision, model.provider, model.base_url, model.api)


@lru_cache(1_000)  # each request needs it many times
def _address(_revision: int, name: str, base_url: str | None, api: str) -> ServerAddress:
    known = provider(name)
    url = known.base_url if base_url is None else base_url
    if url is None:
        raise ConfigError(f"{name} has no address of its own; give base_url, the address of your server.")
    if known.api == "ollama" and "://" not in url and url.strip():
        url = f"http://{url}"  # as in the variable OLLAMA_HOST
    return _address_of_api(url, known.path, is_own_server(known) or api == "messages", api == "ollama")


def lists_many(name: str) -> bool:
    """Return true for a vendor which lists its models, perhaps hundreds."""
    entry = provider(name)
    return entry.discovered and not is_own_server(entry)


def is_own_server(entry: Provider) -> bool:
    """Return true for servers which people run themselves."""
    return entry.discovered and not entry.needs_key


def _address_of_api(given: str, path: str, always: bool, native: bool) -> ServerAddress:
    """The address of the API: `path` is added unless `given` ends in /v1, or has a path and `always` is false.

    Ollama's own (`native`) API is not below the path of the OpenAI-compatible one.
    """
    address = server_address(given)
    url = address.url
    whole = url if url.endswith("/v1") or (urlsplit(url).path and not always) else f"{url}{path}"
    return replace(address, url=whole.removesuffix("/v1") if native else whole)


def is_first_party(model: Model) -> bool:
    """Whether the model is at its vendor's own address."""
    return model.base_url is None or base_url_of(model) == provider(model.provider).base_url


def rules_of(model: Model) -> ServerRules:
    """The rules for a model's server: its own, or its provider's."""
    return model.rules or _rules(REGISTRY.revision, model.provider, model.base_url, model.api)


@lru_cache(1_000)  # each request needs them many times
def _rules(_revision: int, name: str, base_url: str | None, api: str) -> ServerRules:
    entry = provider(name)
    if entry.foreign_rules is None or is_first_party(Model(name, "", api, base_url=base_url)):
        return entry.rules
    return entry.foreign_rules


def same_host(model: Model, url: str) -> bool:
    """Compare a model's address with another HTTPS host. Raises `ConfigError`."""
    ours, theirs = urlsplit(base_url_of(model)), urlsplit(url)
    return ours.scheme == "https" and (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)


def api_of(name: str, base_url: str | None) -> str:
    """The wire format that a provider has at this address, unless a model names another."""
    known = provider(name)
    if known.foreign_api is None or is_first_party(Model(name, "", known.api, base_url=base_url)):
        return known.api
    return known.foreign_api


def may_cost(model: Model) -> bool:
    """Return true if somebody may charge for a model's replies.

    A server on this machine does not, unless it reports prices. Raises `ConfigError` for an unusable address.
    """
    if model.unavailable is not None:
        return False
    if rules_of(model).cost is not None:
        return needs_server(model.provider)
    return _is_elsewhere(REGISTRY.revision, model.provider, model.base_url, model.api)


@lru_cache(1_000)
def _is_elsewhere(_revision: int, name: str, base_url: str | None, api: str) -> bool:
    """Return true for a server on another machine."""
    return needs_server(name) and not is_loopback(base_url_of(Model(name, "", api, base_url=base_url)))


def key_variables_of(model: Model) -> tuple[str, ...]:
    """The environment variables that may hold the model's key, the one to name in messages first."""
    if model.key_variable:
        return (model.key_variable,)
    return provider(model.provider).key_variables
