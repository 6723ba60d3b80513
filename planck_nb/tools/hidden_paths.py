"""Files and folders that commands in the sandbox do not see: keys, passwords, tokens, and addresses of this kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from planck_nb.agent.approval.secret_files import SYSTEM_FILES, SYSTEM_FOLDERS, is_secret_path

_LISTED = (
    "",
    ".cargo",
    ".config",
    ".config/git",
    ".config/pypoetry",
    ".gem",
    ".huggingface",
    ".local/share",
    ".local/share/jupyter",
    ".planck",
    ".subversion",
)
"""Folders below the home folder whose entries are checked; those of a project are not, because programs need them."""

_WHOLE_FOLDERS = ".colima .docker .jupyter .lima .local/share/containers .orbstack .rd .wandb".split()
"""Whole folders below the home folder, with sockets of services or with settings that contain tokens."""

_OF_SYSTEM = (*SYSTEM_FILES, *SYSTEM_FOLDERS, "/var/lib/docker")
"""Paths that only root can read."""

_NAMED_BY = ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "GNUPGHOME", "DOCKER_CONFIG", "KUBECONFIG", "PGPASSFILE")
"""Variables with the paths of such files and folders."""


def hidden_paths(home: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the hidden paths that exist, with links followed."""
    named = [path for name in _NAMED_BY for path in environment.get(name, "").split(":") if path.startswith("/")]
    below_home = () if home is None else _below_home(home)
    found: dict[Path, None] = {}
    for path in (*below_home, *map(Path, (*_OF_SYSTEM, *named))):
        try:
            if path.exists() and (resolved := path.resolve()) not in (home, Path("/")):
                found[resolved] = None
        except (OSError, RuntimeError):
            continue
    return list(found)


def _below_home(home: Path) -> Iterator[Path]:
    yield from (home / name for name in _WHOLE_FOLDERS)
    for folder in _LISTED:
        try:
            names = [entry.name for entry in (home / folder).iterdir()]
        except OSError:
            continue
        yield from (home / folder / name for name in names if _is_secret(f"/home/user/{folder}/{name}"))


@lru_cache(maxsize=10_000)
def _is_secret(path: str) -> bool:
    return is_secret_path(path)
