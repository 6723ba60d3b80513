"""The questions of sidecars that wait for a person, and who can be asked: live views, and prompts in a terminal."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from planck_nb.agent.approval.gate import CONNECT_TIMEOUT
from planck_nb.base.errors import UsageError
from planck_nb.base.secrets import find_secret, process_secrets
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer

_PROBLEM_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for an answer.

    Args:
        id: Identifies it.
        question: The question.
        deadline: When it is declined, in seconds since the epoch.
    """

    id: str
    question: Question
    deadline: float


@dataclass(eq=False)
class Audience:
    """Something that shows questions to a person for as long as a run is shown.

    Args:
        concerns: Whether it shows the questions that arise from calls of an agent, given the agent's id.
        changed: Called when questions came or went.
        attended: Set once a person can be expected to see what is shown.
        closed: Called with an open question and why it was declined without an answer, to say so.
    """

    concerns: Callable[[str], bool]
    changed: Callable[[], None]
    attended: asyncio.Event = field(default_factory=asyncio.Event)
    closed: Callable[[OpenQuestion, str], None] | None = None


@dataclass(frozen=True, slots=True)
class _WaitingQuestion:
    """A question, the place for its answer, and the answers to confirm by giving them again."""

    shown: OpenQuestion
    answer: asyncio.Future[QuestionAnswer | None]
    to_confirm: list[QuestionAnswer] = field(default_factory=list)


class OpenQuestions:
    """Sidecar questions that wait for an answer. The first answer counts, wherever it is given.

    Args:
        patience: Seconds to wait for a browser before a question is declined.
    """

    def __init__(self, patience: float = CONNECT_TIMEOUT) -> None:
        self._patience = patience
        self._waiting: dict[str, _WaitingQuestion] = {}
        self._audiences: list[Audience] = []
        self._ids = itertools.count(1)

    def join(self, audience: Audience) -> None:
        """Show an audience all questions from now on that concern it."""
        self._audiences.append(audience)

    def leave(self, audience: Audience) -> None:
        """Show an audience no more questions. Those that nobody else is shown are declined."""
        if audience not in self._audiences:
            return
        self._audiences.remove(audience)
        for waiting in self._waiting.values():
            if not self._audiences_of(waiting.shown.question) and not waiting.answer.done():
                waiting.answer.set_result(None)

    def shown_to(self, audience: Audience) -> Sequence[OpenQuestion]:
        """Return the open questions that concern an audience, the oldest first."""
        return [each.shown for each in self._waiting.values() if audience in self._audiences_of(each.shown.question)]

    def is_open(self, question_id: str) -> bool:
        """Return whether a question still waits."""
        waiting = self._waiting.get(question_id)
        return waiting is not None and not waiting.answer.done()

    async def ask(self, question: Question) -> QuestionAnswer | None:
        """Show a question and wait for an answer.

        Args:
            question: The question.

        Returns:
            The first answer; None if there is nobody to ask.
        """
        audiences = self._audiences_of(question)
        if not audiences:
            return None
        shown = OpenQuestion(f"q{next(self._ids)}", question, time.time() + question.seconds)
        waiting = _WaitingQuestion(shown, asyncio.get_running_loop().create_future())
        self._waiting[shown.id] = waiting
        self._announce(audiences)
        why = "it was not answered in time"
        try:
            if not await self._attended(audiences, waiting.answer):
                why = ""
                return None
            answer = await waiting.answer
            why = ""
        finally:
            del self._waiting[shown.id]
            if why and time.time() >= shown.deadline:
                for audience in self._audiences_of(question):
                    if audience.closed is not None:
                        audience.closed(shown, f"The question of the sidecar {question.sidecar} was declined: {why}.")
            self._announce(audiences)
        return answer

    def answer(self, question_id: str, answer: QuestionAnswer) -> None:
        """Answer a question.

        Args:
            question_id: The id of the question.
            answer: The answer.

        Raises:
            UsageError: It was answered before or is closed, or the answer does not match its schema. An answer with a
                key is refused once: the same answer again confirms that the sidecar may get it.
        """
        waiting = self._waiting.get(question_id)
        if waiting is None or waiting.answer.done():
            raise UsageError("This question was answered already, or is closed.")
        if answer.action == "accept" and not waiting.shown.question.url:
            problem = waiting.shown.question.problem_of(answer.content)
            if problem:
                shown = one_line(problem, _PROBLEM_CHARACTERS)
                raise UsageError(f"The answer does not match what the sidecar asks for: {shown}.")
            if answer not in waiting.to_confirm and (kind := _secret_in(answer)):
                waiting.to_confirm.append(answer)
                sidecar = visible(waiting.shown.question.sidecar, lookalikes=True)
                raise UsageError(
                    f"The answer has {kind}, which the sidecar {sidecar} would get; give the same answer again to "
                    "send it."
                )
        waiting.answer.set_result(answer)

    def _audiences_of(self, question: Question) -> list[Audience]:
        """Those that show the question: the runs of its agent, or all if the sidecar's agent is not known."""
        if not question.agent_id:
            return list(self._audiences)
        return [audience for audience in self._audiences if audience.concerns(question.agent_id)]

    async def _attended(self, audiences: Sequence[Audience], answer: asyncio.Future[QuestionAnswer | None]) -> bool:
        """Wait briefly until a person can be expected to see the question, or until it is answered."""
        if any(audience.attended.is_set() for audience in audiences):
            return True
        arrivals = [asyncio.create_task(audience.attended.wait()) for audience in audiences]
        first: list[asyncio.Future[Any]] = [*arrivals, answer]
        try:
            await asyncio.wait(first, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for arrival in arrivals:
                arrival.cancel()
        return answer.done() or any(audience.attended.is_set() for audience in audiences)

    @staticmethod
    def _announce(audiences: Sequence[Audience]) -> None:
        for audience in audiences:
            audience.changed()


def _secret_in(answer: QuestionAnswer) -> str | None:
    """Describe a secret in an answer without showing it; None without one."""
    known = process_secrets()
    texts = (value if isinstance(value, str) else json.dumps(value, default=str) for value in answer.content.values())
    return next(filter(None, (find_secret(text, known) for text in texts)), None)
