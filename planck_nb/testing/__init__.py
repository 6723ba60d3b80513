"""For your own tests: scripted models, cases, and scorers."""

from __future__ import annotations

from collections.abc import Sequence

from planck_nb.agent.scoring import Case, CaseAnswer
from planck_nb.ai.dialects.demo import Call, Reply
from planck_nb.ai.models import Model, as_found
from planck_nb.testing.scorers import (
    called_tool,
    case_parameters,
    check_case,
    contains,
    cost_below,
    equals,
    json_equal,
    matches,
)

__all__ = [
    "Call",
    "Case",
    "CaseAnswer",
    "Reply",
    "called_tool",
    "case_parameters",
    "check_case",
    "contains",
    "cost_below",
    "equals",
    "json_equal",
    "matches",
    "scripted_model",
]


def scripted_model(script: Sequence[Reply | str | dict[str, object]], *, pace: float = 0.0) -> Model:
    """Make a model that gives the replies of a script, one after another, whatever it is asked.

    Args:
        script: The replies. Each is a string, a `Reply`, or JSON data with the keys `text`, `thinking`, `calls` (each
            with `name` and `arguments`), `error` (a sentence; breaks the stream) and `stop_reason` (such as "length"
            for a reply that is cut off). `{result}` in a text stands for what the newest tool call returned.
        pace: Seconds between words.

    Returns:
        A model for `Agent` and `ai.stream`.

    Raises:
        ConfigError: A reply has another shape.

    Example:
        >>> import asyncio
        >>> from planck_nb import ai
        >>> from planck_nb.testing import scripted_model
        >>> model = scripted_model(["Hello.", "Goodbye."])
        >>> asyncio.run(ai.complete(model, ai.Context(messages=[ai.UserMessage("hi")]))).text
        'Hello.'
    """
    return as_found(
        Model(
            provider="demo",
            id="script",
            api="demo",
            has_api_key=False,
            settings={"script": tuple(map(Reply.parse, script)), "pace": pace},
        )
    )
