"""Files and folders hidden from commands in the sandbox.

These have keys, passwords, tokens and this kernel's addresses.

Of the home folder a command sees the ordinary entries, but the hidden ones only as far as its programs need them.
"""

from __future__ import annotations

import os
import site
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from planck_nb.agent.approval.secret_files import SYSTEM_FILES, SYSTEM_FOLDERS, is_secret_path
from planck_nb.base.errors import ToolError
from planck_nb.tools.private_folders import runtime_folder

_OF_SYSTEM = (*SYSTEM_FILES, *SYSTEM_FOLDERS, "/var/lib/docker")
"""Paths which only root can read."""

_NAMED_BY = (
    "JUPYTER_RUNTIME_DIR JUPYTER_CONFIG_DIR GNUPGHOME DOCKER_CONFIG KUBECONFIG PGPASSFILE XDG_RUNTIME_DIR XAUTHORITY "
    "SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS AWS_SHARED_CREDENTIALS_FILE GOOGLE_APPLICATION_CREDENTIALS NETRC "
    "CLOUDSDK_CONFIG"
).split()
"""Variables with the paths of such files and folders."""

_BINARIES = ("bin", "sbin", "shims", "condabin", "Scripts")
_NEVER_WHOLE = (".local", ".local/share", ".config", ".cache")
"""Folders below the home folder which belong to many programs."""

_FOLDER_NAMES = ("_HOME", "_ROOT", "_DIR", "_PREFIX", "_PATH", "GOPATH", "R_LIBS_USER", "PYTHONPATH", "VIRTUAL_ENV")
"""Ends of variables which name toolchains' folders."""

_IN_TOOLCHAINS = ("bin", "lib", "toolchains", "versions", "candidates", "packages", "pkg", "site-packages")
"""Folders of which a toolchain has one."""

_COMPANIONS = {"rustup": ".rustup", "cargo": ".rustup", "julia": ".julia", "juliaup": ".julia", "ghcup": ".ghcup"}
"""A program's folders in the home folder, without links to them."""

_SYSTEM_PLACES = {
    "/etc": True,
    **dict.fromkeys(
        ("/home", "/opt", "/srv", "/var/backups", "/var/cache", "/var/lib", "/var/log", "/var/spool"), False
    ),
}
"""Folders with the system's files, and whether their folders are looked through."""

_LISTENING = "00010000"
_SOCKET_FIELDS = 8

_MAX_ENTRIES = 2_000
_MAX_HIDDEN = 1_000


