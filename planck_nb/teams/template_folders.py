"""The team templates of some folders, by alias, and what a person has to know to trust one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from planck_nb.agent.identity import Grants
from planck_nb.base.errors import ConfigError, did_you_mean
from planck_nb.base.text import is_printable, printable
from planck_nb.teams.problems import named, on_one_line
from planck_nb.teams.template import TEAM_FILE, TeamTemplate, read_template
from planck_nb.tools.external import LoadFailure

_SHOWN_APART = {"name", "provider", "model_id", "role", "problems"}


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """The templates of some folders.

    Args:
        templates: The templates by alias, in the order of the folders and then of their names.
        skipped: The files and folders that could not be used, with the reasons.
    """

    templates: Mapping[str, TeamTemplate]
    skipped: tuple[LoadFailure, ...] = ()

    def __iter__(self) -> Iterator[TeamTemplate]:
        return iter(self.templates.values())

    def __len__(self) -> int:
        return len(self.templates)

    def named(self, alias: str) -> TeamTemplate:
        """Return the template with this alias.

        Args:
            alias: The alias.

        Raises:
            ConfigError: There is none; the error says why if it could not be used.
        """
        if alias in self.templates:
            return self.templates[alias]
        reasons = [failure.reason for failure in self.skipped if _alias(failure.path) == alias]
        hint = reasons[0] if reasons else did_you_mean(alias, self.templates)
        raise ConfigError(f"There is no team named {named(alias)}. {hint}".rstrip())


def find_templates(
    folders: Iterable[str | Path], *, accept: Callable[[TeamTemplate], str] | None = None
) -> TemplateReport:
    """Find the templates `<folder>/<alias>/TEAM.json` and `<folder>/<alias>.json`.

    Args:
        folders: The folders, with `~` for the home folder; one that does not exist has no templates. Of two templates
            with the same alias, the first one is used, so a project's folder should come before the user's own.
        accept: Called with each template; returns a sentence that says why it is not used, or "" if it is. By default
            all are used.

    Returns:
        The templates, and what could not be used. Nothing is raised.
    """
    templates: dict[str, TeamTemplate] = {}
    skipped: list[LoadFailure] = []
    for folder in dict.fromkeys(map(Path, folders)):
        try:
            paths = template_paths(folder)
        except (OSError, RuntimeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            skipped.append(LoadFailure(folder, f"cannot list {printable(folder)}: {reason}."))
            continue
        for path in paths:
            found = _read(path, accept)
            if isinstance(found, LoadFailure):
                skipped.append(found)
                continue
            first = templates.setdefault(found.alias, found)
            if first is not found and first.path != found.path:
                reason = f"{path} is not used: {first.path} has the same alias and comes first."
                skipped.append(LoadFailure(path, reason))
    return TemplateReport(templates, tuple(skipped))


def template_paths(folder: Path) -> list[Path]:
    """The folders and files in a folder that may be templates, hidden ones left out, in the order of their names.

    Raises OSError or RuntimeError if the folder cannot be listed.
    """
    expanded = folder.expanduser()
    try:
        entries = sorted(expanded.iterdir())
    except FileNotFoundError:
        return []
    return [
        entry
        for entry in entries
        if not entry.name.startswith((".", "__pycache__")) and (entry.suffix == ".json" or entry.is_dir())
    ]


def trusted_content(template: TeamTemplate) -> bytes:
    """All files of a template as one sequence of bytes, to be hashed; it differs if any file differs."""
    parts = (part for file in sorted(template.files) for part in (file.encode(errors="replace"), template.files[file]))
    return b"".join(b"%d:%s" % (len(part), part) for part in parts)


def describe_template(template: TeamTemplate) -> Iterator[tuple[str, str]]:
    """Describe a team's members completely, for a person deciding whether to trust its template.

    Args:
        template: The template.

    Yields:
        Pairs: what something is, and its text.
    """
    yield "description", template.description or ""
    for spec, role in zip(template.members, template.roles, strict=True):
        written = {field.name: getattr(spec, field.name) for field in fields(spec) if field.name not in _SHOWN_APART}
        lines = [f"{name}: {_text(value)}" for name, value in written.items() if value]
        yield f"{role} {spec.name}", "\n".join([f"model: {spec.provider}:{spec.model_id}", *lines])


def _text(value: object) -> str:
    match value:
        case Grants():
            return ", ".join((*value.tools, *value.skills, *value.models))
        case Mapping():
            return ", ".join(f"{name}={item!r}" for name, item in value.items())
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _read(path: Path, accept: Callable[[TeamTemplate], str] | None) -> TeamTemplate | LoadFailure:
    if not is_printable(path.name) or on_one_line(path.name) != path.name:
        return LoadFailure(path, f"{on_one_line(str(path))} is not used: its name has characters that cannot be seen.")
    try:
        template = read_template(path)
        reason = accept(template) if accept is not None else ""
    except ConfigError as error:
        return LoadFailure(path, str(error))
    return LoadFailure(path, reason) if reason else template


def _alias(path: Path) -> str:
    return path.parent.name if path.name == TEAM_FILE else path.stem if path.suffix == ".json" else path.name
