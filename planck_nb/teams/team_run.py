"""One prompt to a team, from the orchestrator's first turn until nothing that the prompt caused is open."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import participant_of
from planck_nb.agent.output import OutputMismatch, OutputSpec, output_spec
from planck_nb.agent.run import Run
from planck_nb.agent.run_group import GroupedTurn, RunGroup, within_group
from planck_nb.agent.run_result import RunResult
from planck_nb.ai.messages import AssistantMessage, Message, Usage, UserPart
from planck_nb.base.errors import AgentError, LimitError
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject

T = TypeVar("T")

FINAL_ANSWER = "All that you have delegated is done. Give the final answer now, as the JSON that is asked for."
"""The prompt for a structured answer, once nothing is open any more."""


@dataclass(frozen=True, slots=True, repr=False)
class TeamResult(RunResult[T]):
    """The result of a prompt to a team.

    `messages`, `usage` and `cost` cover every member. `text` is that of the orchestrator's last reply.

    Args:
        final: The orchestrator's last reply, None if it made none.
        turns: The outcome of each turn: the id of the agent and the result, in the order in which they ended.
    """

    final: AssistantMessage | None = None
    turns: tuple[tuple[str, RunResult[Any]], ...] = ()

    @property
    def reply(self) -> AssistantMessage | None:
        """The orchestrator's last reply, None if it made none."""
        return self.final


class TeamRun:
    """Answers one prompt with a team.

    Args:
        orchestrator: The agent that gets the prompt.
        content: The prompt.
        output: What the final answer must be, None for text.

    Raises:
        NoRunningLoopError: Outside an event loop.
        AgentStoppedError: The team was stopped.
        UsageError: The prompt is empty.
    """

    def __init__(
        self, orchestrator: Agent, content: str | Sequence[UserPart], output: type[Any] | JsonObject | None
    ) -> None:
        self._orchestrator = orchestrator
        self._output = output
        self._spec: OutputSpec | None = None if output is None else output_spec(output)
        self._final: Run[Any] | None = None
        self._group = RunGroup(orchestrator.limits, self._on_idle)
        with self._group.held():  # until there is a run to settle
            first = self._prompt(content)
            self.run: Run[Any] = Run(
                new_id(),
                first.prompt,
                lambda _: self._group.abort(),
                self._spec,
                agent=participant_of(orchestrator),
                loop=first.loop,
            )
            self.run.events = self._group.events
            self.run.whole = self._group
            self.run.answered_by = orchestrator.id
            self.run.status = "running"

    def _prompt(self, content: str | Sequence[UserPart], output: Any = None) -> Run[Any]:  # noqa: ANN401
        def prompt() -> Run[Any]:
            with within_group(self._group):
                return self._orchestrator.prompt(content, output=output)

        return copy_context().run(prompt)

    def _on_idle(self) -> bool:
        """When nothing is open any more, settle the run, or ask for a missing structured answer and return False."""
        group = self._group
        last = self._last_turn()
        if group.is_aborted or last is None or last.result.aborted:
            self.run.settle("aborted", self._result(last, aborted=True))
        elif last.error is not None:
            result = self._result(last, limit=str(last.error))
            if isinstance(last.error, LimitError) and result.reply is not None:
                self.run.settle("done", result)
            else:
                self.run.settle("failed", last.error)
        elif self._spec is None:
            self.run.settle("done", self._result(last))
        elif self._final is not None and isinstance(self._final.outcome, RunResult):
            self.run.settle("done", self._result(last, output=self._final.outcome.output))
        else:
            return self._settle_with_output(last, self._spec)
        return True

    def _settle_with_output(self, last: GroupedTurn, spec: OutputSpec) -> bool:
        """Settle the run if the last reply happens to be the structured answer; else ask for it in another turn."""
        try:
            self.run.settle("done", self._result(last, output=spec.read(last.result.text)))
        except OutputMismatch:
            try:
                self._final = self._prompt(FINAL_ANSWER, self._output)
            except AgentError as error:  # the team was stopped meanwhile
                self.run.settle("failed", error)
            else:
                return False
        return True

    def _last_turn(self) -> GroupedTurn | None:
        turns = (turn for turn in reversed(self._group.turns) if turn.agent_id == self._orchestrator.id)
        return next(turns, None)

    def _result(
        self, last: GroupedTurn | None, *, aborted: bool = False, output: object = None, limit: str = ""
    ) -> TeamResult[Any]:
        turns = self._group.turns
        messages: tuple[Message, ...] = tuple(message for turn in turns for message in turn.result.messages)
        costs = [turn.result.cost for turn in turns if turn.result.usage != Usage()]
        usage = Usage()
        for turn in turns:
            usage += turn.result.usage
        own = [turn.result.reply for turn in turns if turn.agent_id == self._orchestrator.id]
        final = next((reply for reply in reversed(own) if reply is not None), None)
        result: TeamResult[Any] = TeamResult(
            messages,
            usage,
            None if not costs or None in costs else sum(cost or 0.0 for cost in costs),
            aborted,
            limit=limit or ("" if last is None else last.result.limit),
            warning="" if last is None else last.result.warning,
            final=final,
            turns=tuple((turn.agent_id, turn.result) for turn in turns),
        )
        return replace(result, output=result.text if self._spec is None else output)