def hidden_paths(home: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the hidden paths that exist, with links followed."""
    named = [
        path.removeprefix("unix:path=").partition(",")[0]
        for name in _NAMED_BY
        for path in environment.get(name, "").split(os.pathsep if name == "KUBECONFIG" else "\0")
    ]
    below_home = [path for folder in homes(home) for path in _below_home(folder, environment)]
    sockets = runtime_folder(environment), runtime_folder()  # of kernels that serve, whose variables may be other ones
    paths = (*below_home, *sockets, *map(Path, (*_OF_SYSTEM, *(path for path in named if path.startswith("/")))))
    system = [*_listening_sockets(), *(_closed_to_others() if os.geteuid() == 0 else ())]
    found = dict.fromkeys(path for path in _resolved(paths) if path not in (home, Path("/")))
    places = [*_resolved(map(Path, _programs(environment))), *([] if home is None else [home])]
    used = {path for place in places for path in (place, *place.parents)}
    for path in _resolved(system):
        if path not in used and path not in found and not any(outer in found for outer in path.parents):
            found[path] = None
    return list(found)


def _resolved(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the existing paths, with links followed."""
    for path in paths:
        with suppress(OSError, RuntimeError, ValueError):
            if path.exists():
                yield path.resolve()


def _programs(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders of programs and of this Python."""
    yield from (sys.prefix, sys.base_prefix)
    yield from filter(os.path.isabs, environment.get("PATH", "").split(os.pathsep))


def _listening_sockets() -> Iterator[Path]:
    """Yield sockets, which read-only mounts do not protect."""
    with suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
            fields = line.split(maxsplit=_SOCKET_FIELDS - 1)
            if len(fields) == _SOCKET_FIELDS and fields[3] == _LISTENING and fields[-1].startswith("/"):
                yield Path(fields[-1])


def _closed_to_others() -> Iterator[Path]:
    """Yield what only root can read."""
    for place, is_deep in _SYSTEM_PLACES.items():
        waiting = [Path(place)]
        for folder in waiting:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in islice(entries, _MAX_ENTRIES):
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
                        waiting += [folder / entry.name] if is_deep and folder == Path(place) else []
                    elif stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and not mode & stat.S_IROTH):
                        yield folder / entry.name


def needed_paths(home: Path, environment: Mapping[str, str]) -> dict[Path, Path]:
    """Return paths in the home folder for programs in PATH and this Python.

    Args:
        home: The home folder, with links followed.
        environment: The commands' environment.

    Returns:
        Real paths by the path at which a command looks for them.
    """
    search_path = environment.get("PATH", "")
    named = {
        part
        for name, value in environment.items()
        if name.endswith(_FOLDER_NAMES) and not name.startswith(("XDG_", "JUPYTER_")) and name not in _NAMED_BY
        for part in value.split(os.pathsep)
        if any(os.path.isdir(os.path.join(part, inner)) for inner in _IN_TOOLCHAINS)  # noqa: PTH112, PTH118 - texts
    }
    return dict(_needed_paths(home, search_path, tuple(sorted(named))))


@lru_cache(maxsize=16)
def _needed_paths(home: Path, search_path: str, named: tuple[str, ...]) -> tuple[tuple[Path, Path], ...]:
    """Look once, so a command's new files do not make others visible."""
    own = (sys.prefix, sys.base_prefix, site.getusersitepackages() if site.ENABLE_USER_SITE else "")
    places = [Path(place) for place in (*own, *search_path.split(os.pathsep), *named) if place[:1] == os.sep]
    companions = [home / folder for place in places for name, folder in _COMPANIONS.items() if (place / name).exists()]
    paths: dict[Path, None] = {}
    waiting = [*places, *companions]
    while waiting:
        path = Path(os.path.realpath(waiting.pop()))
        prefix = path.parent if path.name in _BINARIES else path
        if not path.is_relative_to(home) or prefix in paths or path in paths:
            continue
        if not _is_shared(prefix, home):
            paths[prefix] = None
            waiting += [_target(python) for python in sorted((prefix / "bin").glob("python*"))[:20]]
        elif path.name in _BINARIES:
            paths[path] = None
            waiting += [_target(path / name) for name in _links_in(path)]
    links = {place: Path(os.path.realpath(place)) for place in places if place.is_relative_to(home)}
    return tuple({**{path: path for path in paths if path.exists()}, **links}.items())


def _target(program: Path) -> Path:
    """Return the folder where a link to a program leads."""
    return Path(os.path.realpath(program)).parent


def _is_shared(path: Path, home: Path) -> bool:
    return path == home or path in [home / name for name in _NEVER_WHOLE] or is_secret_path(path)


def _links_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_symlink()][:_MAX_ENTRIES]
    except OSError:
        return []


def homes(home: Path | None) -> list[Path]:
    """Return the home folders, for root those of all users."""
    return list(dict.fromkeys([*([] if home is None else [home]), *_folders_of_users(os.geteuid())]))


@lru_cache(maxsize=8)
def _folders_of_users(user: int) -> tuple[Path, ...]:
    import pwd  # noqa: PLC0415 - other systems do not have it

    found = (Path(os.path.realpath(entry.pw_dir)) for entry in pwd.getpwall() if user in (0, entry.pw_uid))
    return tuple(
        folder for folder in dict.fromkeys(found) if folder.parts[1:2] in (("home",), ("root",)) and folder.is_dir()
    )


def _below_home(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield hidden entries, and secrets in needed ones."""
    needed = set(needed_paths(home, environment).values())
    for number, path in enumerate(_entries(home, hidden=True), start=1):
        if number > _MAX_HIDDEN:
            raise ToolError(
                f"The command was not run: {home} has more than {_MAX_HIDDEN:,} hidden entries, which the sandbox hides"
                " one by one; move some into a folder."
            )
        if Path(os.path.realpath(path)) in needed:
            yield from _secrets_in(path)
        else:
            yield path
    for path in _entries(home, hidden=False):
        if _is_secret(f"/home/user/{path.name}"):
            yield path
    for folder in needed:
        yield from _secrets_in(folder)


def _secrets_in(folder: Path) -> Iterator[Path]:
    yield from (path for path in _entries(folder) if _is_secret(f"/home/user/{folder.name}/{path.name}"))


def _entries(folder: Path, *, hidden: bool | None = None) -> Iterator[Path]:
    """Yield all hidden entries and the first others."""
    count = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_hidden = entry.name.startswith(".")
            count += not is_hidden
            if hidden in (None, is_hidden) and (is_hidden or count <= _MAX_ENTRIES):
                yield folder / entry.name


@lru_cache(maxsize=10_000)
def _is_secret(path: str) -> bool:
    return is_secret_path(path)
