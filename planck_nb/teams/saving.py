"""Saves the members of a team as a template: a folder with a TEAM.json and a file for each prompt."""

from __future__ import annotations

import json
import os
import re
import secrets
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from planck_nb.ai.model_lookup.stored_options import LEFT_OUT, stored_options
from planck_nb.ai.request import Options
from planck_nb.ai.server_address import server_address
from planck_nb.base.atomic import sync_directory, write_atomically
from planck_nb.base.errors import ConfigError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.reading import read_bounded
from planck_nb.base.secrets import find_secret, process_secrets, redact
from planck_nb.teams.member_options import read_options
from planck_nb.teams.problems import TemplateProblem, as_sentence, named, on_one_line
from planck_nb.teams.prompt_files import MAX_BYTES, MAX_TOTAL_BYTES, PromptFiles, is_prompt_file, prompt_text
from planck_nb.teams.roles import decide_roles
from planck_nb.teams.spec import AgentSpec
from planck_nb.teams.template import TEAM_FILE, TeamTemplate, parse_template

PROMPTS_FOLDER = "members"

_ALIAS = re.compile(r"\w[\w-]{0,63}")
_EXAMPLE = (
    (
        "lead",
        "orchestrator",
        "Gives tasks to the others, and reports.",
        "Divide the request into tasks, and delegate each to the member it suits. Then report in a few sentences.",
        (),
    ),
    (
        "reader",
        "worker",
        "Reads the files of the project.",
        "Read the files the task needs, and answer with the facts and where each stands.",
        ("read",),
    ),
    (
        "writer",
        "worker",
        "Writes short, clear texts.",
        "Write what the task asks for, in plain words, from the facts in it.",
        (),
    ),
)
"""A new team's members: name, type, description, system prompt and tools."""

_MAX_FILE_NAME_BYTES = 100
"""Bytes of a member's name that become part of the name of its file."""

_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10)))
)
"""Names that files cannot have on Windows."""


@dataclass(frozen=True, slots=True)
class SavedTemplate:
    """A template that was saved.

    Args:
        template: The template, as reading it gives it.
        left_out: What was left out or replaced because it is or contains a secret, and options that mean nothing.
    """

    template: TeamTemplate
    left_out: tuple[TemplateProblem, ...]


def save_template(
    path: str | Path,
    name: str | None,
    description: str | None,
    members: Sequence[AgentSpec],
    *,
    overwrite: bool = False,
) -> SavedTemplate:
    """Save a team as a template in a folder: `TEAM.json`, and `members/NAME.md` for each system prompt.

    A new folder appears with all of its files at once. In a folder that exists, other files stay as they are, and each
    file is replaced atomically, TEAM.json last. Secrets are never written: options that contain one and the
    user, password and query of a `base_url` are left out, and secrets in texts are replaced by descriptions of them.

    Args:
        path: The folder, or a TEAM.json in it; `~` is the home folder. The name of the folder is the alias.
        name: The name of the template, None for none.
        description: What the team is for, None for nothing.
        members: The members. If no role, tool or type says who orchestrates, the first one is given the role.
        overwrite: Whether to replace existing files with other content.

    Returns:
        The template, and what was left out of it.

    Raises:
        ConfigError: The members are not a team, a file with other content exists, or a file cannot be written. No new
            folder is left behind then.
    """
    left_out: list[TemplateProblem] = []
    try:
        folder = Path(path).expanduser()
        folder = Path(os.path.realpath(folder.parent if folder.name == TEAM_FILE else folder))
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"the team was not saved to {on_one_line(str(path))}: {_reason(error)}.") from error
    try:
        files = _files(name, description, _with_orchestrator(members), left_out)
        template = _read_back(folder, files)
        _write(folder, files, overwrite=overwrite)
    except (ConfigError, OSError) as error:
        raise ConfigError(
            as_sentence(f"the team was not saved to {on_one_line(str(folder))}: {_reason(error)}")
        ) from error
    return SavedTemplate(template, tuple(left_out))


def save_example(folder: str | Path, alias: str) -> SavedTemplate:
    """Save a small team with the demo model.

    Args:
        folder: The templates' folder.
        alias: The new team's name.

    Returns:
        The template.

    Raises:
        ConfigError: The name cannot be an alias, it exists, or a file cannot be written.
    """
    path = Path(folder) / alias
    if not _ALIAS.fullmatch(alias):
        raise ConfigError(f"{alias} cannot be a team's name; write letters, digits, - and _, such as review-team.")
    if os.path.lexists(path) or path.with_suffix(".json").exists():
        raise ConfigError(f"{path} exists already; choose another name, or edit the files there.")
    members = [
        AgentSpec(
            provider="demo", model_id="demo", name=name, type=kind, description=about, system_prompt=text, tools=tools
        )
        for name, kind, about, text, tools in _EXAMPLE
    ]
    return save_template(path, alias, "Reads files, and writes about them.", members)


def _with_orchestrator(members: Sequence[AgentSpec]) -> list[AgentSpec]:
    """The members, one of which its own description makes the orchestrator. Raises ConfigError."""
    if not members:
        raise ConfigError("a team needs at least one member.")
    decision = decide_roles(members, first=True)
    found = list(members)
    if decision.rule == "first":
        index = decision.orchestrator
        found[index] = replace(found[index], role="orchestrator")
    return found


