"""Tools that installed packages offer through entry points of the group `planck_nb.tools`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, get_args, get_type_hints

from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import ConfigError, UsageError
from planck_nb.base.text import one_line
from planck_nb.tools.external import LoadFailure
from planck_nb.tools.reserved_names import is_reserved

GROUP = "planck_nb.tools"


class InstalledTools:
    """The tools of installed packages, each package imported when one of its tools is first looked up.

    An entry point is a `Tool`, a function, an iterable of these, or a function annotated to return `Tool` or an
    iterable of `Tool`, which is called once. One that cannot be used does not affect the others.

    Args:
        find_entry_points: Returns the entry points, by default those of all installed packages.
    """

    def __init__(self, find_entry_points: Callable[[], Iterable[EntryPoint]] | None = None) -> None:
        self._find_entry_points = find_entry_points or (lambda: entry_points(group=GROUP))
        self._loaded: dict[EntryPoint, tuple[Tool, ...] | LoadFailure] = {}

    def names(self) -> list[str]:
        """Return the names of the entry points; nothing is imported."""
        return list(self._entry_points())

    def named(self, name: str) -> tuple[Tool, ...]:
        """Return the tools of the entry point of this name, or else the tool of this name from any entry point.

        Returns:
            The tools, none if there is neither.

        Raises:
            ConfigError: The entry point of this name cannot be used.
        """
        point = self._entry_points().get(name)
        if point is None:
            return tuple(tool for tool in self._all() if tool.name == name)[:1]
        found = self._load(point)
        if isinstance(found, LoadFailure):
            raise ConfigError(found.reason)
        return found

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, None if no package offers it."""
        try:
            tools = [tool for tool in self.named(name) if tool.name == name]
        except ConfigError:
            tools = []
        return tools[0] if tools else next((tool for tool in self._all() if tool.name == name), None)

    def skipped(self) -> list[LoadFailure]:
        """Return the entry points that cannot be used, with the reasons; this imports all of them."""
        loaded = (self._load(point) for point in self._entry_points().values())
        return [found for found in loaded if isinstance(found, LoadFailure)]

    def _entry_points(self) -> dict[str, EntryPoint]:
        # Scanned at each call, because a notebook may have installed a package since.
        return {point.name: point for point in self._find_entry_points()}

    def _all(self) -> Iterator[Tool]:
        for point in self._entry_points().values():
            found = self._load(point)
            if not isinstance(found, LoadFailure):
                yield from found

    def _load(self, point: EntryPoint) -> tuple[Tool, ...] | LoadFailure:
        if point not in self._loaded:
            self._loaded[point] = _load(point)
        return self._loaded[point]


def _load(point: EntryPoint) -> tuple[Tool, ...] | LoadFailure:
    try:
        return tuple(map(_unreserved, _tools(point.load())))
    except Exception as error:  # noqa: BLE001 - another package's; the other tools must go on working
        reason = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        package = point.dist.name if point.dist else point.module
        sentence = f"The tool {point.name} of the package {package} cannot be used: {one_line(reason).rstrip('.')}."
        return LoadFailure(Path(point.module), sentence)


def _tools(offered: Any) -> Iterator[Tool]:  # noqa: ANN401 - whatever a package has there
    if _makes_tools(offered):
        offered = offered()
    if isinstance(offered, Iterable) and not isinstance(offered, str):
        yield from map(as_tool, offered)
    else:
        yield as_tool(offered)


def _unreserved(tool: Tool) -> Tool:
    if is_reserved(tool.name):
        raise UsageError(f"{tool.name} is a reserved name, so the package must give another name.")
    return tool


def _makes_tools(offered: object) -> bool:
    """Whether this is a function that returns tools, rather than one that is a tool."""
    if isinstance(offered, Tool) or not callable(offered):
        return False
    try:
        returned = get_type_hints(offered).get("return")
    except Exception:  # noqa: BLE001 - annotations that cannot be evaluated say nothing about tools
        return False
    return Tool in (returned, *get_args(returned))
