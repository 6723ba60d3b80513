"""Fakes for your own tests: a model that says what you wrote for it."""

from __future__ import annotations

from collections.abc import Sequence

from planck_nb.ai.dialects.demo import Call, Reply
from planck_nb.ai.models import Model

__all__ = ["Call", "Reply", "scripted_model"]


def scripted_model(script: Sequence[Reply | str | dict[str, object]], *, pace: float = 0.0) -> Model:
    """A model that gives the replies of `script`, one after another, whatever it is asked.

    A reply is a string, a `Reply`, or JSON data with the keys `text`, `thinking`, `calls` (each with `name` and
    `arguments`) and `error` (a sentence; breaks the stream). `{result}` in a text stands for what the newest tool
    call returned. `pace` is in seconds between words. Raises `ConfigError` for a reply of another shape.

        model = scripted_model([{"calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}, "It is {result}."])
    """
    return Model(
        provider="demo",
        id="script",
        api="demo",
        has_api_key=False,
        settings={"script": tuple(map(Reply.parse, script)), "pace": pace},
    )
