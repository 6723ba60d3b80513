"""Models that a user describes: servers of other makers, short names, prices and defaults of one's own.

The description is data, from a JSON or TOML file for instance. An entry that cannot be used is left out with a sentence
that says why; the rest stays. The format is in this package's README.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from planck_nb.ai.catalogue import catalogued
from planck_nb.ai.models import LEVELS, Modality, Model, PriceStep, Pricing
from planck_nb.ai.providers import PROVIDERS, api_of, base_url_of, dialect, is_first_party, key_variable_of
from planck_nb.ai.request import Options
from planck_nb.base.errors import PlanckError, did_you_mean

_IDENTIFIER = re.compile(r"[A-Z][A-Z0-9_]*")
_VENDORS_VARIABLES = {name for row in PROVIDERS.values() for name in (row.key_variable, row.other_key_variable)}
_MODALITIES = ("text", "image", "pdf")

_OTHER_SPELLINGS = {
    "max_tokens": "max_output",
    "supports_thinking": "thinking",
    "input_types": "modalities",
    "params": "options",
    "default_opts": "options",
    "cost": "price",
}

_SERVER_KEYS = ("base_url", "identifier", "has_api_key", "api")
_KEYS = frozenset(
    {
        *("id", "model", "provider", "name", "context_window", "max_output", "thinking", "modalities", "price"),
        *("options", *_SERVER_KEYS),
    }
)


@dataclass(frozen=True, slots=True)
class UserModels:
    """The models of a description that can be used, and a sentence about each thing in it that cannot."""

    models: tuple[Model, ...] = ()
    warnings: tuple[str, ...] = ()


class _Unusable(Exception):
    """Why an entry is left out."""


def read_models(data: object, where: str = "the models file") -> UserModels:
    """The models that `data` describes. `where` names it in the warnings."""
    if not isinstance(data, Mapping) or not isinstance(data.get("models", []), Sequence):
        return UserModels(warnings=(f"{where} was not used: it must hold a list `models`.",))
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
        except _Unusable as reason:
            warnings.append(_sentence(f"{label} was left out: {reason}"))
            continue
        warnings += [_sentence(f"{label}: {remark}") for remark in remarks]
        if model.alias in models:
            warnings.append(f"{label} was left out: another one has this id.")
        else:
            models[model.alias] = model
    return UserModels(tuple(models.values()), tuple(warnings))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _model(entry: object, servers: Mapping[str, Any], warn: Callable[[str], None]) -> Model:
    if not isinstance(entry, Mapping):
        raise _Unusable("it must be a table")
    given = {_OTHER_SPELLINGS.get(str(key), str(key)): value for key, value in entry.items() if value is not None}
    for key in sorted(given.keys() - _KEYS):
        warn(f"{key!r} is not known and was not used. {did_you_mean(key, _KEYS)}")
    alias = _text(given, "id")
    if alias.partition(":")[0] in PROVIDERS:
        raise _Unusable("a provider has this name; choose another id")
    provider, server = _server(_text(given, "provider"), servers)
    given = {**server, **given}
    base_url = _text(given, "base_url") if "base_url" in given else None
    base = catalogued(provider, _text(given, "model") if "model" in given else alias)
    model = replace(
        base,
        alias=alias,
        name=_text(given, "name") if "name" in given else base.name,
        base_url=base_url,
        identifier=_identifier(given),
        api=_text(given, "api") if "api" in given else "",
        context_window=_count(given, "context_window", base.context_window),
        max_output=_count(given, "max_output", base.max_output),
        pricing=_pricing(given["price"]) if "price" in given else base.pricing,
        options=_options(given.get("options", {}), warn),
    )
    if "thinking" in given:
        thinks = _flag(given, "thinking", default=False)
        model = replace(model, thinking=thinks, thinking_levels=(base.thinking_levels or None) if thinks else ())
    if "modalities" in given:
        model = replace(model, modalities=_modalities(given["modalities"], warn))
    try:
        model = replace(model, api=model.api or api_of(provider, base_url))
        base_url_of(model)
        dialect(model)
    except PlanckError as error:
        raise _Unusable(str(error)) from None
    if is_first_party(model):
        return replace(model, has_api_key=_flag(given, "has_api_key", default=True))
    pricing = model.pricing if "price" in given else None
    return replace(model, pricing=pricing, has_api_key=_has_own_key(model, given))


def _has_own_key(model: Model, given: Mapping[str, Any]) -> bool:
    """Whether a server that is not the vendor's gets a key: one of its own only, never the vendor's."""
    has_key = _flag(given, "has_api_key", default=model.identifier is not None)
    if has_key and model.identifier is None:
        raise _Unusable("the key of a server of its own needs an `identifier`")
    if has_key and (variable := key_variable_of(model)) in _VENDORS_VARIABLES:
        raise _Unusable(f"{variable} is not for the server at its base_url; choose another identifier")
    return has_key


def _server(name: str, servers: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The provider that an entry names and what the file says of its server."""
    if name not in servers:
        if name not in PROVIDERS or PROVIDERS[name].local:
            known = [*servers, *(key for key, row in PROVIDERS.items() if not row.local)]
            raise _Unusable(f"there is no provider {name!r}. {did_you_mean(name, known)}")
        return name, {}
    server = servers[name]
    if not isinstance(server, Mapping):
        raise _Unusable(f"its provider {name!r} must be a table")
    kind = server.get("type", name)
    if kind not in PROVIDERS or PROVIDERS[kind].local:
        raise _Unusable(f"the type of its provider {name!r} is {kind!r}, which is not a provider")
    return kind, {key: server[key] for key in _SERVER_KEYS if server.get(key) is not None}


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _Unusable(f"{key} must be text" if key in given else f"it has no {key}")
    return value


