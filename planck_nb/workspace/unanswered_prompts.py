"""The prompts that waited when the process of a session ended: offered to the user, and sent or dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from planck_nb.agent.agent_access import forget_queued, send_again
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError
from planck_nb.base.text import one_line
from planck_nb.sessions import UnansweredPrompt
from planck_nb.workspace.agent_registry import AgentRegistry

_SHOWN = 80
"""Characters of an unanswered prompt that a notice shows."""


class UnansweredPrompts:
    """The unanswered prompts of the open session.

    Args:
        registry: Finds the agents that the prompts are for.
    """

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._prompts: dict[str, UnansweredPrompt] = {}

    def replace(self, prompts: Iterable[UnansweredPrompt]) -> None:
        """Offer these prompts from now on, instead of the current ones."""
        self._prompts = {prompt.id: prompt for prompt in prompts}

    def clear(self) -> None:
        """Stop offering prompts, without a record in the session."""
        self._prompts = {}

    def forget(self) -> None:
        """Stop offering prompts, and record that none is to be answered."""
        for prompt in self.all():
            forget_queued(self._registry.by_id(prompt.agent_id), prompt.id)
        self.clear()

    def take_of_agents(self) -> list[UnansweredPrompt]:
        """Remove and return the prompts that other agents sent, and record that none of them is to be answered."""
        taken = [prompt for prompt in self.all() if prompt.sender_id is not None]
        for prompt in taken:
            forget_queued(self._registry.by_id(prompt.agent_id), prompt.id)
            del self._prompts[prompt.id]
        return taken

    def all(self) -> tuple[UnansweredPrompt, ...]:
        """The prompts to agents that exist."""
        return tuple(prompt for prompt in self._prompts.values() if prompt.agent_id in self._registry)

    def send(self, prompt_ids: Sequence[str] = ()) -> list[Run[Any]]:
        """Send prompts, all if none is named. Returns their runs, in the order of `all`."""
        chosen = self._choose(prompt_ids)
        runs: dict[str, Run[Any]] = {}
        for agent_id in dict.fromkeys(prompt.agent_id for prompt in chosen):
            prompts = [prompt for prompt in chosen if prompt.agent_id == agent_id]
            again = [(prompt.id, prompt.message, prompt.output, prompt.join) for prompt in prompts]
            runs |= {run.id: run for run in send_again(self._registry.by_id(agent_id), again)}
            for prompt in prompts:
                del self._prompts[prompt.id]
        return [runs[prompt.id] for prompt in chosen]

    def drop(self, prompt_ids: Sequence[str] = ()) -> None:
        """Record that prompts, all if none is named, are not to be answered, and stop offering them."""
        for prompt in self._choose(prompt_ids):
            forget_queued(self._registry.by_id(prompt.agent_id), prompt.id)
            del self._prompts[prompt.id]

    def _choose(self, prompt_ids: Sequence[str]) -> list[UnansweredPrompt]:
        offered = self.all()
        for prompt_id in prompt_ids:
            if all(prompt.id != prompt_id for prompt in offered):
                raise AgentError(f"There is no unanswered prompt {prompt_id}; `%planck queue` lists them.")
        return [prompt for prompt in offered if not prompt_ids or prompt.id in prompt_ids]

    def offers(self) -> list[str]:
        """A sentence for each agent that has unanswered prompts."""
        sentences: list[str] = []
        for agent in self._registry:
            prompts = [prompt for prompt in self.all() if prompt.agent_id == agent.id]
            if not prompts:
                continue
            texts = ", ".join(f"“{one_line(prompt.text, _SHOWN)}”" for prompt in prompts)
            gone = "" if all(prompt.complete for prompt in prompts) else " Images and files cannot be read."
            number, them = ("a prompt", "it") if len(prompts) == 1 else (f"{len(prompts)} prompts", "them")
            sentences.append(
                f"The session ended before {agent.name} answered {number}: {texts}.{gone} "
                f"`%planck queue {agent.name} --send` sends {them} now, "
                f"`%planck queue {agent.name} --drop` removes {them}."
            )
        return sentences
