"""Teams under test: made by hand or from descriptions, with a script for each agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planck_nb import Agent, AgentSpec, Team, orchestrator_tools, worker_tools
from planck_nb.agent import events as ev
from planck_nb.agent.calling.functions import ToolLike
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.ai.models import Pricing
from planck_nb.base.ids import new_id
from planck_nb.testing import Call, Reply, scripted_model

Script = Sequence[Any]
"""Replies and texts."""


def call(name: str, /, **args: object) -> Reply:
    """A reply that calls one tool."""
    return Reply(calls=[Call(name, args)])


def calls(*made: tuple[str, Mapping[str, object]]) -> Reply:
    """A reply that calls several tools at once."""
    return Reply(calls=[Call(name, dict(args)) for name, args in made])


class HandMade:
    """A team of agents that were made one by one with the same `team_id`."""

    def __init__(self, **shared: Any) -> None:
        self.id = new_id()
        self._shared = shared

    def lead(self, script: Script, *, name: str = "lead", tools: Iterable[ToolLike] = (), **options: Any) -> Agent:
        """Add the orchestrator. Options of `orchestrator_tools` are passed on."""
        given = {
            key: options.pop(key)
            for key in ("grantable_tools", "grantable_skills", "max_workers", "skill_pool", "host")
            if key in options
        }
        more = {"available_models": options["available_models"]} if "available_models" in options else {}
        inter_agent = orchestrator_tools(**given, **more)
        return self._agent(name, "orchestrator", script, [*inter_agent, *tools], options)

    def worker(self, name: str, script: Script = (), *, tools: Iterable[ToolLike] = (), **options: Any) -> Agent:
        """Add a worker."""
        return self._agent(name, options.pop("type", "worker"), script, [*worker_tools(), *tools], options)

    def _agent(self, name: str, kind: str, script: Script, tools: list[ToolLike], options: dict[str, Any]) -> Agent:
        model = options.pop("model", None) or scripted_model(list(script))
        options = {"team_id": self.id, **self._shared, **options}
        return Agent(name=name, type=kind, model=model, tools=tools, **options)


def team_from(
    lead: Script, *, options: dict[str, Any] | None = None, pricing: Pricing | None = None, **workers: Script
) -> Team:
    """A team from descriptions, not yet started: an orchestrator "lead", and workers by name."""
    scripts = {"lead": lead, **workers}
    models = [replace(scripted_model(list(script)), alias=name, pricing=pricing) for name, script in scripts.items()]
    given = dict(options or {})
    tools = given.pop("tools", {})
    specs = [
        AgentSpec("orchestrator" if name == "lead" else "worker", "demo", name, name=name, tools=tools.get(name, ()))
        for name in scripts
    ]
    return Team.from_specs(specs, available_models=models, **given)


def results(agent: Agent) -> list[str]:
    """The results of the agent's tool calls, in order."""
    return [
        part.text
        for entry in agent.state.messages
        if isinstance(entry.message, ToolResultMessage)
        for part in entry.message.content
    ]


def delegated(agent: Agent) -> list[ev.Delegated]:
    """The tasks that the agent gave."""
    return [event for event in agent.events.since(0) if isinstance(event, ev.Delegated)]


def responded(agent: Agent) -> list[ev.Responded]:
    """The responses that the agent got."""
    return [event for event in agent.events.since(0) if isinstance(event, ev.Responded)]
