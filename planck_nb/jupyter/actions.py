"""What a person may do to a run from its live view."""

from __future__ import annotations

from typing import Protocol

from planck_nb.agent.agent import Agent
from planck_nb.agent.run import Run
from planck_nb.base.json import JsonObject


class Actions(Protocol):
    """What the live view of a run can ask for. Each returns at once and may raise a `PlanckError`, which is shown."""

    def stop(self) -> None:
        """End the run; what was said so far is kept."""
        ...

    def steer(self, text: str) -> None:
        """Say something that the agent reads before its next step."""
        ...

    def queue(self, text: str) -> None:
        """Say something that the agent takes up when the running turn is over."""
        ...

    def edit_queued(self, prompt_id: str, text: str) -> None:
        """Put another text in the place of a prompt that waits."""
        ...

    def remove_queued(self, prompt_id: str) -> None:
        """Take back a prompt that waits."""
        ...

    def decide(self, call_id: str, *, allow: bool, args: JsonObject | None, remember: bool, reason: str) -> None:
        """Decide whether a call may run; `args` replace its arguments, None leaves them as they are.

        `remember` has calls like this one decided the same way from now on. `reason` is told to the model when the
        call is denied.
        """
        ...


class RunActions:
    """The actions of a run that an agent does."""

    def __init__(self, agent: Agent, run: Run) -> None:
        self._agent = agent
        self._run = run

    def stop(self) -> None:
        """Abort the run."""
        self._run.abort()

    def steer(self, text: str) -> None:
        """Steer the agent."""
        self._agent.steer(text)

    def queue(self, text: str) -> None:
        """Prompt the agent."""
        self._agent.prompt(text)

    def edit_queued(self, prompt_id: str, text: str) -> None:
        """Edit a prompt that waits for the agent."""
        self._agent.edit_queued(prompt_id, text)

    def remove_queued(self, prompt_id: str) -> None:
        """Take back a prompt that waits for the agent."""
        self._agent.remove_queued(prompt_id)

    def decide(self, call_id: str, *, allow: bool, args: JsonObject | None, remember: bool, reason: str) -> None:
        """Answer what the agent asks."""
        self._agent.decide(call_id, allow=allow, args=args, remember=remember, reason=reason)
