"""Team templates: descriptions of the members of a team, in a JSON file or a folder with a TEAM.json."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planck_nb.agent.identity import Role
from planck_nb.base.errors import ConfigError, did_you_mean
from planck_nb.base.ownership import foreign_reason, foreign_sentence
from planck_nb.base.reading import read_bounded
from planck_nb.teams.json_text import parse_json
from planck_nb.teams.member_fields import kind
from planck_nb.teams.problems import TemplateProblem, as_sentence, named, on_one_line
from planck_nb.teams.prompt_files import MAX_BYTES, PromptFiles
from planck_nb.teams.roles import RoleDecision, decide_roles, role_alone
from planck_nb.teams.spec import AgentSpec, SpecList, read_members

TEAM_FILE = "TEAM.json"

TEAM_FIELDS = ("$schema", "name", "description", "members")
"""The fields of a TEAM.json."""

MAX_MEMBERS = 1_000
"""Members that a template may have."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TeamTemplate:
    """The members of a team that is not running.

    Args:
        alias: The name of the template: that of its folder, or of its file without the suffix.
        members: The descriptions of the members that can be used, in their order.
        roles: The roles of the members, in the same order; exactly one of them is "orchestrator".
        name: The name that the template gives itself, None if it has none.
        description: What the team is for, None if the template does not say.
        source: "filesystem", or "dynamic" for a template that a program has made.
        dir: The absolute path of its folder, None if it was not read from a file.
        path: The absolute path of its JSON file, None if it was not read from a file.
        report: What is wrong with it, and what was decided where it does not say.
        files: The contents of its files by their paths relative to `dir`, exactly as they were read.
    """

    alias: str
    members: tuple[AgentSpec, ...]
    roles: tuple[Role, ...]
    name: str | None = None
    description: str | None = None
    source: str = "filesystem"
    dir: Path | None = None
    path: Path | None = None
    report: tuple[TemplateProblem, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False, compare=False, hash=False)

    @classmethod
    def dynamic(cls, spec: AgentSpec) -> TeamTemplate:
        """Make the template of a team that has no members but its orchestrator, which may start others.

        Args:
            spec: The orchestrator: its `role` or `type` is "orchestrator", or it has the tool `spawn_agent`.

        Returns:
            The template.

        Raises:
            ConfigError: It is not an orchestrator.
        """
        if role_alone(spec) != "orchestrator":
            raise ConfigError(
                f"A team of one needs an orchestrator, and {named(spec.name)} is of the type {named(spec.type)}; give "
                'it role="orchestrator".'
            )
        return cls.from_specs([spec])

    @classmethod
    def from_specs(
        cls, specs: Sequence[AgentSpec], *, name: str | None = None, description: str | None = None
    ) -> TeamTemplate:
        """Make a template from descriptions that a program has made.

        Args:
            specs: The members. If no role, tool or type says who orchestrates, the first one does.
            name: The name of the template.
            description: What the team is for.

        Returns:
            The template.

        Raises:
            ConfigError: There are no members, two have the same name, or several orchestrate.
        """
        if not specs:
            raise ConfigError("A team needs at least one member.")
        try:
            _require_different_names(specs)
            decision = decide_roles(specs, first=True)
        except ConfigError as error:
            raise ConfigError(f"These agents are no team: {error}") from error
        report = _notes(None, specs, decision)
        return cls(name or "", tuple(specs), decision.roles, name, description, "dynamic", report=report)

    @property
    def orchestrator(self) -> AgentSpec:
        """The member that orchestrates."""
        return self.members[self.roles.index("orchestrator")]

    @property
    def workers(self) -> tuple[AgentSpec, ...]:
        """The other members, in their order."""
        return tuple(spec for spec, role in zip(self.members, self.roles, strict=True) if role == "worker")

    @property
    def mistakes(self) -> tuple[TemplateProblem, ...]:
        """The problems in `report` without the notes: all for which `strict` refuses a template."""
        return tuple(problem for problem in self.report if not problem.note)


