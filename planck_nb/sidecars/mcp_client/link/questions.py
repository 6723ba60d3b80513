"""A sidecar's questions to the person, which MCP calls elicitation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from planck_nb.agent.calling.json_schema import errors_of, problem_of, validator
from planck_nb.ai.messages import ImagePart
from planck_nb.ai.server_address import shown_host
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import visible

DEADLINE = 120.0
"""Seconds for a person's answer."""

_MESSAGE_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class Question:
    """A sidecar's question.

    Args:
        sidecar: The asking sidecar's name, to be shown.
        message: The question, with hidden characters spelled out.
        schema: The answer's JSON Schema, an object with plain fields; empty for a question with `url`.
        url: The whole address to visit; empty for a question with fields. It must be shown and never be opened
            automatically.
        agent_id: The agent whose call made the sidecar ask; empty if unknown.
        call_id: The call, likewise.
        seconds: Time for the person.
        images: Images that belong to the question; an answer counts only where they were shown.
    """

    sidecar: str
    message: str
    schema: JsonObject = field(default_factory=dict)
    url: str = ""
    agent_id: str = ""
    call_id: str = ""
    seconds: float = DEADLINE
    images: tuple[ImagePart, ...] = ()

    def problem_of(self, content: Mapping[str, object]) -> str:
        """Return a problem with an answer's fields, after filling in defaults.

        The result is empty for a good answer.
        """
        return _problem(self.schema, self.completed(content))

    def completed(self, content: Mapping[str, object]) -> dict[str, Any]:
        """Return an answer's fields, with the schema's defaults for missing ones."""
        properties = self.schema.get("properties")
        schemas = properties if isinstance(properties, dict) else {}
        defaults = {
            name: item["default"] for name, item in schemas.items() if isinstance(item, dict) and "default" in item
        }
        return {**defaults, **content}


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """An answer to a question.

    Args:
        action: "accept", "decline", or "cancel" if the person made no choice.
        content: The fields, if it is accepted and the question has fields.
    """

    action: Literal["accept", "decline", "cancel"] = "decline"
    content: Mapping[str, object] = field(default_factory=dict)


Ask: TypeAlias = Callable[[Question], Awaitable[QuestionAnswer | None]]
"""A function which shows a question; None without a person."""


def question_of(sidecar: str, params: Any, *, agent_id: str, call_id: str, seconds: float) -> Question:  # noqa: ANN401 - mcp's
    """Convert a question's parameters from the MCP library."""
    url = getattr(params, "url", "") or ""
    schema = getattr(params, "requested_schema", None)
    if schema is not None and not isinstance(schema, dict):
        schema = schema.model_dump(by_alias=True, exclude_none=True, mode="json")
    message = visible(params.message[:_MESSAGE_CHARACTERS])
    if url:  # in which the host is easily overlooked
        message = f"{message}\nThe address leads to {shown_host(str(url)) or 'no host'}."
    return Question(
        sidecar=sidecar,
        message=message,
        schema=schema or {},
        url=visible(str(url), lookalikes=True),
        agent_id=agent_id,
        call_id=call_id,
        seconds=seconds,
    )


async def answer_of(question: Question, ask: Ask | None) -> tuple[QuestionAnswer, str]:  # noqa: PLR0911 - one for each way to end
    """Ask a person, within the deadline.

    Returns:
        The answer, which fits the schema; and a sentence unless it is the person's own choice.
    """
    if ask is None:
        return QuestionAnswer(), "The question was declined, because there is no person to answer it."
    try:
        async with asyncio.timeout(question.seconds):
            answer = await ask(question)
    except TimeoutError:
        return QuestionAnswer("cancel"), f"The question was not answered within {question.seconds:g} s."
    except Exception as error:  # noqa: BLE001 - the view that asks must not end the connection
        return QuestionAnswer("cancel"), f"The question could not be shown: {type(error).__name__}: {error}"
    if answer is None:
        return QuestionAnswer(), "The question was declined, because there is no person to answer it."
    if answer.action != "accept" or question.url:
        return QuestionAnswer(answer.action), ""
    content = question.completed(answer.content)
    if problem := _problem(question.schema, content):
        return QuestionAnswer("cancel"), f"The answer does not match the question: {problem}"
    return QuestionAnswer("accept", content), ""


def _problem(schema: JsonObject, content: Mapping[str, object]) -> str:
    if not schema:
        return ""
    if problem := problem_of(schema):
        return f"its schema is not valid: {problem}"
    try:
        return "; ".join(error.message for error in errors_of(validator(schema), dict(content)))
    except ToolError as error:
        return str(error)
