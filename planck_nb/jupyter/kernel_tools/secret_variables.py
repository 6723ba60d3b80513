"""The secrets among the variables of a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from planck_nb.base.secrets import MAX_LENGTH, known_secrets, looks_like_key, remember_secret


def remember_secret_variables(namespace: Mapping[str, object]) -> None:
    """Treat texts that look like secrets by their names or values as secrets of the process from now on.

    They are then filtered from all that leaves the process. A text such as the one in `key = "customer_id"` is not a
    secret: it has neither digits nor the form of a key.

    Args:
        namespace: The variables.
    """
    texts = {
        name: value
        for name, value in tuple(namespace.items())
        if type(name) is str and type(value) is str and len(value) <= MAX_LENGTH
    }
    for value, what in known_secrets(texts).items():
        if looks_like_key(value) or any(map(str.isdigit, value)):
            remember_secret(value, what)
