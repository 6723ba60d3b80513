"""This environment's sidecar, found by its entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from threading import Lock

from planck_nb.base.errors import ConfigError
from planck_nb.base.text import one_line
from planck_nb.sidecars.conventions import ENTRY_POINT_GROUP


class Discovery:
    """A search for a sidecar's entry, which remembers success only.

    Args:
        find_entry_points: Returns the entry points, by default from all installed packages.
    """

    def __init__(self, find_entry_points: Callable[[], Iterable[EntryPoint]] | None = None) -> None:
        self._find = find_entry_points or (lambda: entry_points(group=ENTRY_POINT_GROUP))
        self._lock = Lock()
        self._entry: object | None = None

    def point(self) -> EntryPoint | None:
        """Return the first entry point by name, if any.

        This neither imports nor remembers anything.
        """
        return min(self._find(), key=lambda point: point.name, default=None)

    def entry(self) -> object | None:
        """Return the entry behind `point`, if any.

        Raises:
            ConfigError: If it cannot be imported.
        """
        with self._lock:
            if self._entry is None and (point := self.point()) is not None:
                self._entry = _loaded(point)
            return self._entry

    def forget(self) -> None:
        """Look for the entry again at the next call."""
        with self._lock:
            self._entry = None


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        raise ConfigError(
            f"The sidecar {point.name} ({point.value}) cannot be imported: {type(error).__name__}: "
            f"{one_line(str(error)).rstrip('.')}; correct it and try again."
        ) from error


_discovery = Discovery()


def discover() -> object | None:
    """Return this environment's sidecar.

    The first entry point in the group `planck_nb.sidecars` names it.

    Returns:
        A `Sidecar`, a class or a module; None without such an entry point in any installed package. Success is
        remembered; after a failure, the next call looks again.

    Raises:
        ConfigError: If the sidecar cannot be imported.
    """
    return _discovery.entry()


def forget_discovered() -> None:
    """Have `discover` look again, for tests and after an installation."""
    _discovery.forget()


def entry_point_reference() -> str | None:
    """Return the first entry point as "module:name", without importing it.

    The result is None without an entry point.
    """
    point = _discovery.point()
    return None if point is None else point.value
