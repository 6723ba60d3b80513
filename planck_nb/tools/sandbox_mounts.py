"""What a command in the sandbox sees of the file system: options of bubblewrap."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from planck_nb.agent.approval.sandbox_access import SandboxAccess
from planck_nb.agent.approval.secret_files import is_secret_path
from planck_nb.base.programs import find_program
from planck_nb.tools.guarded_paths import GuardedPaths
from planck_nb.tools.hidden_paths import hidden_paths, homes, needed_paths

_TEMPORARY = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - each is replaced by an empty folder
"""Folders that are empty in the sandbox. /run has the sockets of services."""

_CACHES = (".cache", ".npm", ".conda/pkgs")
"""Folders of caches below the home folder: empty in the sandbox, and what is written there is dropped."""

_NEEDED = ("/etc/resolv.conf", "/run/current-system", "/run/opengl-driver")
"""Paths that programs need and that may lie, links followed, in a folder that is empty in the sandbox."""

_EMPTY = Path(__file__).parents[1] / "py.typed"

_GIT_FILES = (".gitconfig", ".config/git/config")
_GIT_SECONDS = 5.0

_GPU_DEVICES = ("nvidia*", "dri", "kfd")
"""Devices of GPUs, which programs compute with."""


@dataclass(frozen=True, slots=True)
class Mounts:
    """Mounts over a read-only root.

    Args:
        options: The options which make them.
        places: Where they are, all of them.
        checked: Those which show the same path of the file system, and which another command may replace meanwhile.
    """

    options: list[str]
    places: tuple[Path, ...]
    checked: tuple[Path, ...]


def mounts(
    guard: GuardedPaths, access: SandboxAccess, environment: Mapping[str, str], readable: Sequence[Path]
) -> Mounts:
    """Return all mounts over a read-only root.

    A mount covers what was mounted below it before, so the deepest come last. If two are for the same path, the later
    of these replaces the other: empty folders, what is readable in them, the writable folder, what programs obey in it,
    caches, hidden paths, what was approved for the command.
    """
    writable = guard.folder
    home = _folder(environment.get("HOME"))
    empty = list(_empty(environment))
    found: dict[Path, tuple[str, ...]] = {path: ("--tmpfs", str(path)) for path in empty}
    for path in (*_needed(home), *readable):
        if path.exists() and any(path != folder and path.is_relative_to(folder) for folder in empty):
            found[path] = _bind("--ro-bind", path)
    if writable != Path("/"):
        found[writable] = _bind("--bind", writable)
    found |= (guarded := guard.mounts(access.write))
    caches = [path for path in _caches(home, environment) if not writable.is_relative_to(path)]
    found |= {path: ("--tmpfs", str(path)) for path in caches}
    covers = _hidden(home, environment, writable)
    found |= covers
    tools = {path: real for folder in homes(home) for path, real in needed_paths(folder, environment).items()}
    found |= {
        path: ("--ro-bind", str(real), str(path))
        for path, real in tools.items()
        if path not in found and real.exists() and not covers.keys().isdisjoint((path, *path.parents))
    }
    found |= {path: _bind("--ro-bind", path) for path in access.read}
    found |= {path: _bind("--bind", path) for path in access.write if path.exists()}
    # Without a folder for caches, programs would try to create one in the read-only home folder.
    variable = [] if caches else ["--setenv", "XDG_CACHE_HOME", "/tmp/.cache"]  # noqa: S108 - the private one
    devices = _devices()
    device_options = [word for path in devices for word in ("--dev-bind", str(path), str(path))]
    deepest_last = sorted(found, key=lambda path: len(path.parts))
    identity = [word for name, value in git_identity(home, environment) for word in ("--setenv", name, value)]
    # Files there would be lost.
    empty_folders = (path for path in covers if found[path][0] == "--tmpfs" and path not in caches)
    read_only = [word for path in empty_folders for word in ("--remount-ro", str(path))]
    options = [word for path in deepest_last for word in found[path]]
    own = (
        path for path in (writable, *guarded, *access.read, *access.write) if found.get(path, ())[1:2] == (str(path),)
    )
    elsewhere = (Path(os.path.realpath(path)) for path in deepest_last if not path.is_relative_to(writable))
    return Mounts(
        [*device_options, *variable, *identity, *options, *read_only],
        (*devices, *deepest_last, *elsewhere),
        tuple(dict.fromkeys(path for path in own if found[path][0] != "--tmpfs")),
    )


def _bind(option: str, path: Path) -> tuple[str, ...]:
    return option, str(path), str(path)


def _folder(path: str | None) -> Path | None:
    """The folder, links followed, None if there is none."""
    folder = Path(path) if path else None
    return folder.resolve() if folder is not None and folder.is_absolute() and folder.is_dir() else None


def _empty(environment: Mapping[str, str]) -> Iterator[Path]:
    for name in (*_TEMPORARY, environment.get("TMPDIR")):
        folder = _folder(name)
        if folder is not None and folder != Path("/"):
            yield folder


def _needed(home: Path | None) -> Iterator[Path]:
    """The home folder, the folders of this Python, and the paths that programs need."""
    if home is not None:
        yield home
    for name in (sys.prefix, sys.base_prefix, *_NEEDED):
        yield Path(name).resolve()


def _caches(home: Path | None, environment: Mapping[str, str]) -> Iterator[Path]:
    named = environment.get("XDG_CACHE_HOME")
    below_home = [] if home is None else [str(home / name) for name in _CACHES]
    for name in (named, *below_home):
        folder = _folder(name)
        if folder is not None and folder not in (home, Path("/")):
            yield folder


def _hidden(home: Path | None, environment: Mapping[str, str], writable: Path) -> dict[Path, tuple[str, ...]]:
    """Empty folders and unreadable files instead of secrets, except for a folder that the command works in."""
    used = {writable, *writable.parents}
    return {
        path: ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", _hiding(path), str(path))
        for path in hidden_paths(home, environment)
        if path not in used and not (path.is_relative_to(writable) and path.is_socket())
    }


def git_identity(home: Path | None, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return variables with git's name and email address."""
    if home is None or "GIT_CONFIG_COUNT" in environment:
        return []
    stamps = [path.stat().st_mtime_ns if path.exists() else 0 for path in (home / name for name in _GIT_FILES)]
    pairs = _git_settings(str(home), environment.get("PATH", ""), tuple(stamps)) if any(stamps) else ()
    variables = [
        item
        for at, (key, value) in enumerate(pairs)
        for item in ((f"GIT_CONFIG_KEY_{at}", key), (f"GIT_CONFIG_VALUE_{at}", value))
    ]
    return [("GIT_CONFIG_COUNT", str(len(pairs))), *variables] if pairs else []


@lru_cache(maxsize=8)
def _git_settings(home: str, search_path: str, _stamps: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    git = find_program("git", search_path=search_path)
    if git is None:
        return ()
    words = [git, "config", "--global", "--null", "--get-regexp", r"^(user\.(name|email)|safe\.directory)$"]
    try:
        process = subprocess.run(  # noqa: S603 - a program outside of the project
            words, env={"HOME": home}, cwd="/", capture_output=True, text=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    lines = [entry.partition("\n") for entry in process.stdout.split("\0") if entry]
    return tuple((key, value) for key, _, value in lines)


@lru_cache(maxsize=10_000)
def _hiding(path: Path) -> str:
    """Return a file to put in its place; programs may need readable settings."""
    return os.devnull if is_secret_path(path) else str(_EMPTY)


def _devices() -> list[Path]:
    return [path for pattern in _GPU_DEVICES for path in Path("/dev").glob(pattern)]
