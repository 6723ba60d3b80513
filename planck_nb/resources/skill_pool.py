"""The skills of a workspace: read again when they change, and offered to agents as tools."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeAlias

from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.effect import Effect
from planck_nb.base.errors import ConfigError, ToolError
from planck_nb.base.event_loops import SharedLookup
from planck_nb.base.json_types import JsonObject
from planck_nb.base.ownership import foreign_reason, foreign_sentence
from planck_nb.base.text import one_line
from planck_nb.resources.skills import (
    MAX_RESOURCES,
    SKILL_FILE,
    Skill,
    SkillReport,
    absolute,
    collect,
    read_skill,
    system_prompt_section,
)
from planck_nb.tools.external import LoadFailure

_SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time tells it from a later version; the coarsest file systems count in 2 s."""

_Version: TypeAlias = tuple[int, int, int, int]


class SkillPool:
    """The skills of some directories, as `load_all` finds them, up to date at every call.

    A SKILL.md is read again only when its times, size or inode changed. Methods block while the directories are listed.
    They may be called from several threads.

    Args:
        dirs: The directories, with `~` for the home folder.
        foreign: Whether to use skills that another user owns or can write.
    """

    def __init__(self, dirs: Iterable[str | Path], *, foreign: bool = True) -> None:
        self._foreign = foreign
        self._folders = tuple(map(absolute, dirs))
        self._known: dict[Path, tuple[_Version, Skill | LoadFailure]] = {}
        self._lookup = SharedLookup[SkillReport]()

    def report(self) -> SkillReport:
        """Return the skills that exist now, and what could not be used."""
        before, now = self._known, dict[Path, tuple[_Version, Skill | LoadFailure]]()

        def read(path: Path) -> Skill | LoadFailure:
            version = _version(path)
            known = before.get(path)
            found = known[1] if known is not None and known[0] == version else self._read(path)
            if version is not None and _is_settled(version):
                now[path] = version, found
            return found

        report = collect(self._folders, read)
        self._known = now
        return report

    def _read(self, path: Path) -> Skill | LoadFailure:
        try:
            reason = "" if self._foreign else foreign_reason(path)
        except (OSError, ValueError):
            reason = ""  # reading it fails, too, and says why
        return LoadFailure(path, foreign_sentence(path, reason)) if reason else read_skill(path)

    def section(self, names: Collection[str] | None = None) -> str:
        """Return the section of the system prompt about the skills.

        Args:
            names: The names of the skills to include, by default all. Names without a skill are ignored.

        Returns:
            The text, empty if there are no skills.
        """
        skills = self._lookup(self.report).skills.values()
        return system_prompt_section(skill for skill in skills if names is None or skill.name in names)

    def tools(self) -> tuple[Tool, Tool]:
        """Return the tools `load_skill(name)` and `list_skills()`; both use the skills at the time of the call."""
        return (
            Tool(
                name="load_skill",
                description="Load a skill: the whole text of its SKILL.md, its folder and the files in it.",
                parameters={
                    "type": "object",
                    "properties": {"name": {"type": "string", "description": "Name of the skill."}},
                    "required": ["name"],
                },
                execute_fn=self._load,
                touches=self._touches,
                guidance="Load a skill before the work that it describes, and follow it.",
            ),
            Tool(
                name="list_skills",
                description="List the skills that there are now, with what each is for.",
                execute_fn=self._list,
                touches=lambda _args: (),
                guidance="Shows skills that came after this conversation began, too.",
            ),
        )

    def _load(self, args: JsonObject) -> str:
        report = self.report()
        skill = report.skills.get(args["name"].strip())
        if skill is None:
            raise ToolError(_unknown(args["name"].strip(), report))
        try:
            return _loaded(skill, skill.text(), skill.resources())
        except ConfigError as error:
            raise ToolError(str(error)) from error

    def _list(self, _args: JsonObject) -> str:
        report = self.report()
        lines = [f"- {skill.name}: {skill.description}" for skill in report.skills.values()]
        lines = lines or ["No skills available."]
        if report.skipped:
            lines += ["", "Not usable:", *(f"- {skipped.reason}" for skipped in report.skipped)]
        return "\n".join(lines)

    def _touches(self, args: JsonObject) -> tuple[Effect, ...]:
        name = args.get("name")
        skill = self.report().skills.get(name.strip()) if isinstance(name, str) else None
        return () if skill is None else (Effect("read", str(skill.path)),)


def _version(path: Path) -> _Version | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _is_settled(version: _Version) -> bool:
    return time.time_ns() - version[0] > _SETTLED


def _unknown(name: str, report: SkillReport) -> str:
    for skipped in report.skipped:
        if skipped.path.name == SKILL_FILE and skipped.path.parent.name == name:
            return f"Skill {name!r} cannot be loaded. {skipped.reason}"
    available = f"available are: {', '.join(sorted(report.skills))}" if report.skills else "no skills are available"
    return f"There is no skill {one_line(name)!r}; {available}."


def _loaded(skill: Skill, text: str, resources: tuple[str, ...]) -> str:
    """What the model reads. The text comes last: where a result is too long, its middle is what is left out."""
    lines = [f"Skill: {skill.name}", f"File: {skill.path}", f"Folder: {skill.folder}"]
    if resources:
        first = f", the first {MAX_RESOURCES}" if len(resources) == MAX_RESOURCES else ""
        lines.append(f"Files that belong to it{first} (relative to the folder: read {skill.folder / resources[0]}):")
        lines += [f"- {name}" for name in resources]
    return "\n".join([*lines, "", text])
