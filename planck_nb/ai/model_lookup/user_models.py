"""Models that a user describes: other vendors' servers, short names, custom prices and defaults.

The description is data, from a JSON or TOML file for instance. An entry that cannot be used is left out with a sentence
that gives the reason; the rest stays. The format is in this package's README.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from planck_nb.ai.model_lookup.catalogue import MAX_SIMILARITY, catalogued
from planck_nb.ai.models import Modality, Model, PriceStep, Pricing, as_found
from planck_nb.ai.providers import (
    api_of,
    base_url_of,
    dialect,
    is_first_party,
    key_variables_of,
    needs_server,
    same_host,
)
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.request import Options
from planck_nb.base.errors import PlanckError, did_you_mean

if TYPE_CHECKING:
    from planck_nb.ai.model_lookup.user_model_entry import DefaultOptions, Price, UserModelEntry

_MODALITIES: tuple[Modality, ...] = get_args(Modality)
_SERVER_KEYS = ("base_url", "identifier", "has_api_key", "api")


@dataclass(frozen=True, slots=True)
class UserModels:
    """The models of a description that can be used, and a sentence about each part of it that cannot."""

    models: tuple[Model, ...] = ()
    warnings: tuple[str, ...] = ()


class _UnusableEntryError(Exception):
    """The reason why an entry is left out."""


def read_models(data: object, where: str = "the models file") -> UserModels:
    """The models that `data` describes. `where` names it in the warnings."""
    if not isinstance(data, Mapping) or not isinstance(data.get("models", []), Sequence):
        return UserModels(warnings=(f"{where} was not used: it must contain a list `models`.",))
    servers = data.get("providers", {})
    if not isinstance(servers, Mapping):
        return UserModels(warnings=(f"{where} was not used: its `providers` must be a table by name.",))
    models: dict[str, Model] = {}
    warnings: list[str] = []
    for number, entry in enumerate(data.get("models", []), 1):
        name = entry.get("id") if isinstance(entry, Mapping) else None
        label = f"Model {name!r} of {where}" if isinstance(name, str) and name else f"Model {number} of {where}"
        remarks: list[str] = []
        try:
            model = _model(entry, servers, remarks.append)
        except _UnusableEntryError as error:
            warnings.append(_sentence(f"{label} was left out: {error}"))
            continue
        warnings += [_sentence(f"{label}: {remark}") for remark in remarks]
        if model.alias in models:
            warnings.append(f"{label} was left out: another one has this id.")
        else:
            models[model.alias] = as_found(model)
    return UserModels(tuple(models.values()), tuple(warnings))


def describe_model(model: Model) -> str:
    """Describe a model's servers, keys and defaults completely.

    Args:
        model: One from `read_models`.

    Returns:
        Lines: the address as written, the key's variable with the host that gets it, and each default.
    """
    url = base_url_of(model)
    host = urlsplit(url).hostname or url
    lines = [f"{model.provider}:{model.id}, at {model.base_url or url}"]
    if model.has_api_key and (variables := key_variables_of(model)):
        lines.append(f"gets the key {' or '.join(variables)} from your environment, sent to {host}")
    lines += [f"{name} = {value!r}" for name, value in model.options.named().items()]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _model(data: object, servers: Mapping[str, Any], warn: Callable[[str], None]) -> Model:
    entry, provider = _checked(data, servers)
    for key in entry.unknown:
        warn(f"{key!r} is not known and was not used. {did_you_mean(key, type(entry).model_fields)}")
    if entry.id.partition(":")[0] in REGISTRY.names():
        raise _UnusableEntryError("a provider has this name; choose another id")
    base = catalogued(provider, entry.model or entry.id)
    model = replace(
        base,
        alias=entry.id,
        name=entry.name or base.name,
        base_url=entry.base_url,
        key_variable=f"{entry.identifier.upper()}_API_KEY" if entry.identifier else None,
        context_window=entry.context_window or base.context_window,
        max_output=entry.max_output or base.max_output,
        pricing=_pricing(entry.price) if entry.price else base.pricing,
        options=_options(entry.options, warn),
    )
    if entry.thinking is not None:
        levels = (base.thinking_levels or None) if entry.thinking else ()
        model = replace(model, thinking=entry.thinking, thinking_levels=levels)
    if entry.modalities is not None:
        model = replace(model, modalities=_modalities(entry.modalities, warn))
    try:
        model = replace(model, api=entry.api or api_of(provider, entry.base_url))
        base_url_of(model)
        dialect(model)
    except PlanckError as error:
        raise _UnusableEntryError(str(error)) from None
    if is_first_party(model):
        return replace(model, has_api_key=entry.has_api_key is not False)
    return replace(model, pricing=model.pricing if entry.price else None, has_api_key=_has_own_key(model, entry))


def _checked(data: object, servers: Mapping[str, Any]) -> tuple[UserModelEntry, str]:
    """A valid entry with the facts of its server, and the name of its provider."""
    from pydantic import ValidationError  # noqa: PLC0415 - loads much, and few users have a models file

    from planck_nb.ai.model_lookup.user_model_entry import UserModelEntry, reason  # noqa: PLC0415 - as above

    if not isinstance(data, Mapping):
        raise _UnusableEntryError("it must be a table")
    given = {str(key): value for key, value in data.items() if value is not None}
    try:
        provider, server = _server(UserModelEntry.model_validate(given).provider, servers)
        return UserModelEntry.model_validate({**server, **given}), provider
    except ValidationError as error:
        raise _UnusableEntryError(reason(error)) from None


def _has_own_key(model: Model, entry: UserModelEntry) -> bool:
    """Whether a server that is not the vendor's gets a key: one of its own only, never a provider's."""
    has_key = model.key_variable is not None if entry.has_api_key is None else entry.has_api_key
    if has_key and model.key_variable is None:
        raise _UnusableEntryError("the key of a server of its own needs an `identifier`")
    if has_key:
        (variable,) = key_variables_of(model)
        owners = [known for known in REGISTRY.load_all() if variable in known.key_variables]
        if owners and all(known.base_url is None or not same_host(model, known.base_url) for known in owners):
            raise _UnusableEntryError(f"{variable} is not for the server at its base_url; choose another identifier")
    return has_key


def _server(name: str, servers: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The provider that an entry names, and what the file holds about its server."""
    if name not in servers:
        if not _is_usable(name):
            known = [*servers, *filter(_is_usable, REGISTRY.names())]
            raise _UnusableEntryError(f"there is no provider {name!r}. {did_you_mean(name, known)}")
        return name, {}
    server = servers[name]
    if not isinstance(server, Mapping):
        raise _UnusableEntryError(f"its provider {name!r} must be a table")
    kind = server.get("type", name)
    if not isinstance(kind, str) or not _is_usable(kind):
        raise _UnusableEntryError(f"the type of its provider {name!r} is {kind!r}, which is not a provider")
    return kind, {key: server[key] for key in _SERVER_KEYS if server.get(key) is not None}


