"""The configuration of a workspace; only the parts that the user trusts are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from planck_nb.ai.model_lookup.catalogue import get_model
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError
from planck_nb.config import Config, FolderTrust, TrustItem
from planck_nb.workspace.default_model import paced
from planck_nb.workspace.folder_files import TrustedFile, listed, untrusted
from planck_nb.workspace.team_files import team_trust_items
from planck_nb.workspace.toolbox import tool_trust_items


class TrustedConfig:
    """The current configuration, and which files of its folder the user trusts.

    Args:
        config: The configuration at the start. `trust` and `distrust` return another one to replace it.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._sources: list[Callable[[], Iterable[TrustItem]]] = []

    def add_source(self, find: Callable[[], Iterable[TrustItem]]) -> None:
        """Also list, and trust, what this function finds. Nothing that it finds keeps agents from being created."""
        self._sources.append(find)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the process and of `env_file`, always current, whatever is trusted at the moment."""
        return _Environment(self)

    @property
    def folder_trust(self) -> FolderTrust:
        """What the user trusts of the folder."""
        config = self.config
        if config.folder_trust is None:  # a configuration that a program has made itself
            self.config = config = replace(config, folder_trust=FolderTrust(config.root, config.user_folder))
        assert config.folder_trust is not None  # noqa: S101 - for the type checker
        return config.folder_trust

    def items(self) -> tuple[TrustedFile, ...]:
        """The files of the folder that can run code or redirect requests, with their status, as they are now."""
        try:
            config = self.config.reload(trust=True)  # a file that is not trusted may name others
        except ConfigError:
            config = self.config
        more = (item for find in self._sources for item in find())
        return listed((*config.trust_items, *_found(config), *more), self.folder_trust)

    def require_trust(self) -> None:
        """Raise `TrustError` if the user does not trust all files that can run code or redirect requests."""
        self._require_accepted(*self.config.trust_items, *_found(self.config))

    def require_trusted_settings(self) -> None:
        """Raise `TrustError` if the user does not trust all files of settings, models and variables."""
        self._require_accepted(*self.config.trust_items)

    def left_out(self) -> list[TrustItem]:
        """Return the untrusted tools and teams."""
        return [item for item in _found(self.config) if not self.folder_trust.accepts(item)]

    def trust(self, items: Iterable[TrustItem] | None = None) -> Config:
        """Remember that the user trusts items, by default all as they are. Returns the configuration that follows."""
        self.folder_trust.add((file.item for file in self.items()) if items is None else items)
        return self._reloaded()

    def distrust(self, items: Iterable[TrustItem] | None = None) -> Config:
        """Remember that the user does not trust items, by default none. Returns the configuration that follows."""
        if items is None:
            self.folder_trust.clear()
        else:
            self.folder_trust.remove(items)
        return self._reloaded()

    def model(self, reference: str, *, base_url: str | None = None, key_variable: str | None = None) -> Model:
        """Find a model by name, among the user's own models first. Raises `TrustError` or `ModelError`."""
        self.require_trusted_settings()
        model = get_model(reference, base_url=base_url, key_variable=key_variable, own=self.config.models)
        return paced(model, self.config)

    def _reloaded(self) -> Config:
        return with_pace(self.config.reload(), self.config)

    def _require_accepted(self, *items: TrustItem) -> None:
        if not all(map(self.folder_trust.accepts, items)):
            raise untrusted(self.config.root, self.items(), self.folder_trust)


def _found(config: Config) -> list[TrustItem]:
    """The files in the folders of tools and teams that need trust, as they are now."""
    return [*tool_trust_items(config), *team_trust_items(config)]


class _Environment(Mapping[str, str]):
    """The environment of the current configuration."""

    def __init__(self, config: TrustedConfig) -> None:
        self._config = config

    def __getitem__(self, name: str) -> str:
        return self._config.config.environment()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._config.config.environment())

    def __len__(self) -> int:
        return len(self._config.config.environment())


def with_pace(config: Config, before: Config) -> Config:
    """The configuration with the pace of the one before if it has none: a notebook sets it after loading."""
    return config if config.demo_pace is not None else replace(config, demo_pace=before.demo_pace)
