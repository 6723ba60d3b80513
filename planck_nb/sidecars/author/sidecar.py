"""`Sidecar`: an application's tools, compactors, observers, resources and prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from planck_nb.base.errors import UsageError
from planck_nb.sidecars.author.declared_compactors import compactor
from planck_nb.sidecars.author.declared_observers import observer
from planck_nb.sidecars.author.offerings import SidecarPrompt, SidecarResource, prompt_of
from planck_nb.sidecars.author.sidecar_tools import SidecarTool, as_sidecar_tool, tool
from planck_nb.sidecars.conventions import DEFAULT_COMPACTOR_TIMEOUT_MS, DEFAULT_TIMEOUT_MS

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PROCESSES = 8
"""Default number of sync tools at the same time; further calls wait."""


class SidecarModule:
    """A sidecar written as a class.

    Override `tools`, and name the class in the entry point.

    Example:
        >>> class Empty(SidecarModule):
        ...     pass
        >>> Empty().tools()
        []
    """

    def tools(self) -> Sequence[object]:
        """Return the tools, by default an empty list.

        They may be `planck_nb.Tool` objects, functions, compactors and observers.
        """
        return []


class Sidecar:
    """An application's additions to a kernel's agents, declared with decorators.

    Name it in an entry point in the group `planck_nb.sidecars`, or serve it with
    `python -m planck_nb.sidecars MODULE:NAME`.

    Args:
        name: The sidecar's name, for people and logs.
        version: Its version.
        instructions: How to use it, for clients which show this to a model.
        processes: Number of sync tools at the same time, each in its own process.

    Raises:
        UsageError: If `name` is empty or `processes` is below 1.

    Example:
        >>> sidecar = Sidecar("calculator")
        >>> @sidecar.tool
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> [tool.name for tool in sidecar.tools()]
        ['add']
    """

    def __init__(
        self, name: str, *, version: str = "", instructions: str = "", processes: int = DEFAULT_PROCESSES
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise UsageError("A sidecar needs a name: Sidecar('my-sidecar').")
        if processes < 1:
            raise UsageError(f"The processes of the sidecar {name} must be 1 or more, not {processes}.")
        self.name = name
        self.version = version
        self.instructions = instructions
        self.processes = processes
        self._tools: dict[str, SidecarTool] = {}
        self._resources: dict[str, SidecarResource] = {}
        self._prompts: dict[str, SidecarPrompt] = {}

    def __repr__(self) -> str:
        return f"<Sidecar {self.name}: {len(self._tools)} tools>"

    def tools(self) -> list[SidecarTool]:
        """Return the tools, compactors and observers as they were declared."""
        return list(self._tools.values())

    def resources(self) -> list[SidecarResource]:
        """Return the resources and the resource templates."""
        return list(self._resources.values())

    def prompts(self) -> list[SidecarPrompt]:
        """Return the prompts."""
        return list(self._prompts.values())

    def add(self, candidate: object) -> SidecarTool:
        """Add a tool from elsewhere.

        Args:
            candidate: A `planck_nb.Tool`, a function, or a result from `tool`, `compactor` or `observer`.

        Returns:
            The tool as it is served.

        Raises:
            UsageError: If it is not a tool, or the name is in use.
        """
        made = as_sidecar_tool(candidate)
        if made.name in self._tools:
            raise UsageError(f"The sidecar {self.name} has two tools named {made.name}; rename one of them.")
        self._tools[made.name] = made
        return made

    @overload
    def tool(self, function: Callable[..., Any], /) -> SidecarTool: ...

    @overload
    def tool(
        self,
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
    ) -> Callable[[Callable[..., Any]], SidecarTool]: ...

    def tool(
        self,
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
        """Add a function as a tool: `@sidecar.tool` or `@sidecar.tool(timeout_ms=…)`.

        Args:
            function: The function, sync or async; see `planck_nb.sidecars.tool` for all arguments.
            name: The models' name for it.
            description: The models' description.
            timeout_ms: Default time for a call, in milliseconds.
            process: False to run a sync function in a sidecar's thread.
            title: A name for display.
            read_only: Whether it is free of changes.
            destructive: Whether it may delete or overwrite.
            idempotent: Whether a lost call may be repeated.
            open_world: Whether it interacts with the outside world.

        Returns:
            The tool, or a decorator which makes it from a function.

        Raises:
            UsageError: If the function or a setting is invalid, or the name is in use.
        """
        decorate = tool(
            name=name,
            description=description,
            timeout_ms=timeout_ms,
            process=process,
            title=title,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
        )
        return self._adding(decorate, function)

    @overload
    def compactor(self, function: Callable[..., Any], /) -> SidecarTool: ...

    @overload
    def compactor(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout_ms: int = DEFAULT_COMPACTOR_TIMEOUT_MS,
        process: bool | None = None,
    ) -> Callable[[Callable[..., Any]], SidecarTool]: ...

    def compactor(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout_ms: int = DEFAULT_COMPACTOR_TIMEOUT_MS,
        process: bool | None = None,
    ) -> SidecarTool | Callable[[Callable[..., Any]], SidecarTool]:
        """Add a function as a compactor.

        Use it as `@sidecar.compactor` or `@sidecar.compactor(timeout_ms=…)`.

        Args:
            function: The function; see `planck_nb.sidecars.compactor` for all arguments.
            name: The agents' name for it.
            description: Its purpose, for display.
            timeout_ms: Time limit for a call, in milliseconds.
            process: False to run a sync function in a sidecar's thread.

        Returns:
            The compactor as a tool, or a decorator which makes it from a function.

        Raises:
            UsageError: If a setting is invalid, or the name is in use.
        """
        return self._adding(
            compactor(name=name, description=description, timeout_ms=timeout_ms, process=process), function
        )

    @overload
    def observer(self, function: Callable[..., Any], /) -> SidecarTool: ...

    @overload
    def observer(
        self,
        /,
        *,
        name: str | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        process: bool | None = False,
    ) -> Callable[[Callable[..., Any]], SidecarTool]: ...

    def observer(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        process: bool | None = False,
    ) -> SidecarTool | Callable[[Callable[..., Any]], SidecarTool]:
        """Add a function for sessions' events; use it as `@sidecar.observer`.

        Args:
            function: The function; see `planck_nb.sidecars.observer` for all arguments.
            name: The observer's name.
            timeout_ms: Time limit for a call, in milliseconds.
            process: Whether to run a sync function in a process.

        Returns:
            The observer as a tool, or a decorator which makes it from a function.

        Raises:
            UsageError: If a setting is invalid, or the name is in use.
        """
        return self._adding(observer(name=name, timeout_ms=timeout_ms, process=process), function)

    def resource(
        self, uri: str, *, name: str | None = None, description: str | None = None, mime_type: str | None = None
    ) -> Callable[[F], F]:
        """Add a function as a resource: `@sidecar.resource("notes://today")`.

        It returns text or bytes.

        Args:
            uri: The address, or a template such as "notes://{day}" whose variables are the function's arguments.
            name: A name for display; by default the function's name.
            description: Its content; by default the docstring.
            mime_type: The media type; by default "text/plain" for text.

        Returns:
            A decorator, which returns the function.

        Raises:
            UsageError: If the address is in use.
        """

        def add(function: F) -> F:
            if uri in self._resources:
                raise UsageError(f"The sidecar {self.name} has two resources {uri}; give one another address.")
            named = str(name or getattr(function, "__name__", uri))
            self._resources[uri] = SidecarResource(
                uri, function, named, description or function.__doc__ or "", mime_type
            )
            return function

        return add

    @overload
    def prompt(self, function: F, /) -> F: ...

    @overload
    def prompt(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Callable[[F], F]: ...

    def prompt(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> F | Callable[[F], F]:
        """Add a function which returns a prompt's text; use it as `@sidecar.prompt`.

        Args:
            function: The function; its parameters are the prompt's arguments, all text.
            name: The prompt's name; by default the function's name.
            description: Its purpose; by default the docstring.

        Returns:
            The function, or a decorator which returns it.

        Raises:
            UsageError: If the name is in use.
        """

        def add(function: F) -> F:
            made = prompt_of(function, name=name, description=description)
            if made.name in self._prompts:
                raise UsageError(f"The sidecar {self.name} has two prompts named {made.name}; rename one of them.")
            self._prompts[made.name] = made
            return function

        return add if function is None else add(function)

    def _adding(
        self, decorate: Callable[[Callable[..., Any]], SidecarTool], function: Callable[..., Any] | None
    ) -> SidecarTool | Callable[[Callable[..., Any]], SidecarTool]:
        def add(function: Callable[..., Any]) -> SidecarTool:
            return self.add(decorate(function))

        return add if function is None else add(function)
