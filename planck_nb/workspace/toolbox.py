"""The tools and skills for the agents of a workspace: built in, from TOOL.json files, and from packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.ai.server_tools import SERVER_TOOLS, ServerTool
from planck_nb.base.errors import ConfigError, TrustError, UsageError, did_you_mean
from planck_nb.base.ownership import FOREIGN_HINT
from planck_nb.config import Config, FolderTrust, TrustItem
from planck_nb.config.named_files import covered, find_named_files
from planck_nb.resources.instructions import INSTRUCTIONS_FILE, Instructions, find_instructions
from planck_nb.resources.skill_pool import SkillPool
from planck_nb.resources.skills import Skill
from planck_nb.tools.builtin import BuiltinTools
from planck_nb.tools.changes import Changes
from planck_nb.tools.external import ExternalTool, LoadFailure, LoadReport, parse_tool, read_tool_file, tool_files
from planck_nb.tools.files import Files
from planck_nb.tools.installed import InstalledTools

_SHOWN_MEMBERS = 5
"""Tools which a group's description names."""


class ToolSource(Protocol):
    """Tools that are not in files or packages: those of sidecars, and those of the notebook's kernel."""

    def tools(self) -> Mapping[str, Tool]:
        """The tools by name."""

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the tools in each group, by the name of the group, such as that of a sidecar."""


class Toolbox:
    """Tools, skills and instructions for agents that work in `config.root`.

    Instructions are read once, skills at the start of every turn. Tools of installed packages are looked up last, so
    that no package replaces a tool of another kind.

    Args:
        config: The settings.
        changes: Records the changes to files that the tools make.
        installed: The tools of installed packages.
        sidecars: The tools of sidecars.
        kernel: Returns the tools for the kernel of the notebook, None where there is none.
    """

    def __init__(
        self,
        config: Config,
        changes: Changes,
        installed: InstalledTools | None = None,
        sidecars: ToolSource | None = None,
        kernel: Callable[[], ToolSource | None] = lambda: None,
    ) -> None:
        self._sidecars = sidecars
        self._kernel = kernel
        self._config = config
        self._installed = installed or InstalledTools()
        self._files = Files(changes)
        self._trust = config.folder_trust or FolderTrust(config.root, config.user_folder)
        self._skills = SkillPool(config.skills_dirs, foreign=self._trust.always)
        self._skill_tools = self._skills.tools()

    @property
    def skill_pool(self) -> SkillPool:
        """The skills, up to date at every call."""
        return self._skills

    @cached_property
    def builtin(self) -> dict[str, Tool]:
        """The built-in tools by name."""
        config = self._config
        tools = BuiltinTools.all(cwd=config.root, files=self._files, sandbox=config.sandbox)
        return {tool.name: tool for tool in tools}

    @cached_property
    def _groups(self) -> dict[str, tuple[str, ...]]:
        """Names that stand for several tools."""
        return {"files": ("read", "write", "edit"), "builtin": tuple(self.builtin)}

    def tools(self) -> dict[str, Tool]:
        """All tools by name, except those of packages. No file can replace a built-in one: their names are reserved."""
        found = self._load_external()
        external = {tool.name: tool for tool in reversed(found.tools)}
        return {**self.builtin, **external, **{tool.name: tool for tool in self._skill_tools}}

    def _of_kernel(self) -> Mapping[str, Tool]:
        kernel = self._kernel()
        return {} if kernel is None else kernel.tools()

    def _kernel_groups(self) -> Mapping[str, tuple[str, ...]]:
        kernel = self._kernel()
        return {} if kernel is None else kernel.groups()

    def _of_sidecars(self) -> Mapping[str, Tool]:
        return {} if self._sidecars is None else self._sidecars.tools()

    def _sidecar_groups(self) -> Mapping[str, tuple[str, ...]]:
        return {} if self._sidecars is None else self._sidecars.groups()

    def _load_external(self) -> LoadReport:
        config = self._config
        return ExternalTool.load_all(config.tools_dirs, cwd=config.root, sandbox=config.sandbox, accept=self._accepts)

    def _accepts(self, path: Path, content: bytes) -> bool:
        folder = path.parent.parent
        return not self._config.needs_trust("tools_dirs", folder) or self._trust.accepts(
            _tool_item(path, content, self._config.root)
        )

    def described(self) -> dict[str, str]:
        """Describe the names which `named` accepts, without importing packages."""
        found: dict[str, str] = {}
        for tools in (self.tools(), self._of_kernel(), self._of_sidecars()):
            for name, tool in tools.items():
                found.setdefault(name, tool.description.partition("\n")[0])
        for groups in (self._groups, self._kernel_groups(), self._sidecar_groups()):
            for name, members in groups.items():
                found.setdefault(name, _members(members))
        packages = dict.fromkeys(self._installed.names(), "tool of an installed package")
        return {**SERVER_TOOLS, **packages, **found}

    def read(self, path: Path) -> str:
        """Return a file's text as the tool `read` does.

        Args:
            path: The file.

        Returns:
            The text; empty for a binary file.

        Raises:
            ToolError: The file cannot be read.
        """
        return self._files.text(path)

    def has(self, name: str) -> bool:
        """Whether `named` accepts this name."""
        return (
            name in self._groups
            or name in self.tools()
            or name in self._kernel_groups()
            or name in self._sidecar_groups()
            or name in self._installed.names()
            or self.find(name) is not None
        )

    def find(self, name: str) -> Tool | None:
        """The tool with exactly this name, None if there is none."""
        return self.tools().get(name) or self.find_other(name)

    def find_other(self, name: str) -> Tool | None:
        """The tool of this name for the kernel, or of a sidecar, a package or the model's server; None without one."""
        found = self._of_kernel().get(name) or self._of_sidecars().get(name) or self._installed.find(name)
        return as_tool(name) if found is None and ServerTool.parse(name) is not None else found

    def named(self, names: Iterable[str]) -> list[Tool]:
        """Find tools by name.

        Args:
            names: Names of tools, of groups ("files" for read, write and edit; "builtin" for these and bash; "kernel"
                for the tools that work in the kernel of the notebook), of sidecars, which stand for all of their tools,
                of entry points of installed packages, which may offer several tools under one name, and of server tools
                such as "web_search".

        Returns:
            The tools, in the order of the names.

        Raises:
            TrustError: The folder has a tool of one of these names, which is not trusted.
            UsageError: There is no tool of one of these names.
            ConfigError: The package that offers a tool of one of these names cannot be used.
        """
        tools = self.tools()
        found: list[Tool] = []
        for name in names:
            if name in tools:
                found.append(tools[name])
            elif name in self._groups:
                found += [tools[member] for member in self._groups[name]]
            elif name in self._kernel_groups():
                found += [self._of_kernel()[member] for member in self._kernel_groups()[name]]
            elif name in self._of_kernel():
                found.append(self._of_kernel()[name])
            elif name in self._sidecar_groups():
                found += [self._of_sidecars()[member] for member in self._sidecar_groups()[name]]
            elif name in self._of_sidecars():
                found.append(self._of_sidecars()[name])
            elif installed := self._installed.named(name):
                found += installed
            elif ServerTool.parse(name) is not None:
                found.append(as_tool(name))
            else:
                self.require_trusted(name)
                raise UsageError(f"There is no tool named {name}. {did_you_mean(name, self.described())}")
        return found

    def require_trusted(self, name: str) -> None:
        """Refuse an untrusted tool in the folder.

        Args:
            name: A tool's name.

        Raises:
            TrustError: The folder has an untrusted tool with this name.
        """
        for item in tool_trust_items(self._config):
            if item.name == name and not self._trust.accepts(item):
                raise TrustError(
                    f"The tool {name} runs what {item.path} says and is not trusted; look at it with `%planck trust "
                    "--list`, then run `%planck trust`."
                )

    def skills(self) -> Mapping[str, Skill]:
        """The current skills by name."""
        return self._skills.report().skills

    def prompt_parts(self) -> SystemPromptParts:
        """The instructions for every agent and, if there are skills, their section of the prompt and their tools."""
        section = self._skills.section()
        return SystemPromptParts(self.instructions.text, section, self._skill_tools if section else ())

    @cached_property
    def instructions(self) -> Instructions:
        """The AGENTS.md files that apply to the working directory."""
        return find_instructions(self._config.root, foreign=self._trust.always)

    def foreign_texts(self) -> list[str]:
        """A sentence about each text that is not used because another user may have written it."""
        skills = (failure.reason for failure in self._skills.report().skipped)
        return [text for text in (*self.instructions.warnings, *skills) if FOREIGN_HINT in text]

    def skipped(self) -> list[LoadFailure]:
        """Files and packages that could not be used, with the reasons."""
        tools = self._load_external().skipped
        instructions = (LoadFailure(Path(INSTRUCTIONS_FILE), text) for text in self.instructions.warnings)
        return [*tools, *self._installed.skipped(), *self._skills.report().skipped, *instructions]


def _members(names: Sequence[str]) -> str:
    """Return a group's description: its first tools."""
    more = len(names) - _SHOWN_MEMBERS
    return ", ".join(names[:_SHOWN_MEMBERS]) + (f" and {more} more" if more > 0 else "")


def tool_trust_items(config: Config) -> list[TrustItem]:
    """The TOOL.json files that need trust, as they are now."""
    found: list[TrustItem] = []
    for folder in config.tools_dirs:
        if config.needs_trust("tools_dirs", folder):
            with suppress(OSError, RuntimeError):
                for path in tool_files(folder):
                    with suppress(ConfigError):  # `skipped` says which cannot be read
                        found.append(_tool_item(path, read_tool_file(path), config.root))
    return found


def _tool_item(path: Path, content: bytes, root: Path) -> TrustItem:
    """Describe a TOOL.json: everything in it, with the files which its command names. Raises ConfigError."""
    data = parse_tool(path, content)
    files = find_named_files([data["command"]], root=root, folder=root)
    details = [("command", data["command"]), ("files", "\n".join(file.line for file in files))]
    details += [(key, _json_text(value)) for key, value in data.items() if key not in ("name", "command")]
    return TrustItem.of("tool", path, content + covered(files), details, name=data["name"])


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
