"""Paths as the file system resolves them, and patterns for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape, has_magic
from os import path as os_path
from pathlib import Path

from planck_nb.agent.effect import Effect
from planck_nb.base.errors import UsageError

MAX_PATH_LENGTH = 4_096
"""Characters of the longest path that is resolved: a longer one cannot be opened, and resolving it takes long."""

_CLASS = re.compile(r"\[!?\]?[^\]]*\]")


class ResolvedPath(str):
    """A path that is resolved already. It is not resolved again, because a link may have been inserted since."""

    __slots__ = ()


class UnresolvedPath(str):
    """A path that could not be resolved, and so is not resolved later either."""

    __slots__ = ()


def resolve_once(effect: Effect, root: Path | None) -> Effect:
    """Return the effect with the path that its target leads to now, which all decisions about the effect then use."""
    if effect.kind not in ("read", "write") or isinstance(effect.target, ResolvedPath | UnresolvedPath):
        return effect
    path = resolved(effect.target, root)
    return Effect(effect.kind, UnresolvedPath(effect.target) if path is None else ResolvedPath(path))


def resolved(target: str, root: Path | None) -> Path | None:
    """Return where a path leads, `..` and links resolved as far as the path exists, or None if that is not known."""
    if isinstance(target, ResolvedPath):
        return Path(target)
    if isinstance(target, UnresolvedPath):
        return None
    path = Path(root or "", target)
    if not target or len(target) > MAX_PATH_LENGTH or not path.is_absolute():
        return None
    try:
        found = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links; NUL, or characters that no path has
        return None
    # From Python 3.13 on, what comes after a loop of links is left as it is.
    return None if any(map(os_path.islink, (found, *found.parents))) else found


def below(path: Path, folder: Path) -> bool:
    """Return whether a resolved path is a resolved folder or inside it."""
    inner, outer = path.parts[: len(folder.parts)], folder.parts
    return inner == outer or (ignores_case(path) and _folded(inner) == _folded(outer))


def ignores_case(path: Path) -> bool:
    """Whether `A` and `a` are the same name in this file system, as far as the folders above the path show it."""
    for folder in path.parents:
        other = folder.name.swapcase()
        if other == folder.name:
            continue
        try:
            found = folder.lstat()
        except OSError:
            continue
        try:
            return os_path.samestat(found, folder.with_name(other).lstat())
        except OSError:
            return False
    return False


def folder_of(path: Path) -> Path:
    """Return the path if it is a folder, else the folder that it is in."""
    try:
        return path if path.is_dir() else path.parent
    except OSError:
        return path.parent


def check_path_pattern(text: str) -> None:
    """Raise `UsageError` if `text` cannot be a pattern for paths."""
    if "\0" in text:
        raise UsageError("A path pattern holds a NUL character, which no path has; leave it out.")
    if text.startswith("~"):
        raise UsageError(f"The pattern {text!r} starts with '~', which rules do not expand; write the whole path.")
    glob = _split(text)[1]
    if ".." in glob:
        raise UsageError(f"The pattern {text!r} has '..' after a wildcard; write '..' at the start, or a whole path.")
    for name in glob:
        if "**" in name and name != "**":
            raise UsageError(f"The pattern {text!r} has '**' next to other characters; write it between slashes.")
        if "[" in _CLASS.sub("", name):
            raise UsageError(
                f"The pattern {text!r} has a '[' that nothing closes; write '[[]' for the character itself."
            )


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A glob over resolved paths, relative to `root` unless it is absolute.

    `*`, `?` and `[…]` match within a name, `**` matches any number of folders. Without a wildcard the pattern matches
    the path and everything below it. Paths are compared after links are resolved, so a link's own name never matches.
    To allow, a relative pattern follows no link that leads out of `root`, because it may be newer than the rule.
    """

    text: str
    root: Path | None

    def covers(self, target: str) -> bool:
        """Whether the pattern certainly matches the path and may allow it."""
        return self.catches(target) and not self._leaves_root()

    def catches(self, target: str) -> bool:
        """Whether the pattern certainly matches the path."""
        path = resolved(target, self.root)
        return path is not None and self._is_absolute and self._matches(path)

    def names(self, target: str) -> bool:
        """Return whether the pattern is the path itself.

        A folder above it, a wildcard and a link to it do not count; a link may be newer than the rule.
        """
        path = resolved(target, self.root)
        return path is not None and self._spelling == escape(str(path))

    def spells(self, target: str) -> bool:
        """Return whether the pattern matches a path, without following a link."""
        path = resolved(target, self.root)
        if path is None:
            return False
        plain, glob = _split(self._spelling)
        names = path.parts[len(plain.parts) :]
        return path.parts[: len(plain.parts)] == plain.parts and (_names_match(names, glob) if glob else not names)

    @property
    def _spelling(self) -> str:
        """The pattern from the root on, without `..`."""
        root = "" if self.root is None else str(resolved(str(self.root), None) or self.root)
        return os_path.normpath(os_path.join(escape(root), self.text))  # noqa: PTH118 - Path would keep `..`

    def may_catch(self, target: str) -> bool:
        """Whether it is not known if the pattern matches, because it or the path cannot be resolved."""
        return not self._is_absolute or resolved(target, self.root) is None

    @property
    def _is_absolute(self) -> bool:
        return not self.text.startswith("~") and (self.root is not None or Path(self.text).is_absolute())

    def _leaves_root(self) -> bool:
        """Whether a link leads out of the root, from the part of a relative pattern that names no other folder."""
        plain, _ = _split(self.text)
        if self.root is None or plain.is_absolute() or ".." in plain.parts:
            return False
        start, root = resolved(str(plain), self.root), resolved(str(self.root), None)
        return start is None or root is None or not below(start, root)

    def _matches(self, path: Path) -> bool:
        plain, glob = _split(self.text)
        start = resolved(str(plain), self.root)
        if start is None or not below(path, start):
            return False
        names = path.parts[len(start.parts) :]
        if not glob or _names_match(names, glob):
            return True
        return ignores_case(path) and _names_match(_folded(names), _folded(glob))


def _split(text: str) -> tuple[Path, tuple[str, ...]]:
    """The part of a pattern before its first wildcard, and the names from it on."""
    parts = Path(text).parts
    plain = next((index for index, name in enumerate(parts) if has_magic(name)), len(parts))
    return Path(*parts[:plain]), parts[plain:]


def _folded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in names)


def _names_match(names: tuple[str, ...], glob: tuple[str, ...]) -> bool:
    """Whether the names match the glob, in time that is linear in both."""
    reached = _past_folders({0}, glob)
    for name in names:
        stepped = {
            at if glob[at] == "**" else at + 1
            for at in reached
            if at < len(glob) and (glob[at] == "**" or fnmatchcase(name, glob[at]))
        }
        reached = _past_folders(stepped, glob)
    return len(glob) in reached


def _past_folders(reached: set[int], glob: tuple[str, ...]) -> set[int]:
    """Add the positions after each `**` that is reached, since it may match no folder at all."""
    found = set(reached)
    for at in range(len(glob)):
        if at in found and glob[at] == "**":
            found.add(at + 1)
    return found
