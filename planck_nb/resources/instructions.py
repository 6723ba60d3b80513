"""AGENTS.md: what a project and its parts tell every agent that works there."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planck_nb.resources.bounded_reading import read_head, reason_of, shown

INSTRUCTIONS_FILE = "AGENTS.md"

MAX_BYTES = 65_536
"""Bytes that all instructions have together."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions for a working directory.

    `text` is the files of `paths` in their order, outermost first, each under a heading with its path; empty where
    there are none. `warnings` is a sentence for each file that could not be used, or not as it is.
    """

    text: str = ""
    paths: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


def find_instructions(directory: str | Path) -> Instructions:
    """The AGENTS.md files of the directory and of the folders above it, up to the root of its repository.

    That is the folder with a `.git`, which in a worktree or submodule is a file. Without one, the walk ends at the
    root of the file system. A link is followed inside of the repository, without one inside of its folder: no
    repository may have an agent read what it does not hold. Where the files together are longer than `MAX_BYTES`, those
    nearest to the directory keep their text. Never raises.
    """
    try:
        start = Path(directory).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        where = shown(directory)
        return Instructions(warnings=(f"Cannot look for {INSTRUCTIONS_FILE} from {where}: {reason_of(error)}.",))
    room = MAX_BYTES
    found: list[tuple[Path, str]] = []
    warnings: list[str] = []
    repository = _repository(start)
    for path in _upward(start, repository):
        home = repository or path.parent
        try:
            data = read_head(path, room + 1)
            inside = path.resolve().is_relative_to(home)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            warnings.append(f"Cannot read {shown(path)}: {reason_of(error)}.")
            continue
        if not inside:
            warnings.append(f"{shown(path)} is left out because it leads out of {shown(home)}; put the text there.")
            continue
        part, problem = _text(data, room)
        if problem:
            warnings.append(f"{shown(path)} {problem}.")
        if part:
            found.append((path, part))
            room = max(0, room - len(data))
    found.reverse()
    text = "\n\n".join(f"# Instructions from {shown(path)}\n\n{part}" for path, part in found)
    return Instructions(text, tuple(path for path, _ in found), tuple(warnings))


def _repository(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if os.path.lexists(folder / ".git")), None)


def _upward(start: Path, last: Path | None) -> Iterator[Path]:
    for folder in (start, *start.parents):
        yield folder / INSTRUCTIONS_FILE
        if folder == last:
            return


def _text(data: bytes, room: int) -> tuple[str, str]:
    """The text of a file that begins with `data`, as much as there is room for, and what is wrong with it, if so."""
    if b"\0" in data:
        return "", "is left out because it is not UTF-8 text; save it as UTF-8"
    whole = len(data) <= room
    try:
        text, problem = _decode(data[:room], "strict", final=whole), ""
    except UnicodeDecodeError:
        text, problem = _decode(data[:room], "replace", final=whole), "is not all UTF-8; what is not shows as �"
    text = text.replace("\r\n", "\n").strip()
    if whole:
        return text, problem
    cut = f"is cut: all {INSTRUCTIONS_FILE} together may have {MAX_BYTES:,} bytes, and nearer ones go first"
    return f"{text}\n\n[… the rest of this file is left out …]".lstrip(), f"{problem} and {cut}" if problem else cut


def _decode(data: bytes, errors: str, *, final: bool) -> str:
    """UTF-8, with or without a byte order mark; unless `final`, the last character may be cut."""
    return codecs.getincrementaldecoder("utf-8-sig")(errors).decode(data, final)
