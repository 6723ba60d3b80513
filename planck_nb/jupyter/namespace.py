"""What prompts use of the notebook: functions as tools, values as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType

from planck_nb.agent.calling.functions import as_tool, by_name, tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.base.markdown import fence_of
from planck_nb.jupyter.values import describe_value
from planck_nb.jupyter.values.type_checks import is_a, name_of
from planck_nb.tools.reserved_names import is_reserved
from planck_nb.workspace.toolbox import Toolbox

_FRAME_MODULES = ("pandas", "polars", "pyarrow")


def is_function(value: object) -> bool:
    """Return whether the value can be a tool; other values are described to the model."""
    return is_a(value, Tool) or (callable(value) and not is_a(value, type))


def functions(namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the functions and tools of the notebook by name."""
    return {name: value for name, value in namespace.items() if name[0] != "_" and is_function(value)}


def tools_named(names: Iterable[str], namespace: Mapping[str, object], toolbox: Toolbox) -> list[Tool]:
    """Find functions of the notebook, or tools of the workspace, by name.

    Args:
        names: The names; one of a group of tools, such as "files", stands for all of them.
        namespace: The variables of the notebook.
        toolbox: The tools of the workspace.

    Returns:
        The tools.

    Raises:
        TrustError: The folder has an untrusted tool with this name.
        UsageError: A name is neither a function nor a tool, or two different functions make tools of one name.
    """
    found: list[Tool] = []
    for name in names:
        if is_function(namespace.get(name)):
            if is_reserved(name) and not isinstance(namespace[name], Tool):
                raise UsageError(
                    f"The notebook has a function {name}, and {name} is a reserved name; rename the function or "
                    "delete it, or decorate it with @tool to use it instead."
                )
            found.append(_tool_of(name, namespace[name]))
        elif toolbox.has(name):
            found.extend(toolbox.named([name]))
        elif name in namespace:
            kind = type(namespace[name]).__name__
            raise UsageError(f"{name} is of type {kind}; only functions can be tools.")
        else:
            toolbox.require_trusted(name)
            known = [*functions(namespace), *toolbox.described()]
            raise UsageError(f"There is no function or tool named {name}. {did_you_mean(name, known)}".rstrip())
    return list(by_name(found).values())


def tool_finder(namespace: Mapping[str, object]) -> Callable[[str], Tool | None]:
    """Return a function that finds the functions of the notebook that stored agents or members of teams name.

    A plain function with the name of a built-in tool does not replace it: the name may have meant the tool.

    Args:
        namespace: The variables of the notebook.
    """

    def find(name: str) -> Tool | None:
        value = namespace.get(name)
        deliberate = isinstance(value, Tool) or not is_reserved(name)
        return _tool_of(name, value) if is_function(value) and deliberate else None

    return find


def _tool_of(name: str, value: object) -> Tool:
    """The tool for the value of a variable.

    Only a function that `def` made, or a tool, has a name of its own. The name of what `functools.partial` has bound,
    or of the class of an object, may stand for several variables, and for another function when a session is resumed.
    """
    named = type(value) is FunctionType and value.__name__ != (lambda: None).__name__
    if named or is_a(value, Tool) or not callable(value):
        return as_tool(value)
    return tool(name=name)(value)


def describe(name: str, value: object) -> str:
    """Return a value of the notebook as text for a model: its type and a limited part of its text."""
    text = describe_value(value)
    fence = fence_of(text)
    return f"`{name}` is a {name_of(type(value))}:\n\n{fence}\n{text}\n{fence}"


def data_frames(namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the data frames of the notebook by name, which SQL can join."""
    return {name: value for name, value in namespace.items() if name[:1] != "_" and _is_frame(type(value))}


def _is_frame(kind: type) -> bool:
    # Looking at the type only: a lazy frame of Polars would compute its columns.
    modules = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return not modules.isdisjoint(_FRAME_MODULES) and hasattr(kind, "columns") and hasattr(kind, "shape")
