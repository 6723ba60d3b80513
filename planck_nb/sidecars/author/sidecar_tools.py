"""A sidecar's tools: `@tool` for functions, and other tools as served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, overload

from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.calling.functions import tool as function_tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.author.recording import recorded
from planck_nb.sidecars.author.running import runs_of
from planck_nb.sidecars.author.structured import Structure, structure_of
from planck_nb.sidecars.conventions import (
    DEFAULT_TIMEOUT_MS,
    MAX_TIMEOUT_MS,
    MIN_TIMEOUT_MS,
    ROLE_TOOL,
    RUNS_ASYNC,
    clamp_timeout_ms,
)

_SECOND = 1_000


@dataclass(frozen=True, kw_only=True)
class SidecarTool(Tool):
    """A tool as a sidecar serves it; usually made by `@sidecar.tool`.

    Args:
        role: Its caller, a model or the kernel for a compactor or an observer: one of the `ROLE_...` values.
        runs: How it runs: one of the `RUNS_...` values.
        timeout_ms: Time limit for a call, in milliseconds, unless the call names another. The caller enforces it, so a
            model can ask for more.
        structure: The structured form for its results, None for text and images only.
        title: A name for display.
        annotations: MCP's hints about its effects, such as `readOnlyHint`.
    """

    role: str = ROLE_TOOL
    runs: str = RUNS_ASYNC
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    structure: Structure | None = field(default=None, repr=False)
    title: str | None = None
    annotations: JsonObject = field(default_factory=dict)


@overload
def tool(function: Callable[..., Any], /) -> SidecarTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    process: bool | None = None,
    title: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> Callable[[Callable[..., Any]], SidecarTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    process: bool | None = None,
    title: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> SidecarTool | Callable[[Callable[..., Any]], SidecarTool]:
    """Make a sidecar's tool from a Python function.

    Use it as `@tool`, `@tool(timeout_ms=…)` or `tool(function)`.

    Name, description and schema come from the function, as with `planck_nb.tool`. An async function runs on the
    sidecar's event loop. A sync function at a module's top level runs in its own process, which is killed with its
    children when the call is cancelled; other sync functions run in a thread, which may go on running.

    Args:
        function: The function, sync or async. `ToolError` reports a failure to the model in the function's own words.
        name: The models' name for it; by default the function's name.
        description: The models' description; by default the docstring without its sections.
        timeout_ms: Default time for a call, in milliseconds, from 1 to 3,600,000.
        process: False to run a sync function in a thread, so it shares the sidecar's state; True to refuse functions
            which cannot run in a process.
        title: A name for display, None for the name.
        read_only: Whether it is free of changes; None if unknown. This and the following are hints for clients.
        destructive: Whether it may delete or overwrite.
        idempotent: Whether a second call with the same arguments changes nothing more, so a lost call may be repeated.
        open_world: Whether it interacts with the outside world, such as the web.

    Returns:
        The tool, or a decorator which makes it from a function.

    Raises:
        UsageError: If a JSON object cannot supply the function's parameters, `timeout_ms` is out of bounds, or
            `process` is True for a function that cannot run in a process.

    Example:
        >>> @tool(timeout_ms=1_000)
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> add.name, add.timeout_ms, add(1, 2)
        ('add', 1000, 3)
    """
    hints = {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": open_world,
    }

    def make(function: Callable[..., Any]) -> SidecarTool:
        plain_tool = function_tool(name=name, description=description, timeout=None)(function)
        sidecar_tool = as_sidecar_tool(plain_tool, process=process)
        annotations: JsonObject = {key: value for key, value in hints.items() if value is not None}
        return replace(
            sidecar_tool,
            timeout_ms=checked_timeout_ms(timeout_ms, plain_tool.name),
            title=title,
            annotations=annotations,
        )

    return make if function is None else make(function)


def as_sidecar_tool(candidate: object, *, process: bool | None = None) -> SidecarTool:
    """Make a servable tool from any kind of tool or a function.

    Args:
        candidate: A `Tool`, or an argument for `planck_nb.tool`.
        process: As for `tool`.

    Raises:
        UsageError: If the candidate is not a tool, or cannot run as `process` says.
    """
    if isinstance(candidate, SidecarTool):
        return candidate
    plain_tool = as_tool(candidate)
    if plain_tool.server is not None:
        raise UsageError(f"{plain_tool.name} is run by a model's server and cannot be served by a sidecar; remove it.")
    function = plain_tool.function or plain_tool.execute_fn
    return SidecarTool(
        name=plain_tool.name,
        description="\n\n".join(filter(None, (plain_tool.description, plain_tool.guidance))),  # only place in MCP
        parameters=plain_tool.parameters,
        execute_fn=recorded(plain_tool.execute_fn),
        timeout=None,
        function=plain_tool.function,
        aliases=plain_tool.aliases,
        accept=plain_tool.accept,
        runs=runs_of(function, plain_tool.name, process=process),
        timeout_ms=DEFAULT_TIMEOUT_MS if plain_tool.timeout is None else clamp_timeout_ms(plain_tool.timeout * _SECOND),
        structure=structure_of(function, plain_tool.name),
    )


def checked_timeout_ms(timeout_ms: object, name: str) -> int:
    """Return an author's time, or raise `UsageError` if it is invalid."""
    if isinstance(timeout_ms, int) and type(timeout_ms) is not bool and MIN_TIMEOUT_MS <= timeout_ms <= MAX_TIMEOUT_MS:
        return timeout_ms
    raise UsageError(
        f"The timeout_ms of {name} must be a whole number from {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS:,}, "
        f"not {timeout_ms!r}."
    )
