"""The tools of a sidecar: how `@tool` makes one from a function, and how any other tool is served."""

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
        role: Whether models call it or it stands for a compactor or an observer: one of the `ROLE_...` values.
        runs: How it is run: one of the `RUNS_...` values.
        timeout_ms: The time that a call may take, in milliseconds, unless the call names another. The caller enforces
            it, so that a model can ask for more.
        structure: The structured form of its results, None if they are text and images only.
        title: A name for display.
        annotations: MCP's hints about what it does, such as `readOnlyHint`.
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
    """Make a tool of a sidecar from a Python function; use it as `@tool`, `@tool(timeout_ms=…)` or `tool(function)`.

    Name, description and schema come from the function, as with `planck_nb.tool`. An async function runs on the
    sidecar's event loop. A sync function at the top level of a module runs in a process of its own, which is killed
    with its children when the call is cancelled; other sync functions run in a thread, which may go on running.

    Args:
        function: The function, sync or async. `ToolError` reports a failure to the model in the function's own words.
        name: The name that the model sees; by default the function's name.
        description: The description that the model sees; by default the docstring without its sections.
        timeout_ms: The time that a call may take by default, in milliseconds, from 1 to 3,600,000.
        process: False to run a sync function in a thread, so that it shares the state of the sidecar; True to refuse
            functions that cannot run in a process.
        title: A name for display, None for the name.
        read_only: Whether it changes nothing; None if that is not known. This and the following are hints for clients.
        destructive: Whether it may delete or overwrite.
        idempotent: Whether a second call with the same arguments changes nothing more, so that a lost call may be
            repeated.
        open_world: Whether it interacts with the outside world, such as the web.

    Returns:
        The tool, or a decorator that makes it if no function is given.

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
        made = function_tool(name=name, description=description, timeout=None)(function)
        served = as_sidecar_tool(made, process=process)
        annotations: JsonObject = {key: value for key, value in hints.items() if value is not None}
        return replace(
            served, timeout_ms=checked_timeout_ms(timeout_ms, made.name), title=title, annotations=annotations
        )

    return make if function is None else make(function)


def as_sidecar_tool(candidate: object, *, process: bool | None = None) -> SidecarTool:
    """Make a tool that can be served from a tool of any kind or a function.

    Args:
        candidate: A `Tool`, or what `planck_nb.tool` accepts.
        process: As for `tool`.

    Raises:
        UsageError: If the candidate is not a tool, or cannot run as `process` says.
    """
    if isinstance(candidate, SidecarTool):
        return candidate
    made = as_tool(candidate)
    if made.server is not None:
        raise UsageError(f"{made.name} is run by a model's server and cannot be served by a sidecar; remove it.")
    function = made.function or made.execute_fn
    return SidecarTool(
        name=made.name,
        description="\n\n".join(filter(None, (made.description, made.guidance))),  # MCP has no other place for it
        parameters=made.parameters,
        execute_fn=recorded(made.execute_fn),
        timeout=None,
        function=made.function,
        aliases=made.aliases,
        accept=made.accept,
        runs=runs_of(function, made.name, process=process),
        timeout_ms=DEFAULT_TIMEOUT_MS if made.timeout is None else clamp_timeout_ms(made.timeout * _SECOND),
        structure=structure_of(function, made.name),
    )


def checked_timeout_ms(timeout_ms: object, name: str) -> int:
    """Return a time that an author has set. Raises `UsageError` if it is not valid."""
    if isinstance(timeout_ms, int) and type(timeout_ms) is not bool and MIN_TIMEOUT_MS <= timeout_ms <= MAX_TIMEOUT_MS:
        return timeout_ms
    raise UsageError(
        f"The timeout_ms of {name} must be a whole number from {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS:,}, "
        f"not {timeout_ms!r}."
    )
