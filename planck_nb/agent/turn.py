"""One turn of an agent: the prompts it answers, the model that is asked, what it may take, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from planck_nb.agent.limits import Crossed, Meter
from planck_nb.agent.output import Misfit, Wanted, correction
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
        self, runs: list[Run[Any]], model: Model, fallbacks: Iterable[Model], meter: Meter, first: int
    ) -> None:
        self.runs = runs
        self.model = model
        self.usage = Usage()
        self._cost: float | None = None
        self._unpriced = False
        self._fallbacks = tuple(fallbacks)
        self._meter = meter
        self._first = first
        self._output: object = None
        self._corrected = False
        self._limit = ""
        for run in runs:
            run.status = "running"

    @property
    def wanted(self) -> Wanted | None:
        """The form that the answer has to have."""
        return self.runs[0].wanted if self.runs else None

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

    def heard(self, characters: int) -> bool:
        """Take in that the model wrote so much more; whether a limit is reached."""
        return self._meter.heard(characters, self.model)

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may go on, None where there is no limit."""
        return self._meter.seconds_left

    def count(self, reply: AssistantMessage) -> None:
        """Take in a reply, complete or cut."""
        self._meter.counted(reply, self.model)
        if reply.cost is None:
            self._unpriced = True
        else:
            self._cost = (self._cost or 0.0) + reply.cost
        if reply.usage is not None:
            self.usage += reply.usage

    def crossed(self) -> Crossed | None:
        """The limit that is reached, None while all hold."""
        crossed = self._meter.crossed(self.model)
        if crossed is not None:
            self._limit = crossed[1]
        return crossed

    @property
    def begun(self) -> bool:
        """Whether the model has said something."""
        return self._meter.rounds > 0

    def correction(self, answer: AssistantMessage) -> UserMessage | None:
        """What to tell the model about its final answer, None where it is as wanted. Raises `OutputError`."""
        form = self.wanted
        if form is None:
            return None
        try:
            self._output = form.read(answer.text)
        except Misfit as problems:
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
            run.settle(status, error or (replace(result, output=self._output) if run.wanted else result))

    def _result(self, entries: Sequence[Entry], *, aborted: bool) -> RunResult[Any]:
        messages = tuple(entry.message for entry in entries[self._first :])
        cost = None if self._unpriced else self._cost
        result: RunResult[Any] = RunResult(messages, self.usage, cost, aborted, limit=self._limit)
        return replace(result, output=result.text)
