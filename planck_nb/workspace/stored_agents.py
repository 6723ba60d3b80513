"""Finds what the agents of a stored session had: their models, compactors and functions.

A model is used only if it is found again exactly as it was; see `planck_nb.ai.model_lookup.model_source`. No other
server and no other key takes its place unless the user names a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import compactor_of
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.compactor import Compactor, restored_compactor, stored_compactor
from planck_nb.ai.model_lookup.model_source import find_again, model_source, unavailable
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError, ModelError, PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.members import AgentRecord
from planck_nb.teams.roles import INTER_AGENT_TOOLS

WAITS = "waits"
"""A key in the stored source of a model whose address was left out, until the user trusts the session."""


@dataclass(frozen=True, slots=True)
class LiveAgent:
    """What an agent of this process has that no session stores.

    Args:
        models: Its model, and those that it may give to the agents that it starts.
        tools: Its tools by name.
        compactor: What shortens its conversation.
        extra: Its additional request fields, those with secrets included.
    """

    models: tuple[Model, ...] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    compactor: Compactor | None = None
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    @classmethod
    def of(cls, agent: Agent) -> LiveAgent:
        """What this agent has.

        A member's inter-agent tools are left out: they are made anew, and would keep its team in memory.
        """
        made_anew = () if agent.team_id is None else INTER_AGENT_TOOLS
        return cls(
            (agent.model, *agent.available_models),
            {tool.name: tool for tool in agent.tools if tool.name not in made_anew},
            compactor_of(agent),
            agent.options.extra,
        )


NOT_LIVE = LiveAgent()


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """What was found of one stored agent.

    Args:
        record: The agent as it is stored.
        model: Its model. If that was not found again, one that is `unavailable`.
        available_models: The models that it may give to the agents that it starts.
        compactor: What shortens its conversation, None for the workspace's default.
        live: What this process still has of it.
        problems: A sentence about each part that was not found.
        lost: Why the model or the compactor was not found, as a clause; empty if both were.
    """

    record: AgentRecord
    model: Model
    available_models: tuple[Model, ...]
    compactor: Compactor | None
    live: LiveAgent
    problems: tuple[str, ...]
    lost: str


def _everything(_record: AgentRecord) -> bool:
    return True


def _no_compactor(_name: str) -> None:
    """Find no compactor, by default."""


def name_of(record: AgentRecord) -> str:
    """The name of a stored agent for messages."""
    return record.identity.name or record.identity.id


@dataclass(frozen=True, slots=True)
class AgentFinder:
    """Finds what the agents of one stored session had.

    Args:
        session: The name of the session, for messages.
        own: The user's own models.
        finish: Applies the configuration to a model.
        require_key: Raises `PlanckError` if the key of a model is missing.
        live: What this process still has of agents, by agent id.
        model: A model for agents whose own is not found again or, if all are found, for all agents; None for none.
        trusts: Whether the addresses, key variables and functions that a record names may be used.
        find_compactor: Finds a compactor by name; returns None if there is none.
    """

    session: str
    own: tuple[Model, ...]
    finish: Callable[[Model], Model]
    require_key: Callable[[Model], object]
    live: Mapping[str, LiveAgent] = field(default_factory=dict[str, LiveAgent])
    model: Model | None = None
    trusts: Callable[[AgentRecord], bool] = _everything
    find_compactor: Callable[[str], Compactor | None] = _no_compactor

    def find(self, records: Iterable[AgentRecord], *, strict: bool = False) -> list[FoundAgent]:
        """Find what these agents had.

        Args:
            records: The agents.
            strict: Whether to raise if a model or a compactor of an agent is not found and `model` is None.

        Returns:
            What was found, in the order of the records.

        Raises:
            ModelError: With `strict`; one sentence about all that was not found.
        """
        found = [self._find(record) for record in records]
        refused = [
            agent
            for agent in found
            if agent.lost and self.trusts(agent.record) and WAITS not in agent.record.model_source
        ]
        if strict and refused and self.model is None:
            reasons = "; ".join(f"{name_of(agent.record)} ({agent.record.model}): {agent.lost}" for agent in refused)
            raise ModelError(f"{self.session} cannot be resumed as it was: {reasons}. {self._how_to_continue()}")
        if self.model is None:
            return found
        only_lost = any(agent.model.unavailable for agent in found)
        return [self._with_chosen(agent) if agent.model.unavailable or not only_lost else agent for agent in found]

    def _find(self, record: AgentRecord) -> FoundAgent:
        problems: list[str] = []
        lost: list[str] = []
        live = self.live.get(record.identity.id, NOT_LIVE)
        source = record.model_source
        try:
            model = self._model(record.model, source, record, live)
        except PlanckError as error:
            lost.append(str(error))
            sentence = f"{name_of(record)} has no model, because {record.model} cannot be used as it was: {error}."
            kept = source if self.trusts(record) else _without_place(source)
            model = unavailable(record.model, kept, f"{sentence} {self._how_to_continue()}")
            if self.model is None:
                problems.append(f"{sentence} {self._how_to_continue()}")
        try:
            compactor = self._compactor(record, live)
        except PlanckError as error:
            compactor = None
            if self.model is None:
                lost.append(str(error))
            problems.append(f"{name_of(record)} continues with the built-in compactor: {error}.")
        available = self._available(record, live, problems)
        return FoundAgent(record, model, available, compactor, live, tuple(problems), " and ".join(lost))

    def _with_chosen(self, agent: FoundAgent) -> FoundAgent:
        assert self.model is not None  # noqa: S101 - for the type checker
        return FoundAgent(
            agent.record, self.model, agent.available_models, agent.compactor, agent.live, agent.problems, agent.lost
        )

    def _how_to_continue(self) -> str:
        return (
            f"Choose a model with `%planck resume {self.session} --model MODEL`, "
            f"in Python with workspace.resume({self.session!r}, model=…)."
        )

    def _model(self, reference: str, source: JsonObject, record: AgentRecord, live: LiveAgent) -> Model:
        """The model as it was. Raises `PlanckError` with a clause."""
        for model in live.models:
            if model.unavailable is None and str(model) == reference and model_source(model) == source:
                return model
        if WAITS in source:
            raise ModelError("the address of its server waits until you trust the session")
        if not self.trusts(record):
            source = _harmless(source)
        model = self.finish(find_again(reference, source, own=self.own))
        if model.base_url is not None:
            try:
                self.require_key(model)
            except ModelError as error:
                raise ModelError(str(error).rstrip(".")) from error
        return model

    def _available(self, record: AgentRecord, live: LiveAgent, problems: list[str]) -> tuple[Model, ...]:
        found: list[Model] = []
        for reference, source in zip(record.grants.models, record.grant_sources, strict=True):
            try:
                found.append(self._model(reference, source, record, live))
            except PlanckError as error:
                problems.append(f"{name_of(record)} cannot give {reference} to agents that it starts: {error}.")
        return tuple(found)

    def _compactor(self, record: AgentRecord, live: LiveAgent) -> Compactor | None:
        """The compactor as it was. Raises `PlanckError` with a clause."""
        stored = record.compactor
        if live.compactor is not None and stored_compactor(live.compactor) == stored:
            return live.compactor
        if not stored or not self.trusts(record):
            return None
        return self._built(stored, record, live)

    def _built(self, stored: JsonObject, record: AgentRecord, live: LiveAgent) -> Compactor:
        """The compactor with this stored description. Raises `PlanckError` with a clause."""
        first = None
        if name := stored.get("name"):
            first = self.find_compactor(str(name))
            if first is not None and "ratio" not in stored:
                return first
        elif isinstance(inner := stored.get("first"), dict):
            first = self._built(inner, record, live)
        model = None
        if reference := stored.get("model"):
            try:
                model = self._model(str(reference), dict(stored.get("model_source") or {}), record, live)
            except PlanckError as error:
                raise ConfigError(f"the model {reference} of its compactor: {error}") from error
        return restored_compactor(stored, model, first)


def _without_place(source: JsonObject) -> JsonObject:
    """The source to store for an agent not signed by this user: its new start must not sign an address."""
    return {WAITS: True} if ("base_url" in source or "key_variable" in source) and "alias" not in source else source


def _harmless(source: JsonObject) -> JsonObject:
    """The harmless part of a source that somebody else may have written. Raises `ModelError` if it names a place.

    An alias is the user's own, wherever it was read. Prices, settings and options are left out.
    """
    if "alias" not in source and ("base_url" in source or "key_variable" in source):
        raise ModelError(
            f"this session was not written by you on this machine, so the server and the key that it names "
            f"({source.get('base_url') or source.get('identifier')}) are not used"
        )
    return {key: value for key, value in source.items() if key not in {"overrides", "handmade", "reported"}}
