"""Actions in a live view, for the agents in its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import RuleScope
from planck_nb.agent.run import Run
from planck_nb.agent.run_group import within_group
from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.run_agents import RunAgents
from planck_nb.jupyter.typed_keys import require_no_key

RUN_IS_OVER = "The run is over; send it as a new prompt."

SCOPES: Mapping[str | None, RuleScope] = {
    None: "agent",
    "agent": "agent",
    "role": "role",
    "all": "all",
    "prompt": "prompt",
}
"""Agents under a remembered decision, by the browser's word for them."""


class RunActions:
    """User actions in a run's live view.

    Args:
        agent: The run's agent.
        run: The run.
        on_prompt: Called with the run for each prompt from the view.
        runs: The cell's runs: this one, and those for prompts from its view.
    """

    def __init__(self, agent: Agent, run: Run, on_prompt: Callable[[Run], None], runs: Sequence[Run] = ()) -> None:
        self._agent = agent
        self._run = run
        self._on_prompt = on_prompt
        self._runs = runs
        self._stopped = False
        self._sent: list[tuple[Agent, Run]] = []
        self.agents = RunAgents(agent, run.events)
        """The agents in the run."""

    def stop(self, agent_id: str | None = None) -> None:
        """Abort the run, or only one agent's work.

        The cell's waiting prompts are removed first, else the next would start at once. They are shown as not sent, so
        the user can send them again.

        Args:
            agent_id: The agent to stop, which can be prompted again then; None for the whole run.

        Raises:
            UsageError: The agent does not take part in the run, or is not working.
        """
        if agent_id is not None:
            agent = self.agents.find(agent_id)
            if agent.status == "idle":
                raise UsageError(f"{agent.name} is not working, so there is nothing to stop.")
            self._take_back(agent)
            spawn(agent.abort(), name="planck stop of one agent")
            return
        self._stopped = True
        for waiting in self._runs:
            if waiting is not self._run and waiting.status == "queued":
                _remove(self._agent, waiting)
        for agent in {id(agent): agent for agent, _ in self._sent}.values():
            self._take_back(agent)
        self._run.abort()

    def steer(self, text: str, agent_id: str | None = None) -> None:
        """Steer an agent in the run.

        Args:
            text: A message to read before its next step.
            agent_id: The other agent, which must be working.

        Raises:
            AgentStoppedError: The agent is stopped.
            UsageError: The run was stopped, or the other agent does not take part in it or is not working.
        """
        self._require_going_on()
        agent = self.agents.find(agent_id)
        if agent_id is not None and agent.status == "idle":
            raise UsageError(f"{agent.name} is not working, so there is nothing to steer; send it a prompt instead.")
        self._send(agent, agent.steer, text)

    def queue(self, text: str) -> None:
        """Prompt the agent.

        Raises:
            AgentStoppedError: The agent is stopped.
            UsageError: The run was stopped.
        """
        self._require_going_on()
        self._send(self._agent, partial(self._agent.prompt, join=True), text)

    def _send(self, agent: Agent, send: Callable[[str], Run], text: str) -> None:
        """Send a text in a team's run, otherwise as a new run."""
        text = _checked(text)
        with within_group(self._run.whole or self._run.group):
            run = send(text)
        if run.group is None and agent is self._agent:
            self._on_prompt(run)
        else:
            self._sent.append((agent, run))

    def _take_back(self, agent: Agent) -> None:
        """Remove an agent's unread messages, so it does not act on them."""
        for other, run in self._sent:
            if other is agent and run.status == "queued":
                _remove(agent, run)
        self._sent = [(other, run) for other, run in self._sent if run.status == "queued"]

    def _require_going_on(self) -> None:
        if self._stopped:
            raise UsageError(RUN_IS_OVER)

    def edit_queued(self, prompt_id: str, text: str, agent_id: str | None = None) -> None:
        """Edit a queued prompt for an agent in the run.

        Raises:
            AgentError: The prompt has left the queue.
            UsageError: The other agent does not take part in the run.
        """
        self.agents.find(agent_id).edit_queued(prompt_id, _checked(text))

    def remove_queued(self, prompt_id: str, agent_id: str | None = None) -> None:
        """Remove a prompt from an agent's queue.

        Raises:
            AgentError: The prompt has left the queue.
            UsageError: The other agent does not take part in the run.
        """
        self.agents.find(agent_id).remove_queued(prompt_id)

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
        """Decide whether an agent's call may run.

        `Actions.decide` describes the arguments.

        Raises:
            AgentError: The call is no longer pending.
            UsageError: The agent does not take part in the run, or the scope is unknown.
        """
        agent = self.agents.find(agent_id)
        if scope not in SCOPES:
            raise UsageError(f"Decisions cannot be remembered for the scope {scope!r}; use 'agent', 'role' or 'all'.")
        agent.decide(call_id, allow=allow, args=args, remember=remember, reason=reason, scope=SCOPES[scope])


def _checked(text: str) -> str:
    """Return a typed text, which holds a key only after `-- `."""
    if text.startswith("-- "):
        return text.removeprefix("-- ")
    require_no_key(text)
    return text


def _remove(agent: Agent, run: Run) -> None:
    """Remove a prompt from the queue; views show it as not sent."""
    try:
        agent.remove_queued(run.id, returned=True)
    except AgentError:  # it waits for another event loop
        run.abort()