def read_template(path: str | Path, *, strict: bool = False, foreign: bool = True) -> TeamTemplate:
    """Read a team template.

    Members that cannot be used are left out, and so is everything in others that has no meaning; `report` has the
    reasons.

    Args:
        path: A folder with a TEAM.json, a TEAM.json, or a file with a JSON array of members; `~` is the home folder.
        strict: Whether to refuse a template in which anything is wrong.
        foreign: Whether to read files that another user owns or can write.

    Returns:
        The template.

    Raises:
        ConfigError: The file cannot be read, it is not a template, no member can be used, two members have the same
            name, or not exactly one orchestrates. With `strict`, also if anything else is wrong; the error then lists
            all problems.
    """
    problems: list[TemplateProblem] = []
    file = Path(path)
    try:
        file = _team_file(path)
        template = parse_template(
            file, _content(file, foreign=foreign), PromptFiles(file.parent, foreign=foreign), problems
        )
    except ConfigError as error:
        if strict and problems:
            raise ConfigError(_listing(file, [*map(str, problems), str(error)])) from error
        raise
    if strict and template.mistakes:
        raise ConfigError(_listing(file, [str(problem) for problem in template.mistakes]))
    return template


def _team_file(path: str | Path) -> Path:
    """The JSON file of a template. Raises ConfigError."""
    try:
        expanded = Path(path).expanduser()
        absolute = Path(os.path.abspath(expanded))  # noqa: PTH100 - links are kept: a template may be one
        if absolute.is_dir():
            return absolute / TEAM_FILE
        if not absolute.exists() and absolute.suffix.lower() != ".json":
            raise ConfigError(
                f"team directory not found: {on_one_line(str(path))}; name a folder with a {TEAM_FILE}, "
                "or the alias of a template."
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"cannot read {on_one_line(str(path))}: {_reason(error)}.") from error
    return absolute


def parse_template(path: Path, content: bytes, prompts: PromptFiles, problems: list[TemplateProblem]) -> TeamTemplate:
    """Make a template from the content of its JSON file, and add to `problems` what is wrong with it.

    Args:
        path: The absolute path of the file.
        content: The content of the file.
        prompts: Reads the prompts of members that are in other files.
        problems: A list to which problems are added, also if an error is raised.

    Returns:
        The template.

    Raises:
        ConfigError: The file is not a template of a team.
    """
    data = _data(path, content)
    table: Mapping[str, Any] = data if isinstance(data, dict) else {"members": data}
    where = on_one_line(str(path))
    try:
        members = _members(table, prompts, path)
        problems += _problems_of_team(table, path)
        problems += members.problems
        _require_members(members)
        _require_different_names(members)
        decision = decide_roles(members, first=table is not data)
    except ConfigError as error:
        raise ConfigError(as_sentence(f"{where}: {error}")) from error
    is_folder = path.name == TEAM_FILE
    return TeamTemplate(
        alias=path.parent.name if is_folder else path.stem,
        members=tuple(members),
        roles=decision.roles,
        name=_text(table, "name"),
        description=_text(table, "description"),
        dir=path.parent,
        path=path,
        report=(*problems, *_notes(path, members, decision)),
        files={path.name: content, **prompts.contents},
    )


