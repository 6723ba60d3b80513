"""A sidecar's open questions in a live view, and their answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.question_display import content_of, question_display
from planck_nb.jupyter.live.view import LiveView
from planck_nb.jupyter.open_questions import Audience, OpenQuestion, OpenQuestions
from planck_nb.rendering.formatting import bounded
from planck_nb.sidecars.mcp_client.link.questions import QuestionAnswer

_REFUSAL_CHARACTERS = 2_000


class QuestionChannel:
    """Shows questions in a live view until `close`.

    Each message contains all open questions, so a late or returning browser misses none.

    Args:
        view: The live view, whose clicks arrive during the run.
        questions: The notebook's questions.
        concerns: Whether an agent takes part in the view's run, by its id.
    """

    def __init__(self, view: LiveView, questions: OpenQuestions, concerns: Callable[[str], bool]) -> None:
        self._view = view
        self._questions = questions
        self._loop = asyncio.get_running_loop()
        self._audience = Audience(concerns, self._send, closed=self._say)
        self._notice = ""
        questions.join(self._audience)
        view.on_msg(self._receive)

    def close(self) -> None:
        """Stop showing questions; those without another view are declined."""
        self._view.on_msg(self._receive, remove=True)
        self._questions.leave(self._audience)

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Handle a message from the browser, perhaps on a foreign kernel thread.

        The thread may own neither the run nor the view.
        """
        with suppress(RuntimeError):  # the loop is closed: the kernel is about to end
            self._loop.call_soon_threadsafe(self._handle, content)

    def _handle(self, message: object) -> None:
        match message:
            case {"type": "resync"}:
                self._audience.attended.set()
                if self._questions.shown_to(self._audience) or self._notice:
                    self._send()
            case {"type": "answer", "id": str(question_id), "values": list() | None as values}:
                try:
                    self._answer(question_id, values)
                except PlanckError as error:
                    refusal = {"type": "refused", "reason": bounded(str(error), _REFUSAL_CHARACTERS), "text": ""}
                    self._view.send(refusal)

    def _answer(self, question_id: str, values: list[object] | None) -> None:
        open_questions = {question.id: question.question for question in self._questions.shown_to(self._audience)}
        answer = QuestionAnswer("decline")
        if values is not None and question_id in open_questions:
            answer = QuestionAnswer("accept", content_of(open_questions[question_id], values))
        self._questions.answer(question_id, answer)

    def _say(self, _question: OpenQuestion, sentence: str) -> None:
        self._notice = sentence

    def _send(self) -> None:
        open_questions = self._questions.shown_to(self._audience)
        displays: list[JsonObject] = [
            asdict(question_display(question.id, question.question, question.deadline)) for question in open_questions
        ]
        self._view.send(
            {"type": "questions", "now": round(time.time(), 3), "questions": displays, "notice": self._notice}
        )
