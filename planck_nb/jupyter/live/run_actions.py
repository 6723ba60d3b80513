"""The actions of a live view, carried out by the agent of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import RuleScope
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.json_types import JsonObject

SCOPES: Mapping[str | None, RuleScope] = {None: "agent", "agent": "agent", "role": "role", "all": "all"}
"""Which agents a remembered decision is for, by what the browser sends."""


def stop_and_give_back(agent: Agent, run: Run, runs: Sequence[Run]) -> None:
    """Abort a run of a cell. Prompts of the same cell that wait are removed first, else the next would start at once.

    Args:
        agent: The agent of the runs.
        run: The run to abort.
        runs: The runs of the cell. Those that wait are shown as not sent, so that the user can send them again.
    """
    for waiting in runs:
        if waiting is not run and waiting.status == "queued":
            try:
                agent.remove_queued(waiting.id, returned=True)
            except AgentError:  # it waits for another event loop
                waiting.abort()
    run.abort()


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

    def stop(self) -> None:
        """Abort the run, and give the prompts that wait behind it back to the user."""
        stop_and_give_back(self._agent, self._run, self._runs)

    def steer(self, text: str) -> None:
        """Steer the agent.

        Raises:
            AgentStoppedError: The agent is stopped.
        """
        self._on_prompt(self._agent.steer(text))

    def queue(self, text: str) -> None:
        """Prompt the agent.

        Raises:
            AgentStoppedError: The agent is stopped.
        """
        self._on_prompt(self._agent.prompt(text, join=True))

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