def _content(path: Path, *, foreign: bool) -> bytes:
    """The content of the file. Raises ConfigError."""
    where = on_one_line(str(path))
    try:
        content, _ = read_bounded(path, MAX_BYTES)
        reason = "" if foreign else foreign_reason(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {where}: {_reason(error)}.") from error
    if reason:
        raise ConfigError(foreign_sentence(path, reason))
    return content


def _data(path: Path, content: bytes) -> object:
    """The data of the file: a list or an object. Raises ConfigError."""
    where = on_one_line(str(path))
    try:
        data = parse_json(content)
    except ValueError as error:
        raise ConfigError(f"invalid JSON in {where}: {error}.") from error
    if not isinstance(data, dict | list):
        raise ConfigError(f"{where} must hold a JSON array of members or an object with members, not {kind(data)}.")
    return data


def _members(table: Mapping[str, Any], prompts: PromptFiles, path: Path) -> SpecList:
    if "members" not in table:
        raise ConfigError(f"missing required field 'members'. {_hint('members', table)}".rstrip())
    members = table["members"]
    if not isinstance(members, list):
        raise ConfigError(f"members must be an array of objects, not {kind(members)}.")
    if not members:
        raise ConfigError("members must not be empty; describe at least one agent.")
    if len(members) > MAX_MEMBERS:
        raise ConfigError(f"members has {len(members):,} entries; a team may have at most {MAX_MEMBERS:,}.")
    return read_members(members, prompts, path)


def _hint(wanted: str, table: Mapping[str, Any]) -> str:
    hint = did_you_mean(wanted, [key[:_MAX_KEY_LENGTH] for key in table])
    return hint if hint.startswith("Did") else ""


_MAX_KEY_LENGTH = 60


def _problems_of_team(table: Mapping[str, Any], path: Path) -> list[TemplateProblem]:
    found = [
        TemplateProblem(path, "", key, f"must be a string, not {kind(table[key])}; it is not used")
        for key in ("name", "description")
        if table.get(key) is not None and _text(table, key) is None
    ]
    unknown = [key for key in table if key not in TEAM_FIELDS]
    for key in unknown[:_SHOWN]:
        hint = did_you_mean(key[:_MAX_KEY_LENGTH], TEAM_FIELDS)
        reason = f"unknown field {named(key)!r}, which is not used. {hint}"
        found.append(TemplateProblem(path, "", named(key), reason))
    if len(unknown) > _SHOWN:
        found.append(
            TemplateProblem(path, "", "", f"{len(unknown) - _SHOWN:,} more unknown fields, which are not used")
        )
    return found


def _text(table: Mapping[str, Any], key: str) -> str | None:
    """A text that can be shown, None if there is none."""
    value = table.get(key)
    return on_one_line(value.strip()) or None if isinstance(value, str) else None


def _require_members(members: SpecList) -> None:
    if not members:
        raise ConfigError(f"no valid members. {' '.join(map(str, members.skipped[:_SHOWN]))}")


def _require_different_names(members: Sequence[AgentSpec]) -> None:
    """Raise ConfigError if two names are equal, or could be taken for one another."""
    seen: dict[str, AgentSpec] = {}
    for spec in members:
        key = _comparable(spec.name)
        if key not in seen:
            seen[key] = spec
            continue
        first = seen[key]
        also = "" if first.name == spec.name else f" (also written {named(first.name)!r})"
        if spec.name == spec.type and first.name == first.type:
            hint = f"give the members of the type {named(spec.type)!r} different names"
        else:
            hint = "give one of them another name"
        raise ConfigError(f"duplicate member name {named(spec.name)!r}{also}; {hint}.")


def _comparable(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _notes(path: Path | None, members: Sequence[AgentSpec], decision: RoleDecision) -> tuple[TemplateProblem, ...]:
    if decision.rule != "first":
        return ()
    first, number = members[decision.orchestrator], decision.orchestrator + 1
    reason = (
        f"the first member, {named(first.name)}, is the orchestrator, because no member has the role orchestrator, "
        "the tool spawn_agent or the type orchestrator"
    )
    return (TemplateProblem(path, f"member {number:,} ({named(first.name)})", "role", reason, note=True),)


def _listing(path: Path, problems: Iterable[str]) -> str:
    lines = list(dict.fromkeys(problems))
    count = "a problem" if len(lines) == 1 else f"{len(lines):,} problems"
    return f"The team template {on_one_line(str(path))} has {count}:\n" + "\n".join(f"- {line}" for line in lines)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
