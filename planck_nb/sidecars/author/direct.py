"""Lists and calls a sidecar's tools in this process, without a server.

It is for tests and scripts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, overload

from planck_nb.ai.request import ToolSpec
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.sync import run_sync
from planck_nb.sidecars.author.entry_point import discover
from planck_nb.sidecars.author.offer import offer_of
from planck_nb.sidecars.author.recording import returned_values
from planck_nb.sidecars.author.sidecar_tools import SidecarTool
from planck_nb.sidecars.conventions import ROLE_TOOL, RUNS_ASYNC

_NO_ENTRY = "no sidecar entry module found"
"""The words in Planck."""


def list_tools(module: object | None = None) -> list[ToolSpec]:
    """List the models' tools: names, descriptions and schemas, without functions.

    Args:
        module: A `Sidecar`, a class or a module; by default the result of `discover`.

    Returns:
        The tools as JSON-serialisable data (`dataclasses.asdict`), empty without a sidecar. Compactors and observers
        are left out.

    Raises:
        ConfigError: If the sidecar cannot be imported.
        UsageError: If `tools()` does not return tools.

    Example:
        >>> from planck_nb.sidecars import Sidecar
        >>> sidecar = Sidecar("calculator")
        >>> @sidecar.tool
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> [tool.name for tool in list_tools(sidecar)]
        ['add']
    """
    entry = discover() if module is None else module
    if entry is None:
        return []
    return [tool.spec for tool in offer_of(entry).tools.values() if tool.role == ROLE_TOOL]


@overload
def execute_tool(name: str, agent_id: str, args: JsonObject, /, *, module: object | None = None) -> Any: ...  # noqa: ANN401


@overload
def execute_tool(
    name: str, agent_id: str, call_id: str, args: JsonObject, /, *, module: object | None = None
) -> Any: ...  # noqa: ANN401


@overload
def execute_tool(module: object, name: str, agent_id: str, args: JsonObject, /) -> Any: ...  # noqa: ANN401


@overload
def execute_tool(module: object, name: str, agent_id: str, call_id: str, args: JsonObject, /) -> Any: ...  # noqa: ANN401


def execute_tool(*arguments: Any, module: object | None = None) -> Any:
    """Call a tool in this process and return its function's value.

    `aexecute_tool` is its async sibling. As in Planck, the module may come first, and the call's id may be left out:
    `execute_tool(name, agent_id, args)`, `execute_tool(name, agent_id, call_id, args)`, and both after a module.

    Args:
        arguments: The tool's name, the calling agent's id, the call's id, and the arguments object.
        module: A `Sidecar`, a class or a module; by default the result of `discover`.

    Returns:
        The function's value as it is; for a generator, the models' version of its output.

    Raises:
        ToolError: If the sidecar or the tool is unknown, the arguments are invalid, or the tool failed.
        UsageError: If the tool is async and an event loop is running in this thread.

    Example:
        >>> from planck_nb.sidecars import Sidecar
        >>> sidecar = Sidecar("calculator")
        >>> @sidecar.tool
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> execute_tool("add", "agent-1", "call-1", {"a": 1, "b": 2}, module=sidecar)
        3
    """
    call = _DirectCall(arguments, module)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_sync(call.run())
    if call.tool.runs == RUNS_ASYNC:
        raise UsageError("An event loop is already running here: use `await aexecute_tool(…)`.")
    return _in_own_thread(lambda: run_sync(call.run()))


async def aexecute_tool(*arguments: Any, module: object | None = None) -> Any:  # noqa: ANN401 - as the tool returns
    """Call a tool in this process and return its function's value.

    Args:
        arguments: As for `execute_tool`.
        module: A `Sidecar`, a class or a module; by default the result of `discover`.

    Returns:
        The function's value as it is; for a generator, the models' version of its output.

    Raises:
        ToolError: If the sidecar or the tool is unknown, the arguments are invalid, or the tool failed.
        UsageError: If the arguments are others.
    """
    return await _DirectCall(arguments, module).run()


class _DirectCall:
    """A tool call in this process, or `ToolError` for an unknown tool."""

    def __init__(self, arguments: tuple[Any, ...], module: object | None) -> None:
        if module is None and arguments and not isinstance(arguments[0], str):
            module, *arguments_after = arguments
            arguments = tuple(arguments_after)
        match arguments:
            case (str(name), str(agent_id), dict(args)):
                call_id = ""
            case (str(name), str(agent_id), str(call_id), dict(args)):
                pass
            case _:
                raise UsageError(
                    "execute_tool needs (name, agent_id, args) or (name, agent_id, call_id, args), where args is a "
                    "dictionary; the sidecar's module may come first, or as `module=`."
                )
        entry = discover() if module is None else module
        if entry is None:
            raise ToolError(_NO_ENTRY)
        self.tool = find_tool(offer_of(entry).tools, name)
        self._agent_id = agent_id
        self._call_id = call_id
        self._args = args

    async def run(self) -> object:
        with returned_values() as values:
            output = await self.tool.run(self._args, agent_id=self._agent_id, call_id=self._call_id)
        if values:
            return values[-1]
        return output if output.images else output.text


def find_tool(tools: dict[str, SidecarTool], name: str) -> SidecarTool:
    """Return a tool by its name, or raise `ToolError`."""
    if name not in tools:
        raise ToolError(f"unknown tool: {name}")
    return tools[name]


def _in_own_thread(function: Callable[[], object]) -> object:
    """Call a function in a thread without an event loop, and wait."""
    outcome: list[object] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
