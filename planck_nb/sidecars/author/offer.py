"""A sidecar's offers, whether a `Sidecar`, a class or a module."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from planck_nb.base.errors import UsageError
from planck_nb.sidecars.author.offerings import SidecarPrompt, SidecarResource
from planck_nb.sidecars.author.sidecar import DEFAULT_PROCESSES, Sidecar
from planck_nb.sidecars.author.sidecar_tools import SidecarTool, as_sidecar_tool


@dataclass(frozen=True, slots=True)
class Offer:
    """A sidecar's offers at one time.

    Args:
        name: The sidecar's name.
        tools: Its tools, compactors and observers, by name.
        resources: Its resources and templates.
        prompts: Its prompts, by name.
        version: Its version.
        instructions: How to use it.
        processes: Number of sync tools at the same time.
    """

    name: str
    tools: dict[str, SidecarTool]
    resources: tuple[SidecarResource, ...] = ()
    prompts: dict[str, SidecarPrompt] | None = None
    version: str = ""
    instructions: str = ""
    processes: int = DEFAULT_PROCESSES


def offer_of(entry: object) -> Offer:
    """Return an entry's offers.

    Args:
        entry: A `Sidecar`; a class or an object with `tools()`; or a module with a function `tools` or one `Sidecar`.

    Raises:
        UsageError: If `tools()` does not return tools, two have the same name, or a module has several sidecars.
    """
    if inspect.isclass(entry):
        entry = entry()
    elif isinstance(entry, ModuleType) and not hasattr(entry, "tools"):
        entry = _only_sidecar(entry)
    name = _name(entry)
    tools: dict[str, SidecarTool] = {}
    for candidate in _called(entry, "tools", name):
        made = as_sidecar_tool(candidate)
        if made.name in tools:
            raise UsageError(f"The sidecar {name} has two tools named {made.name}; rename one of them.")
        tools[made.name] = made
    return Offer(
        name,
        tools,
        tuple(_called(entry, "resources", name)),
        {prompt.name: prompt for prompt in _called(entry, "prompts", name)},
        version=str(getattr(entry, "version", "")),
        instructions=str(getattr(entry, "instructions", "")),
        processes=int(getattr(entry, "processes", DEFAULT_PROCESSES)),
    )


def _only_sidecar(module: ModuleType) -> object:
    """Return a module's `Sidecar`, or the module without one."""
    sidecars: dict[Sidecar, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, Sidecar):
            sidecars.setdefault(value, name)  # as it may have two names
    if len(sidecars) > 1:
        names = " or ".join(f"{module.__name__}:{name}" for name in sidecars.values())
        raise UsageError(f"The module {module.__name__} has several sidecars; name one of them: {names}.")
    return next(iter(sidecars), module)


def _name(entry: object) -> str:
    if isinstance(entry, ModuleType):
        return entry.__name__
    name = getattr(entry, "name", None)
    return name if isinstance(name, str) and name else type(entry).__name__


def _called(entry: object, function: str, name: str) -> list[Any]:
    """Return the value from an entry's function, an empty list without one."""
    value_or_function = getattr(entry, function, None)
    if value_or_function is None:
        return []
    value = value_or_function() if callable(value_or_function) else value_or_function
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"{function}() of the sidecar {name} must return a list, not a {type(value).__name__}.")
    return list(value)
