"""One prompt to several agents, and their answers in one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import counted, one_line
from planck_nb.jupyter.controller import SYSTEM_PROMPT, Controller
from planck_nb.jupyter.display.summary_table import SummaryTable
from planck_nb.jupyter.transcript.answer import Answer
from planck_nb.rendering.formatting import elapsed
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace.agent_names import named_agents

MAX_COLUMNS = 12
"""Largest number of answers side by side."""

_BEGINNING = 60
_UNUSABLE = re.compile(r"[^\w.-]+")
_FOR_ONE = ("model", "base-url", "key-var", "team", "background")


@dataclass(slots=True)
class Columns:
    """The agents side by side, which the next comparison replaces.

    Args:
        controller: The notebook's controller.
    """

    controller: Controller
    _agents: dict[str, Agent] = field(default_factory=dict[str, Agent])

    async def create(self, options: Mapping[str, Any]) -> list[Agent]:
        """Create an agent for each answer, like the prompted one.

        Args:
            options: The prompt's options, with `models` or `repeat`.

        Returns:
            The agents, each without a conversation.

        Raises:
            UsageError: The options do not fit together, or a model is there twice.
            ModelError: A model is unknown.
        """
        for name in _FOR_ONE:
            if name in options:
                raise UsageError(f"--{name} is for a single answer; leave it out beside --models and --repeat.")
        workspace = self.controller.workspace
        base = self._base(options)
        repeat = options.get("repeat", 1)
        names = options.get("models", ())
        if max(1, len(names)) * repeat > MAX_COLUMNS:
            raise UsageError(
                f"{max(1, len(names)) * repeat:,} answers are too many side by side, at most {MAX_COLUMNS} fit; "
                "`workspace.evaluate` compares more."
            )
        models = [await workspace.find_model(name) for name in names]
        for model in models:
            if sum(str(other) == str(model) for other in models) > 1:
                raise UsageError(f"The model {model} is there twice; --repeat asks it several times.")
        if not models:
            models = [(await workspace.default_model())[0] if base is None else base.model]
        return [await self._agent(base, model, number, repeat) for model in models for number in range(1, repeat + 1)]

    async def remove(self, agents: Sequence[Agent]) -> None:
        """Remove agents after a failed start."""
        for agent in agents:
            if self.controller.workspace.agents.get(agent.name) is agent:
                await self.controller.workspace.remove_agent(agent.name)

    def _base(self, options: Mapping[str, Any]) -> Agent | None:
        """Return the prompted agent, None if it is new."""
        name = str(options.get("agent", self.controller.default))
        if name in self.controller.workspace.teams:
            raise UsageError(f"{name} is a team; --models and --repeat are for single agents.")
        return named_agents(self.controller.workspace).get(name)

    async def _agent(self, base: Agent | None, model: Model, number: int, repeat: int) -> Agent:
        workspace = self.controller.workspace
        name = await self._free_name(_UNUSABLE.sub("-", model.id).strip("-.") + (f"-{number}" if repeat > 1 else ""))
        if base is None:
            agent = workspace.add_agent(name, model=model, system_prompt=SYSTEM_PROMPT)
        else:
            agent = workspace.add_agent(
                name, model=model, system_prompt=base.system_prompt, tools=base.tools, options=base.options
            )
        self._agents[name] = agent
        return agent

    async def _free_name(self, name: str) -> str:
        """Return the name, with a letter if it is taken."""
        candidates = (name, *(f"{name}-{letter}" for letter in "bcdefghijklmnopqrstuvwxyz"))
        for candidate in candidates:
            agent = self.controller.workspace.agents.get(candidate)
            if agent is None:
                return candidate
            if self._agents.get(candidate) is agent and agent.status == "idle":
                await self.controller.workspace.remove_agent(candidate)
                return candidate
        raise UsageError(f"All agents' names like {name} are taken; remove one with `%planck remove`.")


class Comparison(Mapping[str, Answer]):
    """Answers to one prompt by agent name.

    Args:
        answers: The answers.
        shown_in: Execution count for the cell which has shown them.
    """

    def __init__(self, answers: Mapping[str, Answer], *, shown_in: object = None) -> None:
        self._answers = dict(answers)
        self._shown_in = shown_in

    def __getitem__(self, name: str) -> Answer:
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    def __repr__(self) -> str:
        return for_terminal(self.mime_bundle()[0]["text/plain"])

    def was_shown_in(self, cell: object) -> bool:
        """Return whether this cell execution has shown the answers already.

        Args:
            cell: The cell's execution count.
        """
        return self._shown_in is not None and self._shown_in == cell

    @property
    def figures(self) -> str:
        """Return the number of answers in words."""
        return f"{counted(len(self._answers), 'answer')} side by side"

    def mime_bundle(self) -> tuple[dict[str, str], JsonObject]:
        """Return a table with the folded answers by MIME type, and metadata."""
        table = SummaryTable(
            ("answer", "begins", ">time", ">tokens", ">cost"),
            [_row(name, answer) for name, answer in self._answers.items()],
            self.figures,
        )
        bundles = {name: answer.transcript.bundle() for name, answer in self._answers.items()}
        sections = [
            f"<details><summary>{escape(name)}</summary>{bundle['text/html']}</details>"
            for name, bundle in bundles.items()
        ]
        markdown = [f"**{name}**\n\n{bundle['text/markdown']}" for name, bundle in bundles.items()]
        texts = [f"{name}:\n{bundle['text/plain']}" for name, bundle in bundles.items()]
        by_type = {
            "text/html": f"<div>{table.html()}{''.join(sections)}</div>",
            "text/markdown": "\n\n".join(markdown),
            "text/plain": "\n\n".join([table.text(), *texts]),
        }
        return by_type, {}


def _row(name: str, answer: Answer) -> tuple[str, ...]:
    transcript = answer.transcript
    begins = f"{answer.outcome}: {transcript.error}" if transcript.error is not None else answer.text
    if transcript.error is None and answer.outcome != "done":
        begins = f"{answer.outcome}: {begins}"
    time = elapsed(transcript.seconds) if transcript.timed else ""
    tokens, cost = transcript.spent
    return name, one_line(begins, _BEGINNING), time, tokens.removesuffix(" tokens"), cost
