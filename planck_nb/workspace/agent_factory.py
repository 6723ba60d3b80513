"""Creates the agents of a workspace, so that a team can create its members without knowing the workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.functions import ToolLike
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.identity import AgentIdentity, Grants, Role
from planck_nb.agent.limits import Limits, SessionSpend, restored_limits
from planck_nb.agent.recorder import Observer
from planck_nb.agent.state import NO_TURN
from planck_nb.ai.client import Client
from planck_nb.ai.messages import Usage
from planck_nb.ai.models import Model
from planck_nb.ai.request import Options
from planck_nb.base.ids import NewId
from planck_nb.sessions import Session
from planck_nb.sessions.members import AgentRecord
from planck_nb.workspace.agent_registry import AgentRegistry
from planck_nb.workspace.map_settings import ItemSettings


@dataclass
class AgentFactory:
    """Creates agents that share a session, its budget, its approvals and a client.

    Args:
        session: Stores the messages and events of the agents.
        session_spend: Counts what they spend together.
        registry: Registers them.
        approvals: Decides which calls may run.
        limits: The limits of new agents.
        prompt_parts: Called at the start of each turn; returns the text around an agent's system prompt.
        client: Sends the requests to the models.
        observers: Get the events of all agents.
        fallbacks: Returns the models to use if an agent's own cannot answer.
        compact_ratio: The fraction of the context window above which a conversation is compacted.
    """

    session: Session
    session_spend: SessionSpend
    registry: AgentRegistry
    approvals: Approvals
    limits: Limits
    prompt_parts: Callable[[], SystemPromptParts]
    client: Client
    observers: Sequence[Observer]
    fallbacks: Callable[[], Sequence[Model]]
    compact_ratio: float
    live_items: dict[str, Agent] = field(default_factory=dict[str, Agent])
    """Map items in flight, by their digests."""

    def create(
        self,
        name: str,
        *,
        model: Model,
        system_prompt: str = "",
        tools: Iterable[ToolLike] = (),
        options: Options | None = None,
        type: str = "",  # noqa: A002 - the public name
        description: str = "",
        role: Role = "",
        team_id: str | None = None,
        parent_id: str | None = None,
        grants: Grants | None = None,
        available_models: Sequence[Model] = (),
        on_compact: Compactor | Callable[..., object] | None = None,
    ) -> Agent:
        """Create an agent.

        Args:
            name: Its name, unique within the team.
            model: The model that answers.
            system_prompt: Instructions to the model, sent before the conversation.
            tools: Tools, or functions to convert to tools.
            options: Request options.
            type: The kind of agent.
            description: What it is for, in a sentence.
            role: Its role in the team.
            team_id: The id of its team, None for an agent outside teams.
            parent_id: The agent that started it.
            grants: The tools and rights that it may give to the agents that it starts.
            available_models: The models that it may give to them.
            on_compact: Shortens its conversation; by default a compactor that has the model write a summary.

        Returns:
            The agent, registered.

        Raises:
            AgentError: The name is taken, or the workspace is changing to another session.
            UsageError: `on_compact` is neither a compactor nor a function of the messages.
        """
        return self._add(
            AgentIdentity("", name, type, role, team_id, parent_id),
            model=model,
            system_prompt=system_prompt,
            tools=tools,
            options=options,
            description=description,
            grants=grants,
            available_models=available_models,
            on_compact=on_compact,
        )

    def create_member(self, options: Mapping[str, Any]) -> Agent:
        """Create a member of a team.

        Args:
            options: Arguments of `Agent`, to which those shared by all agents of the session are added.

        Returns:
            The agent, registered.

        Raises:
            AgentError: The name is taken in its team, or the workspace is changing to another session.
        """
        self.registry.require_free(options["name"], options["team_id"])
        agent = Agent(**{**self._shared(), **options})
        self.registry.add(agent)
        return agent

    def _shared(self) -> dict[str, Any]:
        """The arguments of `Agent` that are the same for all agents."""
        return {
            "session": self.session,
            "session_spend": self.session_spend,
            "approvals": self.approvals,
            "usual_limits": self.limits,
            "prompt_parts": self.prompt_parts,
            "client": self.client,
            "observers": self.observers,
            "fallbacks": self.fallbacks(),
            "on_compact": Compactor.build(ratio=self.compact_ratio),
        }

    def create_item(self, item_id: str, name: str, like: ItemSettings, watch: Observer) -> Agent:
        """Create an unregistered agent for one map item.

        Args:
            item_id: Its id, new in the session.
            name: The item's key or number.
            like: The settings.
            watch: Gets its events.

        Returns:
            The agent, without a history.
        """
        return Agent(
            **{
                **self._shared(),
                "prompt_parts": like.prompt_parts,
                # Other observers keep the newest events; only tools may ask somebody for approval.
                "observers": (*self.observers, watch) if like.tools else (watch,),
            },
            id=NewId(item_id),
            name=like.name,
            type=like.type,
            description=name,
            model=like.model,
            system_prompt=like.system_prompt,
            tools=like.tools,
            options=like.options,
            limits=like.limits,
            cwd=like.cwd,
            deltas=False,
        )

    def restore(
        self,
        record: AgentRecord,
        *,
        model: Model,
        tools: Iterable[Tool],
        options: Options,
        available_models: Sequence[Model] = (),
        on_compact: Compactor | None = None,
        prompt_parts: Callable[[], SystemPromptParts] | None = None,
    ) -> Agent:
        """Create an agent of the session again, with its identity, history and usage.

        Args:
            record: The agent as the session has stored it.
            model: The model that answers from now on.
            tools: Its tools that still exist.
            options: Its request options.
            available_models: The models of its grants that still exist.
            on_compact: Shortens its conversation; by default a compactor that has the model write a summary.
            prompt_parts: What surrounds its system prompt, None for the same as for all agents.

        Returns:
            The agent, registered.

        Raises:
            AgentError: The name is taken.
        """
        identity = replace(record.identity, name=record.identity.name or record.identity.id)
        self.registry.reserved.discard((identity.team_id, identity.name))
        return self._add(
            identity,
            model=model,
            system_prompt=record.system_prompt,
            tools=tools,
            options=options,
            description=record.description,
            grants=record.grants,
            available_models=available_models,
            on_compact=on_compact,
            usage=record.usage,
            cost=record.cost,
            turn=record.turn,
            prompt_parts=prompt_parts,
            skills=record.skills,
            limits=restored_limits(record.limits, self.limits, trusted=record.authentic),
        )

    def _add(
        self,
        identity: AgentIdentity,
        *,
        model: Model,
        system_prompt: str,
        tools: Iterable[ToolLike],
        options: Options | None,
        description: str,
        grants: Grants | None,
        available_models: Sequence[Model] = (),
        on_compact: Compactor | Callable[..., object] | None = None,
        usage: Usage | None = None,
        cost: float | None = None,
        turn: int = NO_TURN,
        prompt_parts: Callable[[], SystemPromptParts] | None = None,
        skills: Sequence[str] | None = None,
        limits: Limits | None = None,
    ) -> Agent:
        self.registry.require_free(identity.name, identity.team_id)
        shared = self._shared()
        agent = Agent(
            **{
                **shared,
                "on_compact": on_compact or shared["on_compact"],
                "prompt_parts": prompt_parts or self.prompt_parts,
                "limits": limits,
            },
            id=identity.id or None,
            name=identity.name,
            type=identity.type,
            role=identity.role,
            team_id=identity.team_id,
            parent_id=identity.parent_id,
            model=model,
            system_prompt=system_prompt,
            tools=tools,
            options=options,
            description=description,
            grants=grants,
            available_models=available_models,
            usage=usage,
            cost=cost,
            turn=turn,
            skills=skills,
        )
        self.registry.add(agent)
        return agent
