"""What a prompt can take from the notebook: functions as tools, values as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.base.text import head_and_tail
from planck_nb.workspace.toolbox import Toolbox

_MENTION = re.compile(r"(?<![\w@.])@([A-Za-z_]\w*)")
_SHOWN_CHARACTERS = 4_000
_SHOWN_LINES = 60
_FRAME_MODULES = ("pandas", "polars", "pyarrow")


def mentioned(prompt: str, namespace: Mapping[str, object]) -> list[str]:
    """The names written as `@name` in the prompt that the notebook knows, each once, in order."""
    return [name for name in dict.fromkeys(_MENTION.findall(prompt)) if name in namespace]


def is_function(value: object) -> bool:
    """Whether the value is handed to an agent as a tool; everything else is described."""
    return isinstance(value, Tool) or (callable(value) and not isinstance(value, type))


def functions(namespace: Mapping[str, object]) -> dict[str, object]:
    """The functions and tools of the notebook by name."""
    return {name: value for name, value in namespace.items() if name[0] != "_" and is_function(value)}


def tools_named(names: Iterable[str], namespace: Mapping[str, object], toolbox: Toolbox) -> list[Tool]:
    """The functions of these names, or else the workspace's tools. Raises `UsageError` for a name that is neither."""
    found: list[Tool] = []
    for name in names:
        if is_function(namespace.get(name)):
            found.append(as_tool(namespace[name]))
        elif toolbox.has(name):
            found.extend(toolbox.named([name]))
        elif name in namespace:
            kind = type(namespace[name]).__name__
            raise UsageError(f"{name} is a {kind}, not a function; only functions can be tools.")
        else:
            known = [*functions(namespace), *toolbox.names()]
            raise UsageError(f"There is no function or tool named {name}. {did_you_mean(name, known)}".rstrip())
    return found


def describe(name: str, value: object) -> str:
    """A value of the notebook as a model may read it: its type and a bounded part of its text."""
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - the value's own code
        text = f"(cannot be shown: {type(error).__name__}: {error})"
    shown = head_and_tail(text, characters=_SHOWN_CHARACTERS, lines=_SHOWN_LINES)
    return f"`{name}` is a {type(value).__name__}:\n\n```\n{shown}\n```"


def data_frames(namespace: Mapping[str, object]) -> dict[str, object]:
    """The notebook's tables, which SQL can join by name."""
    return {name: value for name, value in namespace.items() if name[:1] != "_" and _is_frame(type(value))}


def _is_frame(kind: type) -> bool:
    # The type is asked, because a frame of Polars that is still to be computed would begin to find out its columns.
    return kind.__module__.partition(".")[0] in _FRAME_MODULES and hasattr(kind, "columns") and hasattr(kind, "shape")
