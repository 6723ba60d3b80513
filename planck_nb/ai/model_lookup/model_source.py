"""How a model was found, as JSON data that a session stores, and the same model again from that data.

The data never contains a credential: only the name of a key's variable is stored, and an address is stored without user
name and query. A model that cannot be found again as it was is refused rather than replaced by a similar one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlsplit

from planck_nb.ai.model_lookup.catalogue import catalogued, with_alias
from planck_nb.ai.model_lookup.stored_options import contains_secret, is_secret_option
from planck_nb.ai.models import Modality, Model, Pricing, Unavailable, as_found
from planck_nb.ai.providers import api_of, base_url_of, is_first_party, key_variables_of, provider
from planck_nb.ai.registry import REGISTRY, is_local
from planck_nb.ai.request import Options
from planck_nb.base.errors import ModelError, PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import MIN_LENGTH, find_secret

_FACTS: Mapping[str, Any] = {
    "name": str,
    "context_window": int | None,
    "max_output": int | None,
    "thinking": bool,
    "thinking_levels": tuple[str, ...] | None,
    "modalities": tuple[Modality, ...] | None,
    "pricing": Pricing | None,
    "settings": dict[str, Any],
    "options": Options,
}
"""The fields of a model that its user may replace without changing which model it is, with their types."""


_REPORTED = ("context_window", "thinking", "thinking_levels", "modalities")
"""The fields that a server may report about a model that it runs."""


def model_source(model: Model) -> JsonObject:
    """Describe how a model was found, without any secret.

    Args:
        model: The model.

    Returns:
        JSON data for `find_again`, always with `api`. The rest is there only if it applies: `alias`; the place, which
        is `base_url`, `key_variable` and `has_api_key`; `credentials` ("api_key" or "auth") if they were given by
        hand; `overrides`, the facts that differ from those that were looked up; `reported`, the facts that its server
        has reported; `handmade` if the model was not looked up at all; and `left_out`, the names of the parts that are
        secret or are not JSON data.

    Example:
        >>> from planck_nb import ai
        >>> model_source(ai.get_model("openai", "qwen", base_url="http://me:secret@127.0.0.1:8080/v1", api="chat"))
        {'api': 'chat', 'base_url': 'http://127.0.0.1:8080/v1', 'left_out': ['base_url']}
    """
    if model.unavailable is not None:
        return dict(model.unavailable.source)
    base = model.found
    if base is not None and (str(base), _place(base)) != (str(model), _place(model)):
        base = None
    overrides, left_out = _overrides(model, base or Model(model.provider, model.id, model.api), _FACTS)
    reported = None if base is None or model.alias else _reported(base)
    address = _address_without_secrets(model.base_url) if model.base_url else None
    if address != (model.base_url or None):
        left_out.append("base_url")
    if model.rules is not None:
        left_out.append("rules")
    parts: JsonObject = {
        "handmade": base is None or None,
        "alias": None if base is None else model.alias or None,
        "base_url": address,
        "key_variable": model.key_variable,
        "has_api_key": None if model.has_api_key else False,
        "credentials": _credentials(model),
        "overrides": overrides or None,
        "reported": reported or None,
        "left_out": left_out or None,
    }
    return {"api": model.api, **{name: value for name, value in parts.items() if value is not None}}


def find_again(reference: str, source: Mapping[str, Any], *, own: Iterable[Model] = ()) -> Model:
    """Find the model that a session stored, exactly as it was.

    Args:
        reference: The model as "provider:id".
        source: What `model_source` returned for it.
        own: The user's own models, searched before those of `add_models`.

    Returns:
        The model. Its key is not checked; see `Client.key_for`.

    Raises:
        ModelError: It cannot be found again as it was. The message is a clause that gives the reason.
    """
    if credentials := source.get("credentials"):
        what = "credentials come from a function" if credentials == "auth" else "key was given by hand"
        raise ModelError(f"its {what}, which is never stored")
    provider_name, _, model_id = reference.partition(":")
    try:
        _check_texts(source)
        if left_out := [name for name in source.get("left_out") or () if not _is_scripted(provider_name, name)]:
            raise ModelError(f"its {' and '.join(map(str, left_out))} cannot be stored")
        if alias := source.get("alias"):
            found = _by_alias(alias, reference, source, own)
        else:
            found = _at_place(provider_name, model_id, source)
        if not is_local(REGISTRY.format(found.api)):
            base_url_of(found)
        return replace(found, **_decoded(source.get("overrides") or {}))
    except PlanckError as error:
        raise ModelError(str(error).rstrip(".")) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError("what the session stored about it is damaged") from error


def unavailable(reference: str, source: Mapping[str, Any], reason: str) -> Model:
    """A model that stands for one that was not found again: requests to it fail with the reason.

    Args:
        reference: The model as "provider:id".
        source: What `model_source` returned for it.
        reason: One sentence that says what to do.

    Returns:
        The model, whose source is the one that was stored, so that another process may find the model again.
    """
    provider_name, _, model_id = reference.partition(":")
    kept = dict(source)
    return Model(provider_name, model_id, str(kept.get("api") or ""), unavailable=Unavailable(reason, kept))


def _check_texts(source: Mapping[str, Any]) -> None:
    if any(not isinstance(source.get(name, ""), str) for name in ("api", "alias", "base_url", "key_variable")):
        raise TypeError(source)


def _by_alias(alias: str, reference: str, source: Mapping[str, Any], own: Iterable[Model]) -> Model:
    found = with_alias(alias, own)
    if found is None:
        raise ModelError(f"there is no model with the alias {alias!r} any more")
    if (str(found), _place(found)) != (reference, _stored_place(reference, source)):
        raise ModelError(f"the alias {alias!r} stands for another model, server or key now")
    return found


def _at_place(provider_name: str, model_id: str, source: Mapping[str, Any]) -> Model:
    known = provider(provider_name)
    if known.models and model_id not in known.models:
        raise ModelError(f"{provider_name} has no model {model_id!r}")
    base_url = source.get("base_url")
    base = (
        Model(provider_name, model_id, known.api)
        if source.get("handmade") and not is_local(REGISTRY.format(known.api))
        else catalogued(provider_name, model_id)
    )
    found = replace(
        base,
        api=source.get("api") or api_of(provider_name, base_url),
        base_url=base_url,
        key_variable=source.get("key_variable"),
        has_api_key=source.get("has_api_key", True) is not False,
    )
    if base_url and not is_first_party(found):
        found = replace(found, pricing=None)
    if reported := source.get("reported"):
        found = replace(found, **_decoded({name: reported[name] for name in _REPORTED if name in reported}))
    return found if source.get("handmade") else as_found(found)


def _is_scripted(provider_name: str, name: str) -> bool:
    """Whether what was left out is a setting of a model that needs no server, such as a script of a test."""
    known = REGISTRY.find(provider_name)
    return known is not None and is_local(REGISTRY.format(known.api)) and str(name).startswith("settings.")


def _place(model: Model) -> tuple[object, ...]:
    """Where requests go and which key they carry, as far as it may be stored."""
    variables = key_variables_of(model) if model.has_api_key and REGISTRY.find(model.provider) else ()
    address = _address_without_secrets(model.base_url) if model.base_url else None
    return model.api, address, variables, model.has_api_key


def _stored_place(reference: str, source: Mapping[str, Any]) -> tuple[object, ...]:
    provider_name, _, model_id = reference.partition(":")
    model = Model(
        provider_name,
        model_id,
        str(source.get("api")),
        base_url=source.get("base_url"),
        key_variable=source.get("key_variable"),
        has_api_key=source.get("has_api_key", True) is not False,
    )
    return _place(model)


@lru_cache  # agents are created by the hundred, most of them for models at one address
def _address_without_secrets(url: str) -> str:
    """The address without a user name, a password, a query or anything else that looks like a secret."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    except ValueError:
        return ""
    if any(find_secret(step, {}) for step in plain.split("/")):
        return ""
    return plain if "://" in url else plain.removeprefix("http://")


