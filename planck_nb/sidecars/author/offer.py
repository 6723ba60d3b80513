"""What a sidecar offers, whether it is written as a `Sidecar`, a class or a module."""

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
    """What a sidecar offers at one time.

    Args:
        name: The name of the sidecar.
        tools: Its tools, compactors and observers, by name.
        resources: Its resources and templates.
        prompts: Its prompts, by name.
        version: Its version.
        instructions: How to use it.
        processes: How many sync tools run at the same time.
    """

    name: str
    tools: dict[str, SidecarTool]
    resources: tuple[SidecarResource, ...] = ()
    prompts: dict[str, SidecarPrompt] | None = None
    version: str = ""
    instructions: str = ""
    processes: int = DEFAULT_PROCESSES


def offer_of(entry: object) -> Offer:
    """Return what an entry offers.

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
    """The `Sidecar` of a module, or the module if it has none."""
    found: dict[Sidecar, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, Sidecar):
            found.setdefault(value, name)  # which may have two names
    if len(found) > 1:
        names = " or ".join(f"{module.__name__}:{name}" for name in found.values())
        raise UsageError(f"The module {module.__name__} has several sidecars; name one of them: {names}.")
    return next(iter(found), module)


def _name(entry: object) -> str:
    if isinstance(entry, ModuleType):
        return entry.__name__
    given = getattr(entry, "name", None)
    return given if isinstance(given, str) and given else type(entry).__name__


def _called(entry: object, function: str, name: str) -> list[Any]:
    """What a function of the entry returns, an empty list if it has none."""
    found = getattr(entry, function, None)
    if found is None:
        return []
    value = found() if callable(found) else found
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"{function}() of the sidecar {name} must return a list, not a {type(value).__name__}.")
    return list(value)
