"""What the user chose for a session, besides its events: which calls may run, and the URLs of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from planck_nb.agent.approval import Rule
from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject

_KEY = "choices"
_VERSION = 2
"""Since 2, rules without an agent or role are for all agents of the session; 1 had no number."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What the user chose for one session.

    Args:
        rules: Rules on which calls may run.
        base_urls: URLs of models that are not at their provider's own, by "provider:model".
        for_recorded_agents: Whether the rules are only for the agents that the session has, as in version 0.1.0, which
            wrote no other rules.
    """

    rules: tuple[Rule, ...] = ()
    base_urls: Mapping[str, str] = field(default_factory=dict)
    for_recorded_agents: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, rules: Iterable[Rule], models: Iterable[Model]) -> SessionSettings:
        """The settings as they are now. A URL with a password is left out, because they are stored."""
        base_urls = {str(model): model.base_url for model in models if model.base_url and _is_open(model.base_url)}
        return cls(tuple(rules), base_urls)

    @classmethod
    def read(cls, metadata: JsonObject) -> SessionSettings:
        """The settings in a session's metadata, without what this version cannot read."""
        stored = metadata.get(_KEY)
        if not isinstance(stored, dict):
            return cls()
        rules, base_urls = stored.get("rules"), stored.get("base_urls")
        return cls(
            tuple(read_rules(rules if isinstance(rules, list) else ())),
            {name: url for name, url in base_urls.items() if isinstance(url, str)}
            if isinstance(base_urls, dict)
            else {},
            for_recorded_agents="version" not in stored and bool(rules),
        )

    def metadata(self) -> JsonObject:
        """What `read` reads."""
        rules = [[rule.action, str(rule)] for rule in self.rules]
        return {_KEY: {"version": _VERSION, "rules": rules, "base_urls": dict(self.base_urls)}}

    def rules_for(self, agent_ids: Iterable[str]) -> Iterator[Rule]:
        """The rules to follow in a session that has these agents."""
        return limited(self.rules, agent_ids) if self.for_recorded_agents else iter(self.rules)


def limited(rules: Iterable[Rule], agent_ids: Iterable[str]) -> Iterator[Rule]:
    """The rules, each for each of these agents; one that denies or asks, or names an agent, stays as it is."""
    ids = tuple(agent_ids)
    for rule in rules:
        if rule.action != "allow" or rule.agent or rule.role:
            yield rule
        else:
            yield from (replace(rule, agent=agent_id) for agent_id in ids)


def read_rules(written: Iterable[Sequence[Any]]) -> Iterator[Rule]:
    """The rules of these pairs of action and text, without pairs that are no rule."""
    for pair in written:
        with suppress(UsageError, TypeError, ValueError, AttributeError):
            action, text = pair
            yield Rule.parse(action, text)


def _is_open(url: str) -> bool:
    parts = urlsplit(url)
    return parts.username is None and parts.password is None