def _is_usable(name: str) -> bool:
    return REGISTRY.find(name) is not None and needs_server(name)


def _modalities(given: Sequence[str], warn: Callable[[str], None]) -> tuple[Modality, ...]:
    for kind in given:
        if kind not in _MODALITIES:
            warn(f"modality {kind!r} is not known and was not used")
    return tuple(kind for kind in _MODALITIES if kind in given) or ("text",)


def _pricing(price: Price) -> Pricing:
    return Pricing(*price.rates, steps=tuple(PriceStep(step.above, *step.rates) for step in price.steps))


def _options(options: DefaultOptions, warn: Callable[[str], None]) -> Options:
    """The options. Those for the server, such as `top_k`, are request fields."""
    names = type(options).model_fields
    extra: dict[str, Any] = {}
    for name in options.unknown:
        value = (options.model_extra or {})[name]
        if get_close_matches(name, names, n=1, cutoff=MAX_SIMILARITY):
            warn(f"option {name!r} is not known and was not used. {did_you_mean(name, names)}")
        elif name == "extra_body":  # as in OpenAI's SDK
            if isinstance(value, Mapping):
                extra.update(value)
            else:
                warn("option 'extra_body' was not used: it must be a table")
        else:
            extra[name] = value
    result = Options(**options.model_dump(include=options.model_fields_set - set(options.unknown)))
    return replace(result, extra={**extra, **result.extra}) if extra else result
