"""LLM agents that live inside the Jupyter kernel: streamed into the cell, stored as SQL, tested like code.

The public API is what is listed in the `__all__` of this package and of `planck_nb.ai`, `planck_nb.ai.dialects`,
`planck_nb.engines`, `planck_nb.errors`, `planck_nb.events`, `planck_nb.jupyter.verbs`, `planck_nb.resources`,
`planck_nb.sessions`, `planck_nb.sidecars`, `planck_nb.testing` and `planck_nb.workspace`.
Everything else is private and may change in any release.

Names are loaded on first use, so importing the package is cheap.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from planck_nb.base.version import __version__ as __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planck_nb import ai, errors, events, sidecars
    from planck_nb.agent.agent import Agent
    from planck_nb.agent.approval import Policy, Rule
    from planck_nb.agent.approval.gate import Approvals
    from planck_nb.agent.calling.functions import tool
    from planck_nb.agent.calling.tool import Tool, ToolContext
    from planck_nb.agent.calling.tool_output import ToolOutput
    from planck_nb.agent.context.compactor import Compact, Compactor
    from planck_nb.agent.effect import Effect
    from planck_nb.agent.limits import Limits
    from planck_nb.agent.run import Run
    from planck_nb.agent.run_result import RunResult
    from planck_nb.base.errors import PlanckError, ToolError
    from planck_nb.base.sync import run_sync
    from planck_nb.config import Config
    from planck_nb.sessions import Session
    from planck_nb.teams.inter_agent_tools import orchestrator_tools, worker_tools
    from planck_nb.teams.spec import AgentSpec
    from planck_nb.teams.team import Team
    from planck_nb.tools.builtin import BuiltinTools
    from planck_nb.tools.external import ExternalTool
    from planck_nb.workspace import Workspace

__all__ = [
    "Agent",
    "AgentSpec",
    "Approvals",
    "BuiltinTools",
    "Compact",
    "Compactor",
    "Config",
    "Effect",
    "ExternalTool",
    "Limits",
    "PlanckError",
    "Policy",
    "Rule",
    "Run",
    "RunResult",
    "Session",
    "Team",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "Workspace",
    "ai",
    "errors",
    "events",
    "get_workspace",
    "orchestrator_tools",
    "run_sync",
    "sidecars",
    "tool",
    "worker_tools",
]

_HOME = {
    "Agent": "planck_nb.agent.agent",
    "AgentSpec": "planck_nb.teams.spec",
    "Approvals": "planck_nb.agent.approval.gate",
    "BuiltinTools": "planck_nb.tools.builtin",
    "Compact": "planck_nb.agent.context.compactor",
    "Compactor": "planck_nb.agent.context.compactor",
    "Config": "planck_nb.config",
    "ExternalTool": "planck_nb.tools.external",
    "Limits": "planck_nb.agent.limits",
    "PlanckError": "planck_nb.base.errors",
    "Policy": "planck_nb.agent.approval",
    "Rule": "planck_nb.agent.approval",
    "Run": "planck_nb.agent.run",
    "RunResult": "planck_nb.agent.run_result",
    "Session": "planck_nb.sessions",
    "Team": "planck_nb.teams.team",
    "Tool": "planck_nb.agent.calling.tool",
    "ToolContext": "planck_nb.agent.calling.tool",
    "ToolError": "planck_nb.base.errors",
    "ToolOutput": "planck_nb.agent.calling.tool_output",
    "Effect": "planck_nb.agent.effect",
    "Workspace": "planck_nb.workspace",
    "orchestrator_tools": "planck_nb.teams.inter_agent_tools",
    "run_sync": "planck_nb.base.sync",
    "tool": "planck_nb.agent.calling.functions",
    "worker_tools": "planck_nb.teams.inter_agent_tools",
}


_MODULES = ("ai", "errors", "events", "sidecars")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _MODULES:
        return import_module(f"planck_nb.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'planck_nb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def get_workspace() -> Workspace | None:
    """Return this notebook's workspace, which `%planck` uses.

    Returns:
        The workspace, or None outside IPython and before `%load_ext planck_nb`.

    Example:
        >>> get_workspace() is None  # this is not a notebook
        True
    """
    extension = sys.modules.get("planck_nb.jupyter.extension")  # only `%load_ext` imports it, and IPython with it
    return None if extension is None else cast("Workspace | None", extension.current_workspace())


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add `%planck` and `%%planck` to a notebook; `%load_ext planck_nb` calls this."""
    import_module("planck_nb.base.programs").installed_modules.install()  # before further imports
    import_module("planck_nb.jupyter.extension").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove `%planck` and `%%planck` and stop their agents; `%unload_ext planck_nb` calls this."""
    import_module("planck_nb.jupyter.extension").unload(shell)
