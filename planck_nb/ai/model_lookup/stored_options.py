"""Request options as they are stored: without the fields that contain a secret."""

from __future__ import annotations

from collections.abc import Mapping

from planck_nb.ai.request import Options
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import MIN_LENGTH, find_secret, is_secret_name, process_secrets

LEFT_OUT = "left_out"
"""The key under which stored options have the names of the fields of `extra` that were left out."""


def stored_options(options: Options) -> JsonObject:
    """Return the options that are set, by name, with the names of the fields of `extra` that contain a secret.

    Such a field is left out as a whole: a part of it could mean something else to the server.

    Args:
        options: The options.

    Returns:
        What `Options.from_named` reads, and a list of names under `LEFT_OUT` if there are any.
    """
    named = options.named()
    if not options.extra:
        return named
    secrets = process_secrets()
    left_out = [name for name, value in options.extra.items() if contains_secret(name, value, secrets)]
    if not left_out:
        return named
    extra = {name: value for name, value in options.extra.items() if name not in left_out}
    return {**named, "extra": extra, LEFT_OUT: left_out}


def left_out_of(stored: JsonObject) -> tuple[str, ...]:
    """The names of the fields of `extra` that `stored_options` has left out."""
    names = stored.get(LEFT_OUT)
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else ()


def contains_secret(name: str, value: object, secrets: Mapping[str, str]) -> bool:
    """Whether a field is or contains a secret, by a name or a value in it.

    Args:
        name: The name of the field.
        value: Its value.
        secrets: The known secrets with their descriptions.
    """
    match value:
        case str():
            named = is_secret_option(name) and len(value) >= MIN_LENGTH
            return named or find_secret(value, secrets) is not None
        case Mapping():
            return any(
                find_secret(str(key), secrets) is not None or contains_secret(str(key), part, secrets)
                for key, part in value.items()
            )
        case list() | tuple() | set() | frozenset():
            return any(contains_secret(name, part, secrets) for part in value)
        case _:
            return False


def is_secret_option(name: str) -> bool:
    """Whether an option or setting of this name is a secret."""
    return is_secret_name(name) and not name.endswith("cache_key")  # an option that names a cache