def _files(
    name: str | None, description: str | None, members: Iterable[AgentSpec], left_out: list[TemplateProblem]
) -> dict[str, bytes]:
    """The contents of the files by their paths in the folder; TEAM.json is the last one. Raises ConfigError."""
    known = process_secrets()
    prompts: dict[str, bytes] = {}
    rows: list[JsonObject] = []
    for spec in members:
        row = _without_secrets(spec, known, left_out)
        prompt = row.get("system_prompt", "")
        if prompt and _fits_a_file(prompt):
            file = _file_name(spec.name, prompts)
            prompts[file] = prompt.encode() + b"\n"
            row["system_prompt"] = file
        elif is_prompt_file(prompt):
            raise ConfigError(f"the prompt of {named(spec.name)} looks like the name of a file and cannot be saved.")
        rows.append(row)
    about = {"name": name, "description": description}
    head = {key: redact(text, known, formats=True) for key, text in about.items() if text}
    try:
        text = json.dumps({**head, "members": rows}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        files = {**prompts, TEAM_FILE: text.encode()}
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"a field of a member cannot be written as JSON: {error}.") from error
    if found := find_secret(text, known):
        raise ConfigError(f"it contains {found}; remove that from the names of its members and tools.")
    if max(map(len, files.values())) > MAX_BYTES or sum(map(len, files.values())) > MAX_TOTAL_BYTES:
        raise ConfigError(f"a prompt has more than {MAX_BYTES:,} bytes, or all have more than {MAX_TOTAL_BYTES:,}.")
    return files


def _without_secrets(spec: AgentSpec, known: Mapping[str, str], left_out: list[TemplateProblem]) -> JsonObject:
    """The description as a template has it. What is left out is added to `left_out`."""
    member = f"member ({named(spec.name)})"
    row = spec.to_map()
    options, problems = read_options(spec.opts)
    left_out += [TemplateProblem(None, member, f"opts.{field}", reason) for field, reason in problems]
    kept = stored_options(Options.from_named(options))
    for field in kept.pop(LEFT_OUT, ()):
        left_out.append(TemplateProblem(None, member, f"opts.extra.{field}", "is a secret and was left out"))
    row["opts"] = kept
    for field in ("description", "system_prompt"):
        text = row.get(field, "")
        row[field] = redact(text, known, formats=True)
        if row[field] != text:
            left_out.append(TemplateProblem(None, member, field, "contained a secret, which was replaced"))
    if spec.base_url and (address := _without_credentials(spec.base_url)) != spec.base_url:
        row["base_url"] = address
        left_out.append(TemplateProblem(None, member, "base_url", "contained credentials, which were left out"))
    # Empty grants stay: they grant nothing, while no grants leave the decision to the team.
    return {key: value for key, value in row.items() if value or key not in {"opts", "description", "system_prompt"}}


def _without_credentials(url: str) -> str:
    """The address of a server without user, password and query. Raises ConfigError if it is not an address."""
    address = server_address(url)
    parts = urlsplit(url)
    return address.url if "@" in parts.netloc or parts.query or parts.fragment else url


def _fits_a_file(prompt: str) -> bool:
    """Whether the prompt reads back from a file exactly as it is."""
    try:
        return prompt_text(prompt.encode() + b"\n") == prompt
    except ValueError:
        return False


def _file_name(name: str, taken: Mapping[str, bytes]) -> str:
    """A file name for the prompt of a member that every file system accepts, and that is not taken."""
    kept = "".join(char if char.isalnum() or char in "-_" else "-" for char in unicodedata.normalize("NFC", name))
    base = kept.encode()[:_MAX_FILE_NAME_BYTES].decode(errors="ignore").strip("-") or "member"
    base = f"member-{base}" if base.casefold() in _RESERVED else base
    used = {file.casefold() for file in taken}
    number = 1
    while (file := f"{PROMPTS_FOLDER}/{base if number == 1 else f'{base}-{number}'}.md").casefold() in used:
        number += 1
    return file


def _read_back(folder: Path, files: Mapping[str, bytes]) -> TeamTemplate:
    """The template that is read from these files. Raises ConfigError if anything in it is wrong."""
    prompts = PromptFiles(folder)
    prompts.contents.update({file: content for file, content in files.items() if file != TEAM_FILE})
    problems: list[TemplateProblem] = []
    template = parse_template(folder / TEAM_FILE, files[TEAM_FILE], prompts, problems)
    if problems:
        raise ConfigError(str(problems[0]))
    return template


def _write(folder: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    if not folder.exists():
        _write_new(folder, files)
        return
    if not folder.is_dir():
        raise ConfigError("it is a file; name a folder.")
    if (folder / PROMPTS_FOLDER).is_symlink():
        raise ConfigError(f"{PROMPTS_FOLDER} in it is a link; remove the link, or choose another folder.")
    others = [file for file, content in files.items() if not _is_free(folder / file, content)]
    if others and not overwrite:
        names = " and ".join(map(on_one_line, others[:_SHOWN]))
        raise ConfigError(
            f"{names} would be overwritten with other content; choose another folder, or pass overwrite=True."
        )
    if any(Path(file).parent.name for file in files):
        (folder / PROMPTS_FOLDER).mkdir(exist_ok=True)
    for file, content in files.items():
        write_atomically(folder / file, content)


_SHOWN = 3


def _write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder with all files in it at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".planck-{secrets.token_hex(6)}.tmp")
    try:
        for file, content in files.items():
            target = temporary / file
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, content)
        temporary.rename(folder)
    except BaseException:
        for file in files:
            with suppress(OSError):
                (temporary / file).unlink()
        for made in (temporary / PROMPTS_FOLDER, temporary):
            with suppress(OSError):
                made.rmdir()
        raise
    sync_directory(folder.parent)


def _is_free(path: Path, content: bytes) -> bool:
    """Whether a file can be written without losing other content."""
    try:
        return read_bounded(path, len(content))[0] == content
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:  # it is larger, or not a file
        return False


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
