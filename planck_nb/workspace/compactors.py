"""Compactors by name: those of the program or the notebook, and those of installed packages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import entry_points
from typing import Protocol

from planck_nb.agent.context.compactor import Compactor, as_compactor, with_name
from planck_nb.base.errors import ConfigError, UsageError, did_you_mean
from planck_nb.base.text import one_line

GROUP = "planck_nb.compactors"

DEFAULT = "default"
"""The name of the built-in compactor, which has the model write a summary."""


class SidecarCompactors(Protocol):
    """The compactors of sidecars."""

    def compactors(self) -> Collection[str]:
        """Their names."""

    def compactor(self, name: str) -> Compactor | None:
        """The compactor of this name, None if there is none."""


class Compactors:
    """Finds compactors by name. Agents are stored with the name, by which `resume` finds the compactor again.

    Args:
        own: Functions, compactors and their classes by name, such as the variables of a notebook. They take precedence.
        sidecars: The compactors of sidecars, which are searched last.
    """

    def __init__(self, own: Mapping[str, object] | None = None, sidecars: SidecarCompactors | None = None) -> None:
        self.own: Mapping[str, object] = own or {}
        self._sidecars = sidecars

    def names(self) -> list[str]:
        """Return the names of the compactors of installed packages and sidecars; nothing is imported."""
        of_sidecars = () if self._sidecars is None else self._sidecars.compactors()
        return sorted({*(point.name for point in entry_points(group=GROUP)), *of_sidecars})

    def find(self, name: str) -> Compactor | None:
        """Return the compactor of this name, None if there is none.

        Raises:
            UsageError: Something else has this name.
            ConfigError: The package that offers it cannot be used.
        """
        if name in self.own:
            own = self.own[name]
            if not (isinstance(own, Compactor) or callable(own)):
                raise UsageError(f"{name} is of type {type(own).__name__}; only functions and compactors can compact.")
            return with_name(as_compactor(own), name)
        point = next(iter(entry_points(group=GROUP, name=name)), None)
        if point is None:
            return None if self._sidecars is None else self._sidecars.compactor(name)
        try:
            return with_name(as_compactor(point.load()), name)
        except Exception as error:
            package = point.dist.name if point.dist else point.module
            reason = one_line(f"{type(error).__name__}: {error}").rstrip(".")
            raise ConfigError(f"The compactor {name} of the package {package} cannot be used: {reason}.") from error

    def named(self, name: str) -> Compactor | None:
        """Return the compactor of this name, None for the built-in one.

        Raises:
            UsageError: There is no such compactor.
            ConfigError: The package that offers it cannot be used.
        """
        if name == DEFAULT:
            return None
        found = self.find(name)
        if found is None:
            known = [DEFAULT, *self.names(), *(key for key, value in self.own.items() if callable(value))]
            raise UsageError(
                f"There is no compactor named {name}; name a function of the messages, or a compactor of an installed "
                f"package. {did_you_mean(name, known)}".rstrip()
            )
        return found
