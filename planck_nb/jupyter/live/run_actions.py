"""The actions of a live view, carried out by the agent of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import RuleScope
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.json_types import JsonObject

RUN_IS_OVER = "The run is over; send it as a new prompt."

SCOPES: Mapping[str | None, RuleScope] = {None: "agent", "agent": "agent", "role": "role", "all": "all"}
"""Which agents a remembered decision is for, by what the browser sends."""


class RunActions:
    """Carries out what a user does in the live view of a run.

    Args:
        agent: The agent of the run.
        run: The run.
        on_prompt: Called with the run of each prompt that the user sends from the view.
        runs: The runs of the cell: this one, and those of the prompts that were sent while they were shown.
    """

    def __init__(self, agent: Agent, run: Run, on_prompt: Callable[[Run], None], runs: Sequence[Run] = ()) -> None:
        self._agent = agent
        self._run = run
        self._on_prompt = on_prompt
        self._runs = runs
        self._stopped = False

    def stop(self) -> None:
        """Abort the run.

        Prompts of the same cell that wait are removed first, else the next would start at once. They are shown as not
        sent, so that the user can send them again.
        """
        self._stopped = True
        for waiting in self._runs:
            if waiting is not self._run and waiting.status == "queued":
                try:
                    self._agent.remove_queued(waiting.id, returned=True)
                except AgentError:  # it waits for another event loop
                    waiting.abort()
        self._run.abort()

    def steer(self, text: str) -> None:
        """Steer the agent.

        Raises:
            AgentStoppedError: The agent is stopped.
            UsageError: The run was stopped.
        """
        self._require_going_on()
        self._on_prompt(self._agent.steer(text))

    def queue(self, text: str) -> None:
        """Prompt the agent.

        Raises:
            AgentStoppedError: The agent is stopped.
            UsageError: The run was stopped.
        """
        self._require_going_on()
        self._on_prompt(self._agent.prompt(text, join=True))

    def _require_going_on(self) -> None:
        if self._stopped:
            raise UsageError(RUN_IS_OVER)

    def edit_queued(self, prompt_id: str, text: str) -> None:
        """Edit a queued prompt.

        Raises:
            AgentError: The prompt is no longer in the queue.
        """
        self._agent.edit_queued(prompt_id, text)

    def remove_queued(self, prompt_id: str) -> None:
        """Remove a prompt from the queue.

        Raises:
            AgentError: The prompt is no longer in the queue.
        """
        self._agent.remove_queued(prompt_id)

    def decide(
        self,
        call_id: str,
        *,
        allow: bool,
        args: JsonObject | None,
        remember: bool,
        reason: str,
        agent_id: str | None = None,
        scope: str | None = None,
    ) -> None:
        """Decide whether a call of the agent may run; `Actions.decide` describes the arguments.

        Raises:
            AgentError: The call is no longer pending.
            UsageError: The call is another agent's, or there is no such scope.
        """
        if agent_id not in {None, self._agent.id}:
            raise UsageError("This view cannot decide calls of other agents; decide it where that agent runs.")
        if scope not in SCOPES:
            raise UsageError(f"Decisions cannot be remembered for the scope {scope!r}; use 'agent', 'role' or 'all'.")
        self._agent.decide(call_id, allow=allow, args=args, remember=remember, reason=reason, scope=SCOPES[scope])
