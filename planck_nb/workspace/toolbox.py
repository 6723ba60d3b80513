"""What the agents of a workspace can be given: tools of files and shell, tools from TOOL.json files, skills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.config import Config
from planck_nb.resources.instructions import INSTRUCTIONS_FILE, Instructions, find_instructions
from planck_nb.resources.skill_pool import SkillPool
from planck_nb.resources.skills import Skill
from planck_nb.tools.builtin import BuiltinTools
from planck_nb.tools.changes import Changes
from planck_nb.tools.external import ExternalTool, Skipped
from planck_nb.tools.files import Files


class Toolbox:
    """Tools, skills and instructions for agents that work in `config.root`.

    What their tools change is recorded in `changes`. Instructions are read once, skills whenever a turn begins.
    """

    def __init__(self, config: Config, changes: Changes) -> None:
        self._config = config
        self._files = Files(changes)
        self._skills = SkillPool(config.skills_dirs)
        self._skill_tools = self._skills.tools()

    @cached_property
    def builtin(self) -> dict[str, Tool]:
        """The built-in tools by name."""
        return {tool.name: tool for tool in BuiltinTools.all(cwd=self._config.root, files=self._files)}

    def tools(self) -> dict[str, Tool]:
        """All tools that an agent can be given by name; one of a TOOL.json counts before a built-in one."""
        found = ExternalTool.load_all(self._config.tools_dirs, cwd=self._config.root)
        external = {tool.name: tool for tool in reversed(found.tools)}
        return {**self.builtin, **external, **{tool.name: tool for tool in self._skill_tools}}

    def names(self) -> list[str]:
        """What `named` takes."""
        return [*self.tools(), *_GROUPS]

    def has(self, name: str) -> bool:
        """Whether `named` takes this name."""
        return name in _GROUPS or name in self.tools()

    def named(self, names: Iterable[str]) -> list[Tool]:
        """The tools of these names; "files" stands for read, write and edit. Raises `UsageError` for an unknown one."""
        tools = self.tools()
        found: list[Tool] = []
        for name in names:
            members = _GROUPS.get(name, (name,)) if name not in tools else (name,)
            for member in members:
                if member not in tools:
                    raise UsageError(f"There is no tool named {name}. {did_you_mean(name, self.names())}")
                found.append(tools[member])
        return found

    def skills(self) -> Mapping[str, Skill]:
        """The skills by name, as they are now."""
        return self._skills.report().skills

    def prompt_parts(self) -> SystemPromptParts:
        """What every agent is told, and the tools that load skills, where there are skills."""
        section = self._skills.section()
        return SystemPromptParts(self.instructions.text, section, self._skill_tools if section else ())

    @cached_property
    def instructions(self) -> Instructions:
        """The AGENTS.md files that hold for the working directory."""
        return find_instructions(self._config.root)

    def skipped(self) -> list[Skipped]:
        """Files of tools and skills that could not be used, with the reasons."""
        tools = ExternalTool.load_all(self._config.tools_dirs, cwd=self._config.root).skipped
        instructions = (Skipped(Path(INSTRUCTIONS_FILE), text) for text in self.instructions.warnings)
        return [*tools, *self._skills.report().skipped, *instructions]


_GROUPS = {"files": ("read", "write", "edit"), "builtin": ("read", "write", "edit", "bash")}
