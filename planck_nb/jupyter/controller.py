"""What a prompt in a cell does, without IPython: finds or makes the agent, and starts the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from planck_nb.agent.agent import Agent
from planck_nb.agent.run import Run
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.jupyter import namespace as notebook
from planck_nb.workspace import Workspace

Namespace: TypeAlias = Mapping[str, object]

DEFAULT_AGENT = "planck"
SYSTEM_PROMPT = (
    "You work in a Jupyter notebook, beside the person who writes it. Use your tools when they help. "
    "Answer in short, plain Markdown."
)


@dataclass(frozen=True, slots=True)
class Started:
    """A run on its way. `notice` is a line to show first, empty when there is nothing to say."""

    agent: Agent
    run: Run
    notice: str


class Controller:
    """The state behind the magics of one notebook: a workspace and the agent one talks to."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.current = DEFAULT_AGENT
        """Name of the agent that was talked to last."""
        self._making = asyncio.Lock()
        self._cells: list[tuple[Agent, list[Run]]] = []

    async def start(self, prompt: str, options: Mapping[str, Any], namespace: Namespace) -> Started:
        """Prompt an agent: the named one, else the one talked to last. Raises a `PlanckError` before anything runs."""
        if not prompt.strip():
            raise UsageError("There is no prompt; write it after %planck, or on the lines below %%planck.")
        mentioned = notebook.mentioned(prompt, namespace)
        functions = [name for name in mentioned if notebook.is_function(namespace[name])]
        values = [notebook.describe(name, namespace[name]) for name in mentioned if name not in functions]
        named = [*options.get("tools", ()), *functions]
        tools = notebook.tools_named(named, namespace, self.workspace.toolbox) if named else []
        for rule in (*options.get("allow", ()), *options.get("deny", ())):
            self.workspace.approvals.remember(rule)
        async with self._making:
            agent, notice = await self._agent(options)
        for tool in tools:
            agent.add_tool(tool)
        _configure(agent, options)
        await self.workspace.save_session_settings()
        return Started(agent, agent.prompt("\n\n".join([prompt.strip(), *values])), notice)

    def agent(self, written: str = "") -> Agent:
        """The agent of this name, in quotes or without; with no name the one talked to last. Raises `AgentError`."""
        agents = self.workspace.agents
        if not agents:
            raise AgentError("There is no agent yet; the first prompt makes one.")
        name = written or self.current
        if name not in agents and name[0] == name[-1] and name[0] in "'\"":
            name = name[1:-1]
        return self.workspace.agent(name)

    async def agent_to_show(self, written: str = "") -> Agent:
        """The agent of this name, else the one that the next prompt goes to; where it would be made, one like it."""
        if written or self.current in self.workspace.agents:
            return self.agent(written)
        model, _ = await self.workspace.default_model()
        prompt_parts = self.workspace.toolbox.prompt_parts
        return Agent(name=self.current, model=model, system_prompt=SYSTEM_PROMPT, prompt_parts=prompt_parts)

    @contextmanager
    def shown(self, agent: Agent, runs: list[Run]) -> Iterator[None]:
        """While a cell shows these runs one after another, what steers the one that runs joins them."""
        cell = (agent, runs)
        self._cells.append(cell)
        try:
            yield
        finally:
            self._cells.remove(cell)

    def steer(self, agent: Agent, text: str) -> None:
        """Steer the agent. Should its turn end before it reads that, the cell that shows the turn shows the answer."""
        run = agent.steer(text)
        for shown, runs in self._cells:
            if shown is agent and any(other.status == "running" for other in runs):
                runs.append(run)
                break

    def choose_current(self) -> None:
        """Talk to an agent that is there: the one of before, else the first."""
        if self.workspace.agents and self.current not in self.workspace.agents:
            self.current = next(iter(self.workspace.agents))

    async def close(self) -> None:
        """Stop everything."""
        await self.workspace.close()

    async def _agent(self, options: Mapping[str, Any]) -> tuple[Agent, str]:
        """The agent that the options ask for, made where there is none yet."""
        name = options.get("agent", self.current)
        base_url = options.get("base-url")
        if base_url and "model" not in options:
            raise UsageError("--base-url goes with --model: it says where that model's server is.")
        model = self.workspace.model(options["model"], base_url=base_url) if "model" in options else None
        notice = ""
        before = self.workspace.agents.get(name)
        if before is None:
            if model is None:
                model, notice = await self.workspace.default_model()
            agent = self.workspace.add_agent(name, model=model, system_prompt=SYSTEM_PROMPT)
        elif options.get("new"):
            agent = await self._afresh(before)
        else:
            agent = before
        if model is not None and agent.model != model:
            agent.model = model
        self.current = name
        return agent, notice

    async def _afresh(self, before: Agent) -> Agent:
        """Put an agent with an empty conversation in the place of another."""
        await self.workspace.remove_agent(before.name)
        return self.workspace.add_agent(
            before.name,
            model=before.model,
            system_prompt=before.system_prompt,
            tools=before.tools,
            options=before.options,
        )


def _configure(agent: Agent, options: Mapping[str, Any]) -> None:
    """Apply the options that say how the agent answers from now on."""
    if "system" in options and options["system"] != agent.system_prompt:
        agent.system_prompt = options["system"]
    fields = {"max-tokens": "max_tokens", "temperature": "temperature", "thinking": "thinking"}
    wished = {field: options[name] for name, field in fields.items() if name in options}
    if wished:
        agent.options = replace(agent.options, **wished)
