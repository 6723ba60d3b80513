"""Answers by conversation: a session replaces models during verification.

A cassette's key has a whole request. System prompt, tools and options of a stored request are not stored, and some
depend on the page or the folder. A conversation is stored completely, so an answer belongs to the model and to
exactly these messages.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.ai.cassettes.cassette import Cassette
from planck_nb.ai.cassettes.request_key import CanonicalMessages
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.messages import AssistantMessage, Message, ToolResultPart
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
    UsageUpdate,
)
from planck_nb.base.errors import CassetteError, CassetteMissError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

ANSWERS_VARIABLE = "PLANCK_NB_ANSWERS"
"""The environment variable with the file; child processes inherit it."""


class ConversationKey:
    """The identity of a conversation so far."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._canonical = CanonicalMessages()

    @property
    def value(self) -> str:
        """The key in hexadecimal digits."""
        return self._digest.hexdigest()

    def add(self, message: Message) -> None:
        """Continue the conversation.

        Args:
            message: The next message.
        """
        data = self._canonical.add(message)
        self._digest.update(json.dumps(data, sort_keys=True, default=str).encode("ascii") + b"\n")


def answer_line(key: str, message: AssistantMessage, results: Sequence[ToolResultPart] = ()) -> bytes:
    """Return an answer as a line in the file.

    Args:
        key: The key for the conversation before it.
        message: The answer.
        results: What its calls returned.
    """
    return _entries().dump_json(_Entry(key, message, tuple(results))) + b"\n"


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    message: AssistantMessage
    results: tuple[ToolResultPart, ...]


class ConversationCassette(Cassette):
    """Cassette which answers by conversation, and refuses other requests.

    Args:
        path: The file.

    Raises:
        CassetteError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "replay")
        self._answers: defaultdict[tuple[str, str], list[_Entry]] = defaultdict(list)
        self._models: list[str] = []
        self._results: defaultdict[tuple[str, str], list[ToolResultPart]] = defaultdict(list)
        """Results for the calls in given answers, by id and name."""
        try:
            for line in path.read_bytes().splitlines():
                entry = _entries().validate_json(line)
                model = f"{entry.message.provider}:{entry.message.model}"
                self._models.append(model)
                self._answers[model, entry.key].append(entry)
        except (OSError, ValueError) as error:
            raise CassetteError(f"The session's answers in {path} cannot be read; verify again.") from error

    @property
    def answers(self) -> int:
        """The number of answers."""
        return len(self._models)

    @property
    def recorded_model(self) -> str | None:
        """The "provider:model" of the first answer, None without one."""
        return next(iter(self._models), None)

    def answer(self, model: Model, context: Context, builder: MessageBuilder) -> list[StreamEvent]:
        """Feed the stored answer to a message builder.

        Args:
            model: The model.
            context: The conversation.
            builder: Receives the events.

        Returns:
            The events.

        Raises:
            CassetteMissError: There is none, or all were given already.
        """
        key = ConversationKey()
        for message in context.messages:
            key.add(message)
        with self._lock:
            waiting = self._answers.get((str(model), key.value))
            if not waiting:
                raise self.refusal(model)
            entry = waiting.pop(0)
            for result in entry.results:
                self._results[result.id, result.name].append(result)
        builder.sending(measured=False)
        return builder.feed(list(_events(entry.message)))

    def take_result(self, call_id: str, name: str) -> ToolResultPart | None:
        """Return a call's stored result, once; None for an unknown call.

        Args:
            call_id: The call's id.
            name: The tool.
        """
        with self._lock:
            waiting = self._results.get((call_id, name))
            return waiting.pop(0) if waiting else None

    def refusal(self, model: Model) -> CassetteMissError:
        """Return the error for a request without a stored answer.

        Args:
            model: The model.
        """
        return CassetteMissError(
            f"The session has no answer of {model} to exactly this prompt and conversation; no model is asked while a "
            "notebook is verified."
        )


def conversation_cassette() -> ConversationCassette | None:
    """Return the session's answers during verification, otherwise None.

    Raises:
        CassetteError: The file cannot be read.
    """
    path = os.environ.get(ANSWERS_VARIABLE)
    return _loaded(path) if path else None


@cache
def _entries() -> TypeAdapter[_Entry]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - most programs need not load it

    return TypeAdapter(_Entry)


@cache
def _loaded(path: str) -> ConversationCassette:
    return ConversationCassette(Path(path))


def _events(message: AssistantMessage) -> Iterator[StreamEvent]:
    for index, part in enumerate(message.content):
        match part.type:
            case "text":
                yield TextChunk(index, part.text)
            case "thinking":
                yield ThinkingChunk(index, part.text)
            case "tool_call":
                yield ToolCallStart(index, part.id, part.name)
                arguments = json.dumps(part.args, ensure_ascii=False) if part.invalid is None else part.invalid
                yield ToolArgsChunk(index, arguments)
        yield PartEnd(index)
    if message.usage is not None:
        yield UsageUpdate(message.usage, cost=message.cost)
    yield Finish(message.stop_reason)
