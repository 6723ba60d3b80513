"""What a person does in the live view of a run, done to the agent."""

from __future__ import annotations

from collections.abc import Callable

from planck_nb.agent.agent import Agent
from planck_nb.agent.run import Run
from planck_nb.base.json_types import JsonObject


class RunActions:
    """The actions of a run that an agent does; `said` is given the run of each prompt that comes of them."""

    def __init__(self, agent: Agent, run: Run, said: Callable[[Run], None]) -> None:
        self._agent = agent
        self._run = run
        self._said = said

    def stop(self) -> None:
        """Abort the run."""
        self._run.abort()

    def steer(self, text: str) -> None:
        """Steer the agent."""
        self._said(self._agent.steer(text))

    def queue(self, text: str) -> None:
        """Prompt the agent."""
        self._said(self._agent.prompt(text))

    def edit_queued(self, prompt_id: str, text: str) -> None:
        """Edit a prompt that waits for the agent."""
        self._agent.edit_queued(prompt_id, text)

    def remove_queued(self, prompt_id: str) -> None:
        """Take back a prompt that waits for the agent."""
        self._agent.remove_queued(prompt_id)

    def decide(self, call_id: str, *, allow: bool, args: JsonObject | None, remember: bool, reason: str) -> None:
        """Answer what the agent asks."""
        self._agent.decide(call_id, allow=allow, args=args, remember=remember, reason=reason)
