"""The providers and wire formats that exist in this process: the built-in ones, and those of other packages.

A provider is a name with defaults; a dialect is the wire format it speaks. All of them are registered in the same way.
Providers of other packages are found by their entry points, which load when their name is first used.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from planck_nb.ai.auth import Auth
from planck_nb.ai.dialect import Dialect, LocalModel
from planck_nb.ai.server_address import server_address
from planck_nb.ai.server_rules import USUAL, ServerRules
from planck_nb.base.errors import ConfigError, PlanckError, UnknownProviderError, UnsupportedFeatureError, did_you_mean

ENTRY_POINTS = "planck_nb.providers"
"""The group of entry points. Each is named like a provider and refers to a function that registers it."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_DIALECT = ("framing", "request", "decoder", "error")


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that offers models, with defaults for all of them.

    Args:
        name: What stands before the colon in "provider:model": lower-case letters, digits, "_" and "-".
        api: The name of its wire format, such as "chat" or "messages". By default the provider's own name, which is
            the name that its own dialect then gets.
        base_url: The address of its server. A provider of servers that have no common address has none, and
            `get_model` needs a `base_url`.
        path: What is added to a `base_url` that has no path, such as "/v1".
        key_variables: Names of environment variables that may hold its API key, the first one first.
        needs_key: Whether a request without a key is pointless; servers on this machine never need one.
        auth: A function that returns the credentials of each request, unless one of the variables has an API key.
        discovered: Whether the server lists its models at `/models`, as OpenAI's API does.
        models: The ids of its models, if there are no others.
        default_model: The id that the provider's name alone stands for.
        foreign_api: The wire format at addresses other than `base_url`, if it differs.
        rules: How its server differs from others of its wire format.
        foreign_rules: The rules at addresses other than `base_url`, if they differ.
        note: What is not known about it, as a sentence.

    Example:
        >>> from planck_nb import ai
        >>> ai.Provider("acme", "chat", base_url="https://llm.acme.example/v1", key_variables=("ACME_API_KEY",)).api
        'chat'
    """

    name: str
    api: str = ""
    base_url: str | None = None
    path: str = ""
    key_variables: tuple[str, ...] = ()
    needs_key: bool = False
    auth: Auth | None = None
    discovered: bool = False
    models: tuple[str, ...] = ()
    default_model: str | None = None
    foreign_api: str | None = None
    rules: ServerRules = USUAL
    foreign_rules: ServerRules | None = None
    note: str = ""


class Registry:
    """Providers and wire formats by name."""

    def __init__(self) -> None:
        self.revision = 0
        """Grows with each change, for caches."""
        self._providers: dict[str, Provider] = {}
        self._formats: dict[str, Dialect | LocalModel | str] = {}
        self._builtin: frozenset[str] = frozenset()
        self._failed: set[str] = set()
        self._lock = threading.RLock()  # the function of an entry point calls `register`

    def register(
        self, provider: Provider, dialect: Dialect | LocalModel | str | None = None, *, replace_existing: bool = False
    ) -> None:
        """Add a provider; see `planck_nb.ai.register`."""
        provider = replace(provider, api=provider.api or provider.name)
        with self._lock:
            self._check(provider, dialect, replace_existing=replace_existing)
            if dialect is not None:
                self._formats[provider.api] = dialect
            self._providers[provider.name] = provider
            self.revision += 1

    def add_format(self, api: str, dialect: str) -> None:
        """Add a wire format that models may name and no provider has by default."""
        self._formats[api] = dialect

    def seal(self) -> None:
        """Protect the names that are registered now, the built-in ones, from being replaced."""
        self._builtin = frozenset({*self._providers, *self._formats})

    def unregister(self, name: str) -> None:
        """Remove a provider that is not built in, and its own wire format."""
        with self._lock:
            if name in self._providers and name not in self._builtin:
                api = self._providers.pop(name).api
                if api not in self._builtin and all(other.api != api for other in self._providers.values()):
                    self._formats.pop(api, None)
                self.revision += 1

    def provider(self, name: str) -> Provider:
        """The provider with this name. Raises `UnknownProviderError`, which suggests similar names."""
        if (found := self._providers.get(name) or self.find(name)) is not None:
            return found
        raise UnknownProviderError(f"There is no provider {name!r}. {did_you_mean(name, self.names())}")

    def find(self, name: str) -> Provider | None:
        """The provider with this name, from an entry point if necessary; None if there is none."""
        if name not in self._providers:
            self._load(name)
        return self._providers.get(name)

    def names(self) -> list[str]:
        """The names of all providers, including those of entry points that are not loaded yet."""
        return sorted({*self._providers, *(point.name for point in self._unloaded())})

    def load_all(self) -> list[Provider]:
        """All providers in the order of their names, after loading every entry point."""
        for name in [point.name for point in self._unloaded()]:
            self._load(name)
        return [self._providers[name] for name in sorted(self._providers)]

    def builtin_formats(self) -> list[str]:
        """The names of the wire formats that are built in."""
        return sorted(self._builtin & self._formats.keys())

    def builtin_providers(self) -> list[str]:
        """The names of the providers that are built in."""
        return sorted(self._builtin & self._providers.keys())

    def format(self, api: str) -> Dialect | LocalModel:
        """The implementation of the wire format with this name. Raises `UnsupportedFeatureError` if there is none."""
        found = self._formats.get(api)
        if found is None:
            raise UnsupportedFeatureError(f"There is no wire format {api!r}. {did_you_mean(api, self._formats)}")
        if isinstance(found, str):
            module, _, name = found.partition(":")
            try:
                loaded: object = getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError) as error:
                raise ConfigError(
                    f"The wire format {api!r} cannot be loaded from {found!r} ({error}); correct it."
                ) from error
            found = self._formats[api] = _checked(api, loaded)
        return found

    def _check(self, provider: Provider, dialect: Dialect | LocalModel | str | None, *, replace_existing: bool) -> None:
        name, api = provider.name, provider.api
        if not _NAME.fullmatch(name):
            raise ConfigError(f"A provider cannot be called {name!r}; use lower-case letters, digits, _ and -.")
        for taken, kind in ((name, "provider"), *(((api, "wire format"),) if dialect is not None else ())):
            if taken in self._builtin:
                raise ConfigError(f"The {kind} {taken!r} is built in and cannot be replaced; choose another name.")
        if not replace_existing and name in self._providers:
            raise ConfigError(f"There is already a provider {name!r}; choose another name or add replace=True.")
        if not replace_existing and dialect is not None and api in self._formats:
            raise ConfigError(f"There is already a wire format {api!r}; choose another name or add replace=True.")
        if dialect is None and api not in self._formats:
            raise ConfigError(
                f"The provider {name!r} has the wire format {api!r}, which does not exist; give its dialect or choose "
                f"one of {', '.join(self._formats)}."
            )
        if dialect is not None and not isinstance(dialect, str):
            _checked(api, dialect)
        if provider.base_url is not None and not _is_plain_address(provider.base_url):
            raise ConfigError(
                f"The base_url of the provider {name!r} is not an address without a password and query; write it as in "
                "https://llm.example/v1."
            )

    def _unloaded(self) -> Iterator[EntryPoint]:
        # Scanned at each call, because a notebook may have installed a package since. Only unknown names come here.
        for point in entry_points(group=ENTRY_POINTS):
            if point.name not in self._providers and point.name not in self._failed:
                yield point

    def _load(self, name: str) -> None:
        with self._lock:
            for point in [point for point in self._unloaded() if point.name == name]:
                try:
                    point.load()()
                    problem = "" if name in self._providers else f"{point.value} did not register it"
                except Exception as error:  # noqa: BLE001 - another package's; the other providers must keep working
                    problem = str(error) if isinstance(error, PlanckError) else f"{type(error).__name__}: {error}"
                if problem:
                    self._failed.add(name)
                    warnings.warn(
                        f"The provider {name!r} of another package is not available: {problem.rstrip('.')}.",
                        stacklevel=2,
                    )


def _checked(api: str, candidate: object) -> Dialect | LocalModel:
    if isinstance(candidate, type) or not (is_local(candidate) or all(hasattr(candidate, name) for name in _DIALECT)):
        raise ConfigError(
            f"The wire format {api!r} is neither a Dialect ({', '.join(_DIALECT)}) nor a LocalModel (stream); register "
            "an instance of one of them."
        )
    return cast("Dialect | LocalModel", candidate)


def is_local(candidate: object) -> bool:
    """Whether this is a `LocalModel`, which needs no server, rather than a `Dialect`."""
    return hasattr(candidate, "stream") and not hasattr(candidate, "request")


def _is_plain_address(url: str) -> bool:
    try:
        address = server_address(url)
    except ConfigError:
        return False
    return not address.query and not address.headers


REGISTRY = Registry()


def register(provider: Provider, dialect: Dialect | LocalModel | str | None = None, *, replace: bool = False) -> None:
    """Make a provider known to the whole process, so that "name:model" works everywhere.

    A package registers its providers with an entry point of the group `planck_nb.providers`, named like the provider,
    that refers to a function without arguments which calls this one.

    Args:
        provider: Its name and defaults.
        dialect: What speaks its wire format if it has its own: an object with the methods of `Dialect`, one with those
            of `LocalModel` for models that need no server, or "module:attribute" for an object that is loaded when it
            is first needed. None for a provider that speaks a known format, which `provider.api` names.
        replace: Whether to replace a provider of the same name, as a notebook cell that runs twice does. Built-in
            providers and formats are never replaced.

    Raises:
        ConfigError: The name is taken or not a valid one, or dialect or address cannot be used.

    Example:
        >>> from planck_nb import ai
        >>> acme = ai.Provider("acme", "chat", base_url="https://llm.acme.example/v1", key_variables=("ACME_API_KEY",))
        >>> ai.register(acme, replace=True)
        >>> print(ai.get_model("acme:any-model"))
        acme:any-model
    """
    REGISTRY.register(provider, dialect, replace_existing=replace)
