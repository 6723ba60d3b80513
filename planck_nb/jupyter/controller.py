"""Prompts without IPython: finds or creates the agent, and starts the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from planck_nb.agent.agent import Agent, compactor_of, use_compactor
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.jupyter import namespace as notebook
from planck_nb.jupyter.expansion import expanded, hint
from planck_nb.jupyter.mentions import mentions, without_secrets
from planck_nb.workspace import Workspace

Namespace: TypeAlias = Mapping[str, object]

DEFAULT_AGENT = "planck"
SYSTEM_PROMPT = (
    "You work in a Jupyter notebook, beside the person who writes it. Use your tools when they help. "
    "Answer in short, plain Markdown."
)


@dataclass(frozen=True, slots=True)
class Started:
    """A run that was started, and those to show after it. `notice` has the lines to show first; it may be empty."""

    agent: Agent
    run: Run
    notice: str
    later: tuple[Run, ...] = ()


class Controller:
    """The state behind the magics of one notebook: a workspace, and the agent that was prompted last.

    Args:
        workspace: The notebook's workspace.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.current = DEFAULT_AGENT
        """Name of the agent that was prompted last."""
        self.shown_calls: set[tuple[str, str, float]] = set()
        """The waiting calls that were shown as text: the id of the agent, all of the text, and the deadline."""
        self._making = asyncio.Lock()
        self._cells: list[tuple[Agent, list[Run]]] = []

    async def start(self, prompt: str, options: Mapping[str, Any], namespace: Namespace) -> Started:
        """Prompt an agent: the one that the options name, else the one that was prompted last.

        Args:
            prompt: The text of the prompt. `@name` in it hands over a function of the notebook, or shows a value.
            options: Values of `planck_nb.jupyter.options.OPTIONS` by name.
            namespace: The variables of the notebook.

        Returns:
            The run with its agent.

        Raises:
            PlanckError: There is no prompt, or an option cannot be used. Nothing was sent.
        """
        if not prompt.strip():
            raise UsageError("There is no prompt; write it after %planck, or on the lines below %%planck.")
        if options.get("tools") or options.get("agent", self.current) not in self.workspace.agents:
            self.workspace.require_trust()
        handed_over = mentions(prompt, namespace, options.get("with", ()))
        text, explanations = prompt.strip(), handed_over.notices  # mentions are those that were typed, not in a value
        if options.get("expand"):
            text, found = expanded(text, namespace, options.get("with", ()))
            explanations += found
        else:
            explanations += (hint(text, namespace),)
        values = [
            without_secrets(name, notebook.describe(name, namespace[name]), options.get("with", ()))
            for name in handed_over.values
        ]
        named = [*options.get("tools", ()), *handed_over.functions]
        tools = notebook.tools_named(named, namespace, self.workspace.toolbox) if named else []
        compactors = self.workspace.compactors
        compactors.own = namespace
        if "compactor" in options:
            compactors.named(options["compactor"])  # before anything else changes
        for rule in (*options.get("allow", ()), *options.get("deny", ())):
            self.workspace.approvals.remember(rule)
        async with self._making:
            agent, notice = await self._agent(options)
        notices = [*self.workspace.notices(), notice, *explanations]
        for tool in tools:
            agent.add_tool(tool)
        _configure(agent, options)
        await self.workspace.save_session_settings()
        run = agent.prompt("\n\n".join([text, *values]), join=True)
        return Started(agent, run, "\n".join(filter(None, notices)))

    def agent(self, name: str = "") -> Agent:
        """Return the agent of this name, or the one that was prompted last.

        Args:
            name: The agent's name; empty for the agent that was prompted last.

        Returns:
            The agent.

        Raises:
            AgentError: There is no such agent.
        """
        if not self.workspace.agents:
            raise AgentError("There is no agent yet; the first prompt makes one.")
        return self.workspace.agent(name or self.current)

    async def next_agent(self) -> Agent:
        """Return the agent that gets the next prompt; if that is still to be created, one like it.

        Returns:
            The agent.

        Raises:
            PlanckError: No model can be used.
        """
        if self.current in self.workspace.agents:
            return self.agent()
        model, _ = await self.workspace.default_model()
        prompt_parts = self.workspace.toolbox.prompt_parts
        return Agent(name=self.current, model=model, system_prompt=SYSTEM_PROMPT, prompt_parts=prompt_parts)

    @contextmanager
    def shown(self, agent: Agent, runs: list[Run]) -> Iterator[None]:
        """While a cell shows these runs one after another, add the runs that `steer` starts to them."""
        cell = (agent, runs)
        self._cells.append(cell)
        try:
            yield
        finally:
            self._cells.remove(cell)

    def steer(self, agent: Agent, text: str) -> None:
        """Steer the agent.

        If its turn ends before it reads the text, the text becomes a prompt, and the cell that shows the turn shows
        the answer as well.

        Args:
            agent: The agent, which is running.
            text: What it is to read before its next step.
        """
        run = agent.steer(text)
        for shown, runs in self._cells:
            if shown is agent and any(other.status == "running" for other in runs):
                runs.append(run)
                break

    def choose_current(self) -> None:
        """If the agent that was prompted last is gone, let the first agent get the next prompt."""
        if self.workspace.agents and self.current not in self.workspace.agents:
            self.current = next(iter(self.workspace.agents))

    async def close(self) -> None:
        """Close the workspace, which stops all agents."""
        await self.workspace.close()

    async def _agent(self, options: Mapping[str, Any]) -> tuple[Agent, str]:
        """The agent that the options name, created if it does not exist; and a notice about its model."""
        name = options.get("agent", self.current)
        base_url = options.get("base-url")
        if base_url and "model" not in options:
            raise UsageError("--base-url needs --model: it is the address of that model's server.")
        model = await self.workspace.find_model(options["model"], base_url=base_url) if "model" in options else None
        notice = ""
        before = self.workspace.agents.get(name)
        if before is None:
            if model is None:
                model, notice = await self.workspace.default_model()
            own = options.get("compactor")
            agent = self.workspace.add_agent(name, model=model, system_prompt=SYSTEM_PROMPT, on_compact=own)
        elif options.get("new"):
            agent = await self._replace_with_empty(before)
        else:
            agent = before
        if before is not None and "compactor" in options:
            use_compactor(agent, self.workspace.compactor(options["compactor"]))
        if model is not None and agent.model != model:
            agent.model = model
        self.current = name
        return agent, notice

    async def _replace_with_empty(self, before: Agent) -> Agent:
        """Replace the agent by one with an empty conversation."""
        await self.workspace.remove_agent(before.name)
        return self.workspace.add_agent(
            before.name,
            model=before.model,
            system_prompt=before.system_prompt,
            tools=before.tools,
            options=before.options,
            description=before.description,
            on_compact=compactor_of(before),
        )


def _configure(agent: Agent, options: Mapping[str, Any]) -> None:
    """Apply the options that change how the agent answers from now on."""
    if "system" in options and options["system"] != agent.system_prompt:
        agent.system_prompt = options["system"]
    fields = {"max-tokens": "max_tokens", "temperature": "temperature", "thinking": "thinking"}
    changed = {field: options[name] for name, field in fields.items() if name in options}
    if changed:
        agent.options = replace(agent.options, **changed)
