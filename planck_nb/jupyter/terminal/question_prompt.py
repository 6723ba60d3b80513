"""Sidecars' questions by typed answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.jupyter.live.question_display import QuestionDisplay, QuestionField, content_of, question_display
from planck_nb.jupyter.open_questions import Audience, OpenQuestion, OpenQuestions
from planck_nb.jupyter.terminal.approval_prompt import LineReader
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.sidecars.mcp_client.link.questions import QuestionAnswer

_YES = {"y", "yes", "true"}
_NO = {"n", "no", "false"}
_IMAGES = "It has images, which a terminal cannot show, so it is declined; answer it in a notebook."


class QuestionPrompt:
    """Asks questions one after another until it is cancelled.

    Args:
        questions: The notebook's questions.
        concerns: Whether an agent takes part in the run on display, by its id.
        read: Reads a line.
        write: Shows text.
    """

    def __init__(
        self,
        questions: OpenQuestions,
        concerns: Callable[[str], bool],
        *,
        read: LineReader,
        write: Callable[[str], None],
    ) -> None:
        self._questions = questions
        self._concerns = concerns
        self._read = read
        self._write = write
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Ask all questions in the run."""
        audience = Audience(self._concerns, self._changed.set, closed=lambda _, text: self._write(f"{text}\n"))
        audience.attended.set()
        self._questions.join(audience)
        try:
            while True:
                self._changed.clear()
                for question in self._questions.shown_to(audience)[:1]:
                    await self._ask(question)
                    self._changed.set()
                await self._changed.wait()
        finally:
            self._questions.leave(audience)

    async def _ask(self, question: OpenQuestion) -> None:
        """Ask a question, and return once it is answered or closed.

        The answer may be given elsewhere.
        """
        asking = spawn(self._dialogue(question), name="planck question prompt")
        closing = spawn(self._until_closed(question.id), name="planck question closed")
        try:
            await asyncio.wait([asking, closing], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()
        finally:
            await cancel_and_wait(asking, closing)

    async def _until_closed(self, question_id: str) -> None:
        while self._questions.is_open(question_id):
            self._changed.clear()
            await self._changed.wait()

    async def _dialogue(self, question: OpenQuestion) -> None:
        display = question_display(question.id, question.question, question.deadline)
        if display.images:
            display = replace(display, problem=_IMAGES)
        self._write(for_terminal(_text(display)) + "\n")
        while True:
            try:
                answer = await self._typed(question, display)
            except EOFError:
                answer = QuestionAnswer("decline")
            except UsageError as error:
                self._write(f"{error}\n")
                continue
            if time.time() >= question.deadline:  # `input` blocked the event loop, which would have noticed
                self._write("That was too late: the question was declined.\n")
                answer = QuestionAnswer("cancel")
            try:
                self._questions.answer(question.id, answer)
            except PlanckError as error:
                self._write(f"{error}\n")
                if self._questions.is_open(question.id):
                    continue
            return

    async def _typed(self, question: OpenQuestion, display: QuestionDisplay) -> QuestionAnswer:
        if display.problem or not await self._agrees(display):
            return QuestionAnswer("decline")
        values = [await self._value(field) for field in display.fields]
        return QuestionAnswer("accept", content_of(question.question, values))

    async def _agrees(self, display: QuestionDisplay) -> bool:
        while True:
            line = (await self._read("Answer? [y]es, [n]o: " if display.fields else "Accept? [y]es, [n]o: ")).strip()
            if line.lower() in _YES | _NO:
                return line.lower() in _YES
            self._write("Answer y or n.\n")

    async def _value(self, field: QuestionField) -> object:
        """Return the typed value for a field, in the form for `content_of`.

        An empty line leaves the default.
        """
        while True:
            line = (await self._read(for_terminal(_prompt_of(field)))).rstrip("\r\n")
            if not line.strip():
                if not field.required or field.default:
                    return None
                self._write("This field is required.\n")
                continue
            try:
                return _parsed(field, line.strip() if field.kind != "text" else line)
            except UsageError as error:
                self._write(f"{error}\n")


def _text(display: QuestionDisplay) -> str:
    lines = [f"The sidecar {display.sidecar} asks: {display.message}"]
    if display.url:
        lines += [f"It asks you to visit this address, which is not opened for you: {display.url}"]
    if display.problem:
        lines += [display.problem]
    return "\n".join(lines)


def _prompt_of(field: QuestionField) -> str:
    choices = "".join(f"\n  {number} {label}" for number, label in enumerate(field.choices, 1))
    kinds = {"number": "a number", "boolean": "y or n", "choice": "a number", "choices": "numbers", "json": "JSON"}
    kind = f" ({kinds[field.kind]})" if field.kind in kinds else ""
    default = f" [{_default_of(field)}]" if field.default else "" if field.required else " [leave out]"
    description = f": {field.description}" if field.description else ""
    return f"{field.label}{description}{choices}{chr(10) if choices else ''}{kind}{default}> ".replace("\n (", "\n(")


def _default_of(field: QuestionField) -> str:
    if field.kind == "choice":
        return str(int(field.default) + 1)
    if field.kind == "choices":
        return " ".join(str(number + 1) for number in json.loads(field.default))
    return field.default


def _parsed(field: QuestionField, line: str) -> object:
    """Return a typed line as a field's value, or raise `UsageError`."""
    match field.kind:
        case "boolean" if line.lower() in _YES | _NO:
            return line.lower() in _YES
        case "number":
            with suppress(ValueError):
                return int(line)
            with suppress(ValueError):
                return float(line)
        case "choice" | "choices":
            numbers = [int(word) - 1 for word in line.replace(",", " ").split() if word.isdecimal()]
            if numbers and all(0 <= number < len(field.choices) for number in numbers):
                if field.kind == "choices":
                    return numbers
                if len(numbers) == 1:
                    return numbers[0]
        case "text" | "json":
            return line
    raise UsageError(f"{line} is not a value for {field.label}; write it again.")
