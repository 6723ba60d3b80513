"""Paths to which a repository's index and a person's own settings lead.

git runs programs for submodules, however deep, and for hooks in a folder that a setting names; direnv and R run scripts
which the project's `.envrc` and `.Rprofile` name.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from planck_nb.agent.approval.obeyed_files import IN_GIT
from planck_nb.tools.no_links import open_file

_MAX_INDEX = 500_000_000
_MAX_SETTINGS = 100_000
_MAX_NAMED = 1_000
_MAX_PATH = 4_096

_SUBMODULE = b"\x00\x00\xe0\x00"
"""A submodule's mode."""

_DIGESTS = (20, 32)
"""SHA-1 and SHA-256 in bytes."""

_EXTENDED = 0x40
_MORE = 0x80
_WITH_FLAGS = 3
_COMPRESSED = 4
"""The version with compressed paths."""

_IN_GIT_CONFIG = re.compile(
    r"^[ \t]*(?:\[[^\]\n]*\][ \t]*)?(?:(?P<included>path)|(?P<folder>hookspath)"
    r"|attributesfile|fsmonitor|sshcommand|editor|pager|askpass|program|helper|cmd|command|driver|textconv|clean|smudge"
    r"|process)[ \t]*=(?P<value>.*)",
    re.MULTILINE | re.IGNORECASE,
)
_NAMING = {
    "config": _IN_GIT_CONFIG,
    "config.worktree": _IN_GIT_CONFIG,
    ".gitconfig": _IN_GIT_CONFIG,
    ".envrc": re.compile(
        r"^[ \t]*(?:\.|source|(?P<folder>PATH_add)|(?P<included>(?:source_env|dotenv)(?:_if_exists)?))"
        r"[ \t](?P<value>.*)",
        re.MULTILINE,
    ),
    ".Rprofile": re.compile(r"\b(?:source|sys\.source)\((?P<included>)(?P<value>[^)\n]*)"),
}
"""Settings with paths. "included" files and a "folder" count even if missing."""


def git_paths(repository: str, root: str) -> Iterator[str]:
    """Yield the paths in a repository which git obeys.

    Args:
        repository: Its `.git`, a folder or a file.
        root: The folder in which they have to lie.
    """
    git_folder = _repository(repository, root)
    if git_folder != repository:
        yield repository
    if git_folder is None:
        return
    yield from (str(index) for index in _indexes(git_folder) if index.exists() and index.stat().st_size > _MAX_INDEX)
    worktrees = Path(git_folder, "worktrees")
    for folder in (Path(git_folder), *(worktrees.iterdir() if worktrees.is_dir() else ())):
        for name in IN_GIT:
            path = folder / name
            if os.path.lexists(path):
                yield str(path)


def submodules(repository: str, root: str) -> Iterator[str]:
    """Yield a repository's submodules; `git status` runs in each.

    Args:
        repository: Its `.git`, a folder or a file.
        root: The folder in which they have to lie.
    """
    git_folder = _repository(repository, root)
    for index in () if git_folder is None else _indexes(git_folder):
        # git follows links there, and an empty file cannot be mapped.
        with (
            suppress(OSError, ValueError),
            open_file(Path(os.path.realpath(index))) as source,
            mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            if len(content) > _MAX_INDEX:
                continue
            paths = dict.fromkeys(path for length in _DIGESTS for path in _submodules_in(content, length))
            for path in paths:
                place = os.path.join(os.path.dirname(repository), path)  # noqa: PTH118, PTH120 - texts are faster
                if os.path.realpath(place) == place and place.startswith(f"{root}{os.sep}"):
                    yield place


def _indexes(repository: str) -> Iterator[Path]:
    yield Path(repository, "index")
    yield from Path(repository).glob("sharedindex.*")


def _repository(repository: str, root: str) -> str | None:
    """Return a repository's folder; None if it is not in the folder."""
    if os.path.isdir(repository):  # noqa: PTH112 - a text
        return None if os.path.islink(repository) else repository  # noqa: PTH114 - as above
    with suppress(OSError, ValueError), open_file(Path(repository)) as source:
        target = source.read(_MAX_SETTINGS).decode().partition("gitdir:")[2].strip()
        place = os.path.realpath(Path(repository).parent / target)
        if target and place.startswith(f"{root}{os.sep}"):
            return place
    return None


def _submodules_in(index: mmap.mmap, digest: int) -> Iterator[str]:
    """Yield the submodules' paths in an index (https://git-scm.com/docs/index-format).

    Args:
        index: Its content.
        digest: A digest's length.
    """
    if index[:4] != b"DIRC" or index.find(_SUBMODULE) < 0:
        return
    version, entry_count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    at, path, length = 12, b"", 0
    with suppress(IndexError):  # a damaged one
        for _ in range(entry_count):
            begin, flags = at, at + 40 + digest
            at = flags + (4 if version >= _WITH_FLAGS and index[flags] & _EXTENDED else 2)
            cut = length
            if version == _COMPRESSED:
                cut, at = _number(index, at)
            if (end := index.find(b"\0", at)) < 0:
                return
            length = max(length - cut, 0)
            # A longer path is no folder's, and may grow with each entry.
            path = (path[:length] + index[at : min(end, at + _MAX_PATH)])[:_MAX_PATH]
            length += end - at
            at = end + 1 if version == _COMPRESSED else begin + (end - begin + 8) // 8 * 8
            if index[begin + 24 : begin + 28] == _SUBMODULE and length == len(path):
                yield os.fsdecode(path)


def _number(index: mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number and its end."""
    value = index[at] & ~_MORE
    while index[at] & _MORE and value < _MAX_INDEX:
        at += 1
        value = ((value + 1) << 7) | (index[at] & ~_MORE)
    return value, at + 1


def named_paths(settings: Iterable[str], root: str) -> Iterator[str]:
    """Yield the paths that a person's own settings name.

    Args:
        settings: The settings' files, among others.
        root: The folder.
    """
    waiting = [(name, _NAMING[os.path.basename(name)]) for name in settings if os.path.basename(name) in _NAMING]  # noqa: PTH119
    paths = set[str]()
    while waiting and len(paths) < _MAX_NAMED:
        name, pattern = waiting.pop()
        base = os.path.dirname(name)  # noqa: PTH120 - texts are faster
        text = ""
        with suppress(OSError), open_file(Path(os.path.realpath(name))) as source:
            text = source.read(_MAX_SETTINGS).decode("utf-8", "replace")
        for match in pattern.finditer(text):
            is_included, is_folder = match["included"] is not None, match.groupdict().get("folder") is not None
            inner = os.path.basename(base) == ".git" and not is_included  # noqa: PTH119 - as above
            for word in re.split(r"[\s\"';]+", match["value"]):
                place = os.path.normpath(os.path.join(base, ".." * inner, os.path.expanduser(word)))  # noqa: PTH111, PTH118
                if not word or place in paths or not place.startswith(f"{root}{os.sep}"):
                    continue
                if is_included or is_folder or os.path.isfile(place):  # noqa: PTH113 - as above
                    paths.add(place)
                    waiting += [(place, pattern)] if is_included else []
                    yield place
