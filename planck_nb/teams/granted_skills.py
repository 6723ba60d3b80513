"""The skills of a pool that an agent was given, and no others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.teams.start_options import SkillSource


class GrantedSkills:
    """A part of a pool of skills. Its tools load and list these only.

    Args:
        pool: All skills.
        names: The names of the skills that the agent was given.
    """

    def __init__(self, pool: SkillSource, names: Collection[str]) -> None:
        self._pool = pool
        self._names = tuple(names)

    def section(self, names: Collection[str] | None = None) -> str:
        """Return the section of a system prompt about the skills of these names, by default about all that were given.

        Args:
            names: The names.
        """
        return self._pool.section([name for name in self._names if names is None or name in names])

    def tools(self) -> Sequence[Tool]:
        """Return the tools of the pool, for these skills only."""
        return [self._limited(tool) for tool in self._pool.tools()]

    def _limited(self, tool: Tool) -> Tool:
        names = ", ".join(self._names)

        async def run(args: JsonObject, context: ToolContext) -> ToolOutput | str:
            if "name" not in tool.parameters.get("properties", {}):
                return self.section()
            wanted = str(args.get("name", "")).strip()
            if wanted not in self._names:
                raise ToolError(f"You were not given the skill {wanted}; you have {names}.")
            return await tool.run(args, agent_id=context.agent_id, call_id=context.call_id, progress=context.progress)

        return replace(tool, execute_fn=run)
