"""Paths to which a repository's index and a person's own settings lead.

git runs programs for submodules, however deep, and for hooks in a folder that a setting names; direnv and R run scripts
which the project's `.envrc` and `.Rprofile` name.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from planck_nb.agent.approval.obeyed_files import IN_GIT
from planck_nb.tools.no_links import open_file

_MAX_INDEX = 50_000_000
_MAX_SETTINGS = 100_000
_MAX_NAMED = 1_000

_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule's entry."""

_DIGESTS = (20, 32)
"""Lengths of SHA-1 and SHA-256."""

_EXTENDED = 0x40
_MORE = 0x80
_WITH_FLAGS = 3
_COMPRESSED = 4
"""The version of an index whose paths are compressed."""

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
        r"^[ \t]*(?:\.|source|(?P<folder>PATH_add)|(?P<included>(?:source_env|dotenv)(?:_if_exists)?))[ \t](?P<value>.*)",
        re.MULTILINE,
    ),
    ".Rprofile": re.compile(r"\b(?:source|sys\.source)\((?P<included>)(?P<value>[^)\n]*)"),
}
"""What names a path in a file of settings; "included" files and a "folder" count if they are missing, too."""


def git_paths(repository: str, root: str) -> Iterator[str]:
    """Yield the paths in a repository which git obeys.

    Args:
        repository: Its `.git`, a folder or a file.
        root: The folder in which they have to lie.
    """
    found = _repository(repository, root)
    if found != repository:
        yield repository
    if found is None:
        return
    worktrees = Path(found, "worktrees")
    for folder in (Path(found), *(worktrees.iterdir() if worktrees.is_dir() else ())):
        for name in IN_GIT:
            path = folder / name
            if os.path.lexists(path):
                yield str(path)


def submodules(repository: str, root: str) -> Iterator[str]:
    """Yield the folders of a repository's submodules; `git status` runs in each.

    Args:
        repository: Its `.git`, a folder or a file.
        root: The folder in which they have to lie.
    """
    found = _repository(repository, root)
    for index in () if found is None else (Path(found, "index"), *Path(found).glob("sharedindex.*")):
        with suppress(OSError), open_file(index) as source:
            content = source.read(_MAX_INDEX)
            paths = dict.fromkeys(path for length in _DIGESTS for path in _submodules_in(content, length))
            for path in paths:
                place = os.path.join(os.path.dirname(repository), path)  # noqa: PTH118, PTH120 - texts are faster
                if os.path.realpath(place) == place and place.startswith(f"{root}{os.sep}"):
                    yield place


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


def _submodules_in(index: bytes, digest: int) -> Iterator[str]:
    """Yield the submodules' paths in an index (https://git-scm.com/docs/index-format).

    Args:
        index: Its content.
        digest: The length of a digest.
    """
    if index[:4] != b"DIRC" or _SUBMODULE not in index:
        return
    version, entry_count = struct.unpack_from(">II", index, 4)
    at, path = 12, b""
    with suppress(IndexError, ValueError):  # a damaged one
        for _ in range(entry_count):
            begin, flags = at, at + 40 + digest
            at = flags + (4 if version >= _WITH_FLAGS and index[flags] & _EXTENDED else 2)
            kept = b""
            if version == _COMPRESSED:
                removed = index[at] & ~_MORE
                while index[at] & _MORE:
                    at += 1
                    removed = ((removed + 1) << 7) | (index[at] & ~_MORE)
                at += 1
                kept = path[: max(len(path) - removed, 0)]
            end = index.index(b"\0", at)
            path = kept + index[at:end]
            at = end + 1 if version == _COMPRESSED else begin + (end - begin + 8) // 8 * 8
            if index[begin + 24 : begin + 28] == _SUBMODULE:
                yield os.fsdecode(path)


def named_paths(settings: Iterable[str], root: str) -> Iterator[str]:
    """Yield the paths in a folder which a person's own settings name, and what the files among them name.

    Args:
        settings: The settings' files, among others.
        root: The folder.
    """
    waiting = [(name, _NAMING[os.path.basename(name)]) for name in settings if os.path.basename(name) in _NAMING]  # noqa: PTH119
    seen = set[str]()
    while waiting and len(seen) < _MAX_NAMED:
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
                if not word or place in seen or not place.startswith(f"{root}{os.sep}"):
                    continue
                if is_included or is_folder or os.path.isfile(place):  # noqa: PTH113 - as above
                    seen.add(place)
                    waiting += [(place, pattern)] if is_included else []
                    yield place
