"""`elicit`: asks the client's user a question while a tool runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, encodable_data

Action = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Elicited:
    """An answer to a question.

    Args:
        action: "accept" if the person answered, "decline" if they refused, "cancel" if the question was closed.
        content: The answers by their names in the schema; empty unless accepted.
    """

    action: Action
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Return whether the person answered."""
        return self.action == "accept"


class Asker(Protocol):
    """A function which sends a question and waits for the answer."""

    def __call__(self, message: str, schema: JsonObject) -> Awaitable[Elicited]:
        """Send a question with its answer's schema."""
        ...


_asker: ContextVar[Asker | None] = ContextVar("planck_nb_asker", default=None)


@contextmanager
def asking_with(asker: Asker) -> Iterator[None]:
    """Let `elicit` use `asker` within the context."""
    token = _asker.set(asker)
    try:
        yield
    finally:
        _asker.reset(token)


async def elicit(message: str, schema: Any = None) -> Elicited:  # noqa: ANN401 - a schema or a model class
    """Ask the client's user a question; for async tools.

    A client without a person declines.

    Args:
        message: The question. Never ask for passwords or keys.
        schema: The requested content: a JSON Schema with type object whose properties are text, numbers, booleans or
            choices, or a pydantic model class with such fields. None asks for agreement only.

    Returns:
        The answer.

    Raises:
        ToolError: If the tool was not called through MCP, or the client cannot ask questions.
    """
    asker = _asker.get()
    if asker is None:
        raise ToolError("A question can be asked by async tools only, and only while they are called through MCP.")
    return await asker(encodable(message), encodable_data(_as_schema(schema)))


def _as_schema(schema: Any) -> JsonObject:  # noqa: ANN401 - a schema or a model class
    if schema is None:
        return {"type": "object", "properties": {}}
    describe: Callable[[], JsonObject] | None = getattr(schema, "model_json_schema", None)
    return dict(schema) if describe is None else describe()
