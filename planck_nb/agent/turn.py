"""One turn of an agent: the prompts it answers, the model that is asked, what it may take, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from planck_nb.agent.limits import LimitHit, TurnBudget
from planck_nb.agent.output import OutputMismatch, OutputSpec, correction
from planck_nb.agent.run import Run, RunResult, RunStatus
from planck_nb.agent.state import Entry
from planck_nb.ai.messages import AssistantMessage, Usage, UserMessage
from planck_nb.ai.models import Model
from planck_nb.base.errors import OutputError


class Turn:
    """A turn on its way; one without runs stands for none.

    `model` is who is asked now, `fallbacks` who is asked next; `usage` is what its replies took so far. `first` is the
    place of the turn's first message in the conversation.
    """

    def __init__(
        self, runs: list[Run[Any]], model: Model, fallbacks: Iterable[Model], meter: TurnBudget, first: int
    ) -> None:
        self.runs = runs
        self.model = model
        self.usage = Usage()
        self._cost: float | None = None
        self._unpriced = False
        self._fallbacks = tuple(fallbacks)
        self._budget = meter
        self._first = first
        self._output: object = None
        self._corrected = False
        self._limit = ""
        for run in runs:
            run.status = "running"

    @property
    def output_spec(self) -> OutputSpec | None:
        """The form that the answer has to have."""
        return self.runs[0].output_spec if self.runs else None

    @property
    def prompts(self) -> list[UserMessage]:
        """What is to be answered; a nudge says nothing."""
        return [run.prompt for run in self.runs if run.prompt.content]

    def join(self, run: Run[Any]) -> None:
        """Take in a prompt that steers the turn."""
        self.runs.append(run)
        run.status = "running"

    def fall_back(self) -> Model | None:
        """Ask the next model from now on; the one that was asked until now, None where there is no next one."""
        if not self._fallbacks:
            return None
        failed = self.model
        self.model, self._fallbacks = self._fallbacks[0], self._fallbacks[1:]
        return failed

    def count_streamed(self, characters: int) -> bool:
        """Take in that the model wrote so much more; whether a limit is reached."""
        return self._budget.count_streamed(characters, self.model)

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may go on, None where there is no limit."""
        return self._budget.seconds_left

    def count(self, reply: AssistantMessage) -> None:
        """Take in a reply, complete or cut."""
        self._budget.counted(reply, self.model)
        if reply.cost is None:
            self._unpriced = True
        else:
            self._cost = (self._cost or 0.0) + reply.cost
        if reply.usage is not None:
            self.usage += reply.usage

    def limit_hit(self) -> LimitHit | None:
        """The limit that is reached, None while all hold."""
        limit_hit = self._budget.limit_hit(self.model)
        if limit_hit is not None:
            self._limit = limit_hit[1]
        return limit_hit

    @property
    def begun(self) -> bool:
        """Whether the model has said something."""
        return self._budget.rounds > 0

    def correction(self, answer: AssistantMessage) -> UserMessage | None:
        """What to tell the model about its final answer, None where it is as wanted. Raises `OutputError`."""
        form = self.output_spec
        if form is None:
            return None
        try:
            self._output = form.read(answer.text)
        except OutputMismatch as problems:
            if self._corrected or answer.stop_reason == "refusal":
                raise OutputError(
                    f"The answer of {self.model} is not in the form asked for ({problems}); "
                    "make `output` simpler or choose another model."
                ) from None
            self._corrected = True
            return UserMessage(correction(str(problems), form.schema))
        return None

    def settle(self, status: RunStatus, entries: Sequence[Entry], error: BaseException | None = None) -> None:
        """Tell the runs what came of them; `entries` is the whole conversation."""
        result = self._result(entries, aborted=status == "aborted")
        for run in self.runs:
            run.settle(status, error or (replace(result, output=self._output) if run.output_spec else result))

    def _result(self, entries: Sequence[Entry], *, aborted: bool) -> RunResult[Any]:
        messages = tuple(entry.message for entry in entries[self._first :])
        cost = None if self._unpriced else self._cost
        result: RunResult[Any] = RunResult(messages, self.usage, cost, aborted, limit=self._limit)
        return replace(result, output=result.text)
