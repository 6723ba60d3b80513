"""Skills: folders with a SKILL.md, in the public Agent Skills format, with instructions for a certain kind of work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from planck_nb.base.errors import ConfigError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.reading import describe_error, read_head
from planck_nb.base.text import is_printable, one_line, printable
from planck_nb.resources import front_matter
from planck_nb.tools.external import LoadFailure

SKILL_FILE = "SKILL.md"

MAX_BYTES = 1_048_576
"""Bytes that a SKILL.md may have."""

MAX_RESOURCES = 200
MAX_RESOURCE_DEPTH = 6
"""Files of a skill that are named, and folders below its own that are entered."""

MAX_NAME = 128
MAX_DESCRIPTION = 1_024
"""Characters: a longer name is refused, a longer description cut, because every request carries it."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as its front matter describes it.

    Args:
        name: Its name, on one line of at most 128 characters.
        description: What it is for, on one line of at most 1,024 characters.
        path: The absolute path of its SKILL.md.
        front_matter: All fields of the front matter, such as `license`, `compatibility`, `metadata` and
            `allowed-tools`. Values are strings, or lists and mappings of strings.
    """

    name: str
    description: str
    path: Path
    front_matter: JsonObject = field(default_factory=dict, repr=False, hash=False)

    @property
    def folder(self) -> Path:
        """The folder that file names in the skill are relative to."""
        return self.path.parent

    def text(self) -> str:
        """Return the whole SKILL.md as it is now, front matter included.

        Raises:
            ConfigError: The file cannot be read, or is larger than 1 MiB.
        """
        try:
            data = read_head(self.path, MAX_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"Cannot read skill {self.name!r} at {self.path}: {describe_error(error)}.") from error
        if len(data) > MAX_BYTES:
            raise ConfigError(f"Cannot read skill {self.name!r} at {self.path}: {_too_large()}.")
        return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")

    def resources(self) -> tuple[str, ...]:
        """Return the names of the other files in the folder and below, relative to it and sorted.

        Hidden files are left out. A linked folder is named, with a `/` at the end, but not entered, so that links
        cannot form a cycle or lead out of the skill.

        Returns:
            At most 200 names.
        """
        found: list[str] = []
        for name in _files_below(self.folder):
            if len(found) == MAX_RESOURCES:
                break
            if name != SKILL_FILE and is_printable(name):
                found.append(name)
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class SkillReport:
    """The skills of some directories.

    Args:
        skills: The skills by name, in the order of the directories and then of the folders' names.
        skipped: The files and directories that could not be used, with the reasons.
    """

    skills: Mapping[str, Skill]
    skipped: tuple[LoadFailure, ...]


SkillReader: TypeAlias = Callable[[Path], Skill | LoadFailure]


def load_all(dirs: Iterable[str | Path]) -> SkillReport:
    """Load the skills of all `<dir>/<name>/SKILL.md`.

    Args:
        dirs: The directories, with `~` for the home folder. One that does not exist has no skills. If two skills have
            the same name, the first one is used, so a project's directory should come before the user's own.

    Returns:
        The skills, and what could not be used. Nothing is raised.
    """
    return collect(map(absolute, dirs), read_skill)


def absolute(folder: str | Path) -> Path:
    """Return the absolute path of a folder, `~` expanded."""
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError:  # `~name` of an unknown user: treated as a folder that does not exist
        return Path(folder).absolute()


def collect(folders: Iterable[Path], read: SkillReader) -> SkillReport:
    """Like `load_all`, for absolute folders and with `read` in place of `read_skill`."""
    skills: dict[str, Skill] = {}
    skipped: list[LoadFailure] = []
    for folder in dict.fromkeys(folders):
        try:
            paths = _skill_files(folder)
        except (OSError, ValueError) as error:
            skipped.append(LoadFailure(folder, f"Cannot list skills in {printable(folder)}: {describe_error(error)}."))
            continue
        for path in paths:
            found = read(path)
            if isinstance(found, LoadFailure):
                skipped.append(found)
                continue
            first = skills.setdefault(found.name, found)
            if first is not found and not _same(first.path, path):
                skipped.append(
                    LoadFailure(path, f"{path} is not used: {first.path} has the same name and comes first.")
                )
    return SkillReport(skills, tuple(skipped))


def read_skill(path: Path) -> Skill | LoadFailure:
    """Return the skill that the SKILL.md at an absolute path describes, or why it cannot be used. Never raises."""
    try:
        return _read(path)
    except (OSError, ValueError) as error:
        return LoadFailure(path, f"Cannot use {printable(path)}: {describe_error(error)}.")


def system_prompt_section(skills: Mapping[str, Skill] | Iterable[Skill]) -> str:
    """Return the section of a system prompt about skills.

    Args:
        skills: The skills, in the order in which they are listed, or a mapping with them as values.

    Returns:
        The text, empty if there are no skills.
    """
    entries = [_entry(skill) for skill in (skills.values() if isinstance(skills, Mapping) else skills)]
    return "\n".join([_INTRODUCTION, *entries]) if entries else ""


_INTRODUCTION = """\
## Skills

A skill tells you how to do a certain kind of work. Before you do what one of them describes, call load_skill with its \
name: it gives the whole text of the skill's file, which you then follow. File names in a skill are relative to its \
folder: join them with the folder before you read or run them.
"""


def _entry(skill: Skill) -> str:
    return f"- **{skill.name}**: {skill.description}\n  File: {skill.path} (folder: {skill.folder})"


def _skill_files(folder: Path) -> list[Path]:
    """The SKILL.md of each folder that has one, readable or not. Raises OSError if the folder cannot be listed."""
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [entry / SKILL_FILE for entry in entries if _exists(entry / SKILL_FILE)]


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # a loop of links, a folder that may not be entered: reading it says so
        return True
    return True


def _read(path: Path) -> Skill:
    if not is_printable(str(path)):
        raise ValueError("its path has characters that cannot be shown; rename the folder")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(_too_large())
    fields = front_matter.parse(read_head(path, front_matter.MAX_BYTES))
    name = _required(fields, "name")
    if len(name) > MAX_NAME:
        raise ValueError(f"its name has more than {MAX_NAME} characters")
    return Skill(name, one_line(_required(fields, "description"), MAX_DESCRIPTION), path, fields)


def _required(fields: JsonObject, key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"the {key} in its front matter is not a string")  # noqa: TRY004 - as above
    text = printable(value)
    if not text:
        raise ValueError(f"its front matter has no {key}")
    return text


def _too_large() -> str:
    return f"it has more than {MAX_BYTES:,} bytes; move parts of it to files beside it"


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


def _files_below(folder: Path) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        links = [f"{name}/" for name in folders if (here / name).is_symlink()]
        inside = here.relative_to(folder)
        for name in sorted(name for name in (*files, *links) if not name.startswith(".")):
            yield f"{inside.as_posix()}/{name}" if inside.parts else name
        if len(inside.parts) == MAX_RESOURCE_DEPTH:
            folders.clear()
