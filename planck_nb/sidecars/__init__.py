"""Sidecars: MCP servers with tools, compactors and observers for a kernel's agents.

For programs: `connect` gives agents an MCP server's tools. For authors: `Sidecar`, or `tool`, `compactor` and
`observer` for a class or module with `tools()`; `run` for programs which end with their call; `list_tools`,
`execute_tool` and `discover` for tests and scripts. A sidecar's process needs `mcp` only. Names are loaded on demand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planck_nb.agent.calling.tool import ToolContext
    from planck_nb.agent.calling.tool_output import ToolOutput
    from planck_nb.base.errors import ToolError
    from planck_nb.sidecars.author.declared_compactors import CompactedModel, compactor
    from planck_nb.sidecars.author.declared_observers import observer
    from planck_nb.sidecars.author.direct import aexecute_tool, execute_tool, list_tools
    from planck_nb.sidecars.author.elicitation import Elicited, elicit
    from planck_nb.sidecars.author.entry_point import discover
    from planck_nb.sidecars.author.new_sidecar import new_sidecar
    from planck_nb.sidecars.author.programs import Completed, run
    from planck_nb.sidecars.author.resource_changes import resource_changed
    from planck_nb.sidecars.author.sidecar import Sidecar, SidecarModule
    from planck_nb.sidecars.author.sidecar_tools import SidecarTool, tool
    from planck_nb.sidecars.mcp_client.connect import ConnectedSidecar, connect
    from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

__all__ = [
    "CompactedModel",
    "Completed",
    "ConnectedSidecar",
    "Elicited",
    "Sidecar",
    "SidecarModule",
    "SidecarSpec",
    "SidecarTool",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "aexecute_tool",
    "compactor",
    "connect",
    "discover",
    "elicit",
    "execute_tool",
    "list_tools",
    "new_sidecar",
    "observer",
    "resource_changed",
    "run",
    "tool",
]

_AUTHOR = "planck_nb.sidecars.author"
_CLIENT = "planck_nb.sidecars.mcp_client"

_HOME = {
    "CompactedModel": f"{_AUTHOR}.declared_compactors",
    "Completed": f"{_AUTHOR}.programs",
    "ConnectedSidecar": f"{_CLIENT}.connect",
    "Elicited": f"{_AUTHOR}.elicitation",
    "Sidecar": f"{_AUTHOR}.sidecar",
    "SidecarModule": f"{_AUTHOR}.sidecar",
    "SidecarSpec": f"{_CLIENT}.sidecar_spec",
    "SidecarTool": f"{_AUTHOR}.sidecar_tools",
    "ToolContext": "planck_nb.agent.calling.tool",
    "ToolError": "planck_nb.base.errors",
    "ToolOutput": "planck_nb.agent.calling.tool_output",
    "aexecute_tool": f"{_AUTHOR}.direct",
    "compactor": f"{_AUTHOR}.declared_compactors",
    "connect": f"{_CLIENT}.connect",
    "discover": f"{_AUTHOR}.entry_point",
    "elicit": f"{_AUTHOR}.elicitation",
    "execute_tool": f"{_AUTHOR}.direct",
    "list_tools": f"{_AUTHOR}.direct",
    "new_sidecar": f"{_AUTHOR}.new_sidecar",
    "observer": f"{_AUTHOR}.declared_observers",
    "resource_changed": f"{_AUTHOR}.resource_changes",
    "run": f"{_AUTHOR}.programs",
    "tool": f"{_AUTHOR}.sidecar_tools",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'planck_nb.sidecars' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
