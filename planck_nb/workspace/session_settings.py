"""The settings of a session that its events do not contain: rules for calls, URLs of models, limits of what is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from planck_nb.agent.approval import Rule
from planck_nb.ai.model_lookup.model_source import model_source
from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.journal.stored_values import texts_in

KEY = "choices"
"""The key of the session's metadata."""

_VERSION = 2
"""Since 2, rules without an agent or role apply to all agents of the session; 1 was not numbered."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of one session.

    Args:
        rules: Rules that decide which calls may run.
        base_urls: URLs of models that are not at their provider's own URL, by "provider:model".
        for_recorded_agents: Whether the rules apply only to the agents that the session has, as all rules that
            version 0.1.0 wrote.
        readable: The only variables that agents and teams may list and inspect, by their id; others may read all.
    """

    rules: tuple[Rule, ...] = ()
    base_urls: Mapping[str, str] = field(default_factory=dict)
    for_recorded_agents: bool = field(default=False, compare=False)
    readable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rules: Iterable[Rule], models: Iterable[Model], readable: Mapping[str, Collection[str]]
    ) -> SessionSettings:
        """The current settings. A URL with a password or a query is left out, because settings are stored."""
        base_urls = {str(model): model.base_url for model in models if model.base_url and _has_storable_url(model)}
        return cls(tuple(rules), base_urls, readable={reader: tuple(sorted(readable[reader])) for reader in readable})

    @classmethod
    def of_stored(cls, stored: object) -> SessionSettings:
        """The settings in the value of the metadata's key, without the parts that this version cannot read."""
        if not isinstance(stored, dict):
            return cls()
        rules, base_urls, readable = stored.get("rules"), stored.get("base_urls"), stored.get("readable")
        return cls(
            tuple(read_rules(rules if isinstance(rules, list) else ())),
            {name: url for name, url in base_urls.items() if isinstance(url, str)}
            if isinstance(base_urls, dict)
            else {},
            for_recorded_agents="version" not in stored and bool(rules),
            readable={reader: texts_in(names) for reader, names in readable.items()}
            if isinstance(readable, dict)
            else {},
        )

    def stored(self) -> JsonObject:
        """The value of the metadata's key, which `of_stored` reads."""
        rules = [[rule.action, str(rule)] for rule in self.rules]
        readable = {reader: list(names) for reader, names in self.readable.items()}
        return {"version": _VERSION, "rules": rules, "base_urls": dict(self.base_urls), "readable": readable}

    def rules_for(self, agent_ids: Sequence[str]) -> Iterator[Rule]:
        """The rules to follow in a session that has these agents."""
        return limited(self.rules, agent_ids) if self.for_recorded_agents else iter(self.rules)


def limited(rules: Iterable[Rule], agent_ids: Sequence[str]) -> Iterator[Rule]:
    """Limit rules that allow something to these agents, or drop them if there are none; keep the others as they are."""
    for rule in rules:
        if rule.action != "allow":
            yield rule
        elif agent_ids:
            yield replace(rule, agent_ids=tuple(agent_ids))


def read_rules(written: Iterable[Sequence[Any]]) -> Iterator[Rule]:
    """The rules in these pairs of action and text. Invalid pairs are skipped."""
    for pair in written:
        with suppress(UsageError, TypeError, ValueError, AttributeError):
            action, text = pair
            yield Rule.parse(action, text)


def _has_storable_url(model: Model) -> bool:
    return model_source(model).get("base_url") == model.base_url
