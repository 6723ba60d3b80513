"""A session's settings besides its events: rules for calls, readable variables, limits, and names' owners."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from planck_nb.agent.approval import Rule
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.journal.stored_values import texts_in

KEY = "choices"
"""The key of the session's metadata."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """One session's settings.

    Args:
        rules: Rules that decide which calls may run.
        readable: The only variables that agents and teams may list and inspect, by their id; others may read all.
        limits: New agents' limits by name, where they differ from the configuration.
        owners: The sidecars which keep names of tools, as pairs of identity and own name.
    """

    rules: tuple[Rule, ...] = ()
    readable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits: JsonObject = field(default_factory=dict)
    owners: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rules: Iterable[Rule],
        readable: Mapping[str, Collection[str]],
        limits: JsonObject,
        owners: Mapping[str, tuple[str, str]],
    ) -> SessionSettings:
        """The current settings."""
        return cls(tuple(rules), {reader: tuple(sorted(readable[reader])) for reader in readable}, limits, owners)

    @classmethod
    def of_stored(cls, stored: object) -> SessionSettings:
        """The settings in the value of the metadata's key, without the parts that this version cannot read."""
        if not isinstance(stored, dict):
            return cls()
        rules, readable, limits = stored.get("rules"), stored.get("readable"), stored.get("limits")
        return cls(
            tuple(read_rules(rules if isinstance(rules, list) else ())),
            {reader: texts_in(names) for reader, names in readable.items()} if isinstance(readable, dict) else {},
            limits if isinstance(limits, dict) else {},
            dict(_read_owners(stored.get("owners"))),
        )

    def stored(self) -> JsonObject:
        """The value of the metadata's key, which `of_stored` reads."""
        rules = [[rule.action, str(rule)] for rule in self.rules]
        readable = {reader: list(names) for reader, names in self.readable.items()}
        owners = {name: list(owner) for name, owner in self.owners.items()}
        optional = {"limits": dict(self.limits), "owners": owners}
        return {"rules": rules, "readable": readable, **{key: value for key, value in optional.items() if value}}


def _read_owners(data: object) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, owner in data.items() if isinstance(data, dict) else ():
        match owner:
            case [str(identity), str(tool)]:
                yield str(name), (identity, tool)


def read_rules(written: Iterable[Sequence[Any]]) -> Iterator[Rule]:
    """The rules in these pairs of action and text. Invalid pairs are skipped."""
    for pair in written:
        with suppress(UsageError, TypeError, ValueError, AttributeError):
            action, text = pair
            yield Rule.parse(action, text)