def _identifier(given: Mapping[str, Any]) -> str | None:
    if "identifier" not in given:
        return None
    identifier = _text(given, "identifier").upper()
    if not _IDENTIFIER.fullmatch(identifier):
        raise _Unusable(f"identifier {identifier!r} must be letters and digits, as it begins a variable's name")
    return identifier


def _flag(given: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = given.get(key, default)
    if not isinstance(value, bool):
        raise _Unusable(f"{key} must be true or false")
    return value


def _count(given: Mapping[str, Any], key: str, default: int | None) -> int | None:
    value = given.get(key, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise _Unusable(f"{key} must be a number of tokens")
    return value


def _modalities(value: object, warn: Callable[[str], None]) -> tuple[Modality, ...]:
    if not isinstance(value, list):
        raise _Unusable("modalities must be a list")
    for kind in value:
        if kind not in _MODALITIES:
            warn(f"modality {kind!r} is not known and was not used")
    return cast("tuple[Modality, ...]", tuple(kind for kind in _MODALITIES if kind in value) or ("text",))


_RATES = ("input", "output", "cache_read", "cache_write")


def _pricing(value: object) -> Pricing:
    rates = _rates(value)
    steps = value.get("steps", []) if isinstance(value, Mapping) else []
    if not isinstance(steps, list):
        raise _Unusable("the steps of price must be a list")
    return Pricing(*rates, steps=tuple(_steps(steps)))


def _steps(steps: Sequence[object]) -> Iterator[PriceStep]:
    for step in steps:
        rates = _rates(step)
        above = step.get("above") if isinstance(step, Mapping) else None
        if not isinstance(above, int):
            raise _Unusable("each step of price needs `above`, a number of input tokens")
        yield PriceStep(above, *rates)


def _rates(value: object) -> tuple[float, float, float | None, float | None]:
    """Input, output, cache read and cache write, in US dollars per million tokens."""
    if not isinstance(value, Mapping) or any(value.get(name) is None for name in _RATES[:2]):
        raise _Unusable("price must have `input` and `output`, in US dollars per million tokens")
    for name in _RATES:
        rate = value.get(name)
        if rate is not None and (not isinstance(rate, int | float) or isinstance(rate, bool) or rate < 0):
            raise _Unusable(f"{name} of price must be a number of US dollars")
    return value["input"], value["output"], value.get("cache_read"), value.get("cache_write")


_OPTIONS: Mapping[str, Callable[[object], bool]] = {
    "max_tokens": lambda value: isinstance(value, int) and value > 0,
    "temperature": lambda value: isinstance(value, int | float),
    "top_p": lambda value: isinstance(value, int | float),
    "stop": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "thinking": lambda value: value in LEVELS,
    "extra": lambda value: isinstance(value, Mapping),
}
"""What may stand in the options of an entry, and whether a value fits."""


def _options(value: object, warn: Callable[[str], None]) -> Options:
    if not isinstance(value, Mapping):
        raise _Unusable("options must be a table")
    kept: dict[str, Any] = {}
    for name, setting in value.items():
        fits = _OPTIONS.get(str(name))
        if fits is None:
            warn(f"option {name!r} is not known and was not used. {did_you_mean(str(name), _OPTIONS)}")
        elif not fits(setting) or isinstance(setting, bool):
            warn(f"option {name!r} cannot be {setting!r} and was not used")
        else:
            kept[str(name)] = setting
    return Options(**kept)
