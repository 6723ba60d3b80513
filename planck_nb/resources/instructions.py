"""AGENTS.md: instructions of a project, or of a part of it, for every agent that works there."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planck_nb.base.ownership import foreign_reason, foreign_sentence
from planck_nb.base.reading import describe_error, read_head
from planck_nb.base.text import printable

INSTRUCTIONS_FILE = "AGENTS.md"

MAX_BYTES = 65_536
"""Bytes that all instructions together may have."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions for a working directory.

    Args:
        text: The text of all files, outermost first, each under a heading with its path; empty if there are none.
        paths: The files, in the same order.
        warnings: A sentence about each file that could not be used, or only in part.
    """

    text: str = ""
    paths: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


def find_instructions(directory: str | Path, *, foreign: bool = True) -> Instructions:
    """Find the AGENTS.md files of a directory and of the folders above it, up to the root of its repository.

    The root is the folder with a `.git`, which is a file in a worktree or submodule. Without one, all folders up to the
    root of the file system are searched. A symbolic link is followed if it stays inside the repository, or without a
    repository inside its folder: no repository can make an agent read files from elsewhere. If the files together are
    longer than `MAX_BYTES`, those nearest to the directory keep their text.

    Args:
        directory: The working directory, with `~` for the home folder.
        foreign: Whether to use files that another user owns or can write.

    Returns:
        The instructions. Files that cannot be read are in its warnings; nothing is raised.
    """
    try:
        start = Path(directory).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        where = printable(directory)
        return Instructions(warnings=(f"Cannot look for {INSTRUCTIONS_FILE} from {where}: {describe_error(error)}.",))
    remaining = MAX_BYTES
    found: list[tuple[Path, str]] = []
    warnings: list[str] = []
    repository = _repository(start)
    for path in _upward(start, repository):
        home = repository or path.parent
        try:
            data = read_head(path, remaining + 1)
            inside = path.resolve().is_relative_to(home)
            reason = "" if foreign else foreign_reason(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            warnings.append(f"Cannot read {printable(path)}: {describe_error(error)}.")
            continue
        if not inside:
            warnings.append(
                f"{printable(path)} is left out because it leads out of {printable(home)}; put the text there."
            )
            continue
        if reason:
            warnings.append(foreign_sentence(path, reason))
            continue
        part, problem = _text(data, remaining)
        if problem:
            warnings.append(f"{printable(path)} {problem}.")
        if part:
            found.append((path, part))
            remaining = max(0, remaining - len(data))
    found.reverse()
    text = "\n\n".join(f"# Instructions from {printable(path)}\n\n{part}" for path, part in found)
    return Instructions(text, tuple(path for path, _ in found), tuple(warnings))


def _repository(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if os.path.lexists(folder / ".git")), None)


def _upward(start: Path, last: Path | None) -> Iterator[Path]:
    for folder in (start, *start.parents):
        yield folder / INSTRUCTIONS_FILE
        if folder == last:
            return


def _text(data: bytes, limit: int) -> tuple[str, str]:
    """At most `limit` bytes of a file that begins with `data` as text, and a clause about what is wrong with it."""
    if b"\0" in data:
        return "", "is left out because it is not UTF-8 text; save it as UTF-8"
    whole = len(data) <= limit
    try:
        text, problem = _decode(data[:limit], "strict", final=whole), ""
    except UnicodeDecodeError:
        text, problem = _decode(data[:limit], "replace", final=whole), "is not all UTF-8; what is not shows as �"
    text = text.replace("\r\n", "\n").strip()
    if whole:
        return text, problem
    cut = f"is cut: all {INSTRUCTIONS_FILE} together may have {MAX_BYTES:,} bytes, and nearer ones go first"
    return f"{text}\n\n[… the rest of this file is left out …]".lstrip(), f"{problem} and {cut}" if problem else cut


def _decode(data: bytes, errors: str, *, final: bool) -> str:
    """UTF-8, with or without a byte order mark; unless `final`, the last character may be cut."""
    return codecs.getincrementaldecoder("utf-8-sig")(errors).decode(data, final)
