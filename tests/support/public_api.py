"""The public modules, and the callables that they export."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any, is_typeddict

FACES = [
    "",
    ".ai",
    ".ai.dialects",
    ".engines",
    ".errors",
    ".events",
    ".jupyter.verbs",
    ".resources",
    ".sessions",
    ".sidecars",
    ".testing",
    ".workspace",
]
"""The public modules, as they follow "planck_nb"."""


def face(suffix: str) -> ModuleType:
    """The public module `planck_nb` + `suffix`."""
    return importlib.import_module(f"planck_nb{suffix}")


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every exported function and class and every public method of those classes, each once, with its public name."""
    seen: set[int] = set()
    for suffix in FACES:
        module = face(suffix)
        for name in module.__all__:
            value = getattr(module, name)
            if id(value) in seen or not getattr(value, "__module__", "").startswith("planck_nb"):
                continue
            seen.add(id(value))
            if inspect.isclass(value):
                yield f"{module.__name__}.{name}", value
                for member, function in _methods(value):
                    if id(function) not in seen:
                        seen.add(id(function))
                        yield f"{module.__name__}.{name}.{member}", function
            elif inspect.isroutine(value):
                yield f"{module.__name__}.{name}", value


def _methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    if is_typeddict(owner):
        return
    for name in dir(owner):
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(owner, name)
        if isinstance(value, property | cached_property):
            continue
        value = getattr(owner, name)
        function = inspect.unwrap(getattr(value, "__func__", value))
        if inspect.isfunction(function) and function.__module__.startswith("planck_nb"):
            yield name, function
