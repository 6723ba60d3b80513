"""What the user chose for a session and its events do not say: which calls may run, and where models are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from planck_nb.agent.approval import Rule
from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject

_KEY = "choices"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The `rules` for the session, and the addresses of models that are not at their usual one, by "provider:model"."""

    rules: tuple[Rule, ...] = ()
    base_urls: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: Iterable[Rule], models: Iterable[Model]) -> SessionSettings:
        """The choices that are in force. An address with a password in it is left out, because they are stored."""
        base_urls = {str(model): model.base_url for model in models if model.base_url and _is_open(model.base_url)}
        return cls(tuple(rules), base_urls)

    @classmethod
    def read(cls, metadata: JsonObject) -> SessionSettings:
        """The choices in a session's metadata, without what this version cannot make sense of."""
        stored = metadata.get(_KEY)
        if not isinstance(stored, dict):
            return cls()
        rules, base_urls = stored.get("rules"), stored.get("base_urls")
        return cls(
            tuple(read_rules(rules if isinstance(rules, list) else ())),
            {name: url for name, url in base_urls.items() if isinstance(url, str)}
            if isinstance(base_urls, dict)
            else {},
        )

    def metadata(self) -> JsonObject:
        """What `read` reads."""
        rules = [[rule.action, str(rule)] for rule in self.rules]
        return {_KEY: {"rules": rules, "base_urls": dict(self.base_urls)}}


def read_rules(written: Iterable[Sequence[Any]]) -> Iterator[Rule]:
    """The rules of these pairs of action and text, without those that are none."""
    for pair in written:
        with suppress(UsageError, TypeError, ValueError, AttributeError):
            action, text = pair
            yield Rule.parse(action, text)


def _is_open(url: str) -> bool:
    parts = urlsplit(url)
    return parts.username is None and parts.password is None
