"""A sidecar's resources and prompts, chosen by people and clients rather than models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from planck_nb.agent.calling.docstrings import documented
from planck_nb.base.errors import UsageError
from planck_nb.base.threads import run_in_thread


@dataclass(frozen=True, slots=True)
class SidecarResource:
    """Text or data that clients can read; made by `@sidecar.resource`.

    Args:
        uri: Its address, or a template such as "notes://{day}" whose variables are the function's arguments.
        function: Returns the content, text or bytes; sync or async.
        name: Its name, for display.
        description: What it contains.
        mime_type: The media type of its content, None for "text/plain" or "application/octet-stream".
    """

    uri: str
    function: Callable[..., Any] = field(repr=False)
    name: str
    description: str = ""
    mime_type: str | None = None

    @property
    def is_template(self) -> bool:
        """Return whether the address has variables."""
        return "{" in self.uri


@dataclass(frozen=True, slots=True)
class SidecarPromptArgument:
    """An argument of a prompt.

    Args:
        name: Its name.
        description: What it is for.
        required: Whether it has no default.
        choices: The values that clients suggest: those of a parameter annotated `Literal`.
    """

    name: str
    description: str
    required: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SidecarPrompt:
    """A prompt that people can choose; made by `@sidecar.prompt`.

    Args:
        name: Its name.
        function: Called with the arguments, all text, by name; sync or async. It returns text, a pair such as
            `("assistant", "…")`, content of MCP such as `mcp.types.ImageContent`, or a list of these.
        description: What it is for.
        arguments: Its arguments.
    """

    name: str
    function: Callable[..., Any] = field(repr=False)
    description: str = ""
    arguments: tuple[SidecarPromptArgument, ...] = ()


def prompt_of(function: Callable[..., Any], *, name: str | None, description: str | None) -> SidecarPrompt:
    """Make a prompt from a function whose parameters can be given by name.

    Other functions raise `UsageError`.
    """
    called = str(name or getattr(function, "__name__", type(function).__name__))
    text = documented(inspect.getdoc(function) or "")
    hints = _hints(function)
    arguments = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise UsageError(f"{called} cannot be a prompt: give its parameter {parameter.name!r} a name of its own.")
        required = parameter.default is parameter.empty
        hint = hints.get(parameter.name)
        choices = tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
        arguments.append(
            SidecarPromptArgument(parameter.name, text.arguments.get(parameter.name, ""), required, choices)
        )
    return SidecarPrompt(called, function, description or text.summary, tuple(arguments))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations that cannot be resolved suggest no values
        return {}


async def call_offering(function: Callable[..., Any], keywords: dict[str, Any]) -> object:
    """Call a resource's or a prompt's function; a sync one in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(**keywords)
    value = await run_in_thread(lambda: function(**keywords), interruptible=True)
    return await value if inspect.isawaitable(value) else value