def _credentials(model: Model) -> str | None:
    """How the credentials were given, None if they come from the environment or there are none."""
    if model.auth is not None:
        return "auth"
    return "api_key" if model.api_key and model.has_api_key else None


def _overrides(model: Model, base: Model, facts: Iterable[str]) -> tuple[JsonObject, list[str]]:
    """The facts of the model that differ from those of `base`, and the names of the parts that cannot be stored."""
    found: JsonObject = {}
    left_out: list[str] = []
    for name in facts:
        value, usual = getattr(model, name), getattr(base, name)
        if value is usual or value == usual:
            continue
        if isinstance(value, Pricing):
            value = asdict(value)
        elif isinstance(value, Options):
            value = value.named()
        found[name] = _storable(value, name, left_out)
    return found, left_out


def _reported(base: Model) -> JsonObject:
    """The facts that a server has reported about a model as it was looked up."""
    return _overrides(base, catalogued(base.provider, base.id), _REPORTED)[0]


def _storable(value: Any, name: str, left_out: list[str]) -> Any:  # noqa: ANN401 - JSON data
    """The value without the parts that are secret or not JSON data, whose names are added to `left_out`."""
    if isinstance(value, Mapping):
        kept: JsonObject = {}
        for key, part in value.items():
            where = f"{name}.{key}"
            if is_secret_option(str(key)) and isinstance(part, str) and len(part) >= MIN_LENGTH:
                left_out.append(where)
                continue
            before = len(left_out)
            stored = _storable(part, where, left_out)
            if where not in left_out[before:]:
                kept[str(key)] = stored
        return kept
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        left_out.append(name)
        return None
    if find_secret(text, {}) or contains_secret("", value, {}):
        left_out.append(name)
        return None
    return json.loads(text)


@cache
def _adapter(name: str) -> Any:  # noqa: ANN401 - pydantic's adapter has no useful static type here
    from pydantic import TypeAdapter  # noqa: PLC0415 - loads much, and is needed for models with overrides only

    return TypeAdapter(_FACTS[name])


def _decoded(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The stored facts as fields of a model. Raises ValueError if they are not."""
    return {name: _adapter(name).validate_python(value) for name, value in overrides.items() if name in _FACTS}
