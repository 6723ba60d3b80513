"""What the agents of a workspace can be given: built-in tools, tools from TOOL.json files and packages, skills."""

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
from planck_nb.tools.external import ExternalTool, LoadFailure
from planck_nb.tools.files import Files
from planck_nb.tools.installed import InstalledTools


class Toolbox:
    """Tools, skills and instructions for agents that work in `config.root`.

    What their tools change is recorded in `changes`. Instructions are read once, skills whenever a turn begins. Tools
    that installed packages offer are looked up last, so that no package replaces a tool of another kind.
    """

    def __init__(self, config: Config, changes: Changes, installed: InstalledTools | None = None) -> None:
        self._config = config
        self._installed = installed or InstalledTools()
        self._files = Files(changes)
        self._skills = SkillPool(config.skills_dirs)
        self._skill_tools = self._skills.tools()

    @cached_property
    def builtin(self) -> dict[str, Tool]:
        """The built-in tools by name."""
        return {tool.name: tool for tool in BuiltinTools.all(cwd=self._config.root, files=self._files)}

    def tools(self) -> dict[str, Tool]:
        """All tools by name, except those of packages; one of a TOOL.json goes before a built-in one."""
        found = ExternalTool.load_all(self._config.tools_dirs, cwd=self._config.root)
        external = {tool.name: tool for tool in reversed(found.tools)}
        return {**self.builtin, **external, **{tool.name: tool for tool in self._skill_tools}}

    def names(self) -> list[str]:
        """The names that `named` accepts; packages are not imported for them."""
        return list(dict.fromkeys([*self.tools(), *_GROUPS, *self._installed.names()]))

    def has(self, name: str) -> bool:
        """Whether `named` accepts this name."""
        return name in _GROUPS or name in self.tools() or name in self._installed.names() or self.find(name) is not None

    def find(self, name: str) -> Tool | None:
        """The tool of exactly this name, None if there is none."""
        return self.tools().get(name) or self._installed.find(name)

    def named(self, names: Iterable[str]) -> list[Tool]:
        """Return the tools of these names.

        Args:
            names: Names of tools, groups ("files" is read, write and edit; "builtin" these and bash), and entry points
                of installed packages, which may offer several tools under one name.

        Raises:
            UsageError: There is no tool of one of these names.
            ConfigError: The package that offers a tool of one of these names cannot be used.
        """
        tools = self.tools()
        found: list[Tool] = []
        for name in names:
            if name in tools:
                found.append(tools[name])
            elif name in _GROUPS:
                found += [tools[member] for member in _GROUPS[name]]
            elif installed := self._installed.named(name):
                found += installed
            else:
                raise UsageError(f"There is no tool named {name}. {did_you_mean(name, self.names())}")
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

    def skipped(self) -> list[LoadFailure]:
        """Files and packages that could not be used, with the reasons."""
        tools = ExternalTool.load_all(self._config.tools_dirs, cwd=self._config.root).skipped
        instructions = (LoadFailure(Path(INSTRUCTIONS_FILE), text) for text in self.instructions.warnings)
        return [*tools, *self._installed.skipped(), *self._skills.report().skipped, *instructions]


_GROUPS = {"files": ("read", "write", "edit"), "builtin": ("read", "write", "edit", "bash")}
