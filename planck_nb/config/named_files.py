"""A project's files behind commands and sidecars."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

from planck_nb.base.errors import ConfigError

_MAX_FILES = 5_000
_MAX_NAMES = 1_000
_MAX_BASES = 20
_MAX_NAME = 4_096
_MAX_CANDIDATES = 50_000
_CHUNK = 1_048_576
_SEPARATORS = re.compile(r"""[\s'"=,;:&|()<>`]+""")
_HERE = re.compile(r"\$\{?PWD\}?|\$\(pwd\)|`pwd`|(?:file:/{2,3})?/proc/self/cwd|file:/{2}")
"""Writings of the working directory."""

_ENDS = (".py", ".js", ".mjs", ".cjs", ".ts", "/__init__.py", "/__main__.py", "/index.js", "/package.json")
"""Ends of files behind a module's or a folder's name."""

_PACKAGE_RUNNERS = frozenset({"npm", "npx", "yarn", "pnpm", "pnpx", "bun", "bunx"})
_MANIFESTS = {
    **dict.fromkeys(
        _PACKAGE_RUNNERS,
        (
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            "bunfig.toml",
            ".pnpmfile.cjs",
            "node_modules/.bin/node",
            "node_modules/.bin/sh",
        ),
    ),
    **dict.fromkeys(("node", "deno"), ("package.json", "deno.json")),
    **dict.fromkeys(("uv", "uvx", "poetry", "pdm", "hatch", "pipx"), ("pyproject.toml", "uv.toml")),
    **dict.fromkeys(("make", "gmake", "just"), ("Makefile", "makefile", "GNUmakefile", "justfile")),
    **dict.fromkeys(("docker", "podman"), ("compose.yaml", "compose.yml", "docker-compose.yml", "Dockerfile")),
    "cargo": ("Cargo.toml",),
}
"""Files in the working directory that a program reads by itself."""

_DATABASES = {".db": (0, b"SQLite format 3\0"), ".duckdb": (8, b"DUCK")}
_DATABASES |= dict.fromkeys((".sqlite", ".sqlite3"), _DATABASES[".db"])
"""Offsets and bytes in databases, by name ending."""

_LEFT_OUT = {
    "__pycache__",
    ".venv",
    ".venv.lock",
    ".git",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
}
"""An environment and caches."""

PACKAGES = "node_modules"


class NamedFile(NamedTuple):
    """A file in the project.

    Args:
        name: Its path below the project's folder.
        size: Its size in bytes.
        digest: The SHA-256 digest for its content; empty for a database, whose content is data.
    """

    name: str
    size: int
    digest: str

    @property
    def line(self) -> str:
        """Return a line for a person."""
        return f"{self.name} ({self.size:,} bytes{'' if self.digest else ', a database: its content may change'})"


def find_named_files(
    words: Sequence[str], *, root: Path, folder: Path, search_path: str | None = None
) -> tuple[NamedFile, ...]:
    """Find the project's files whose names occur in a command.

    A name may be a whole argument, or a part such as in `--config=server.json` and `sh -c "python server.py"`. It may
    be relative to the working directory, to the project, or to a folder which the command names, too; it may be a
    Python module's. The program is looked up like a shell does. What such a file imports is not found.

    Args:
        words: The command and its arguments.
        root: The project's folder.
        folder: The command's working directory.
        search_path: The variable PATH for the program, None for no lookup.

    Returns:
        The files in alphabetical order.
    """
    names = _names(words)
    bases = [folder, root]
    bases += [path for name in names if _is_below(path := folder / name, root) and os.path.isdir(path)]  # noqa: PTH112 - raises nothing
    is_cut = len(names) >= _MAX_NAMES or len(bases) > _MAX_BASES
    bases = bases[:_MAX_BASES]
    manifests = [file for name in names for file in _MANIFESTS.get(os.path.basename(name), ())]  # noqa: PTH119 - as above
    if any(os.path.basename(name) in _PACKAGE_RUNNERS for name in names):  # noqa: PTH119 - as above
        manifests += [file for name in names for file in _package_files(name)]
    ends = [f"{name.rstrip('/')}{end}" for name in names for end in _ENDS]
    ends += [f"{name.replace('.', '/')}{end}" for name in names if "/" not in name for end in _ENDS]
    candidates = [*names, *manifests, *ends]
    is_cut = is_cut or len(candidates) * len(bases) > _MAX_CANDIDATES
    pairs = islice(product(bases, candidates), _MAX_CANDIDATES)
    paths = {Path(os.path.normpath(base / name)) for base, name in pairs}
    patterns = [name for name in names if set(name) & set("*?[") and set(name) != {"*"}][:_MAX_BASES]
    paths |= {path for base, pattern in product(bases, patterns) for path in _matches(base, pattern)}
    paths |= {module for path in paths if path.suffix == ".py" and _is_file(path) for module in _compiled(path)}
    if words and search_path and (program := shutil.which(words[0], path=search_path)):
        paths.add(Path(os.path.abspath(program)))  # noqa: PTH100 - a link stays: it is part of the project
    options = {words[at + 1] for at in range(len(words) - 1) if words[at].startswith("-")}
    options |= {word.partition("=")[2] for word in words if word.startswith("-")}
    files = tuple(_described(sorted(path for path in paths if _is_below(path, root)), root, options))
    return (*files, NamedFile("and more files, which are not covered", 0, "more")) if is_cut else files


def _names(words: Sequence[str]) -> list[str]:
    """Return all possible names in a command."""
    parts: dict[str, None] = {}
    for word in words:
        text = _HERE.sub(".", word)
        with suppress(ValueError):  # an open quote
            parts |= dict.fromkeys(shlex.split(text))
        values = [text[2:]] if text[:2] in {"-m", "-r", "-c", "-f"} else []
        parts |= dict.fromkeys((text, *values, *_SEPARATORS.split(text)))
    return [part for part in parts if part and "\0" not in part and len(part) <= _MAX_NAME][:_MAX_NAMES]


def _package_files(word: str) -> Iterator[str]:
    """Yield files which npx prefers to an installation, by a package's name."""
    name = word[:1] + word[1:].partition("@")[0]
    for program in {name, name.rpartition("/")[2]}:
        yield f"node_modules/.bin/{program}"
    yield f"node_modules/{name}/package.json"


def _compiled(source: Path) -> list[Path]:
    """Return compiled modules beside a source, which Python imports instead."""
    return [path for path in _matches(source.parent, f"{glob.escape(source.stem)}.*") if path.suffix in {".so", ".pyd"}]


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def remove_bytecode(files: Iterable[NamedFile], root: Path) -> None:
    """Remove Python files' cached bytecode.

    Python runs it if it has its source's time and size, whatever it contains.

    Args:
        files: The files.
        root: The project's folder.
    """
    for source in (root / file.name for file in files if file.name.endswith(".py")):
        cache = source.with_name("__pycache__")
        with suppress(OSError):
            if cache.is_symlink():
                cache.unlink()
            for bytecode in cache.glob(f"{glob.escape(source.stem)}.*.pyc"):
                bytecode.unlink(missing_ok=True)


def _matches(base: Path, pattern: str) -> list[Path]:
    with suppress(ValueError, OSError, NotImplementedError, IndexError):
        return list(islice(base.glob(pattern), _MAX_NAMES))
    return []


def find_source_files(folder: Path, root: Path, *, has_setup: bool) -> tuple[NamedFile, ...]:
    """Find all files in a sidecar's folder, without its environment and caches.

    Args:
        folder: The folder.
        root: The project's folder.
        has_setup: Whether its own commands install packages; then `node_modules` is left out.

    Returns:
        The files in alphabetical order.

    Raises:
        ConfigError: There are more than 5,000.
    """
    left_out = _LEFT_OUT | ({PACKAGES} if has_setup else set())
    paths: list[Path] = []
    places: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in places:  # links may form a circle
            folders.clear()
            continue
        places.add(real)
        folders[:] = [name for name in folders if name not in left_out and not name.endswith(".egg-info")]
        links = [name for name in folders if Path(place, name).is_symlink()]
        paths += [Path(place, name) for name in (*files, *links) if name not in left_out]
        if len(paths) > _MAX_FILES:
            raise ConfigError(
                f"{folder} has more than {_MAX_FILES:,} files; move data elsewhere, and name commands which install "
                "packages in `setup`."
            )
    return tuple(_described(sorted(paths), root, set()))


def covered(files: Iterable[NamedFile]) -> bytes:
    """Return the files' names and contents as bytes for a digest."""
    return b"".join(os.fsencode(f"\0{file.name}\0{file.digest}") for file in files)


def _described(paths: Iterable[Path], root: Path, options: Collection[str]) -> Iterator[NamedFile]:
    """Describe existing files.

    Only an option's value may be a database, since other files may be run.
    """
    may_be_data = {os.path.basename(option) for option in options}  # noqa: PTH119 - no path
    for path in paths:
        with suppress(OSError, ValueError):
            name = os.path.relpath(path, root)
            if path.is_symlink() and path.is_dir():
                target = str(path.readlink())
                yield NamedFile(f"{name} -> {target}", 0, hashlib.sha256(os.fsencode(target)).hexdigest())
            elif path.is_file():
                status = path.stat()
                version = (status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
                yield NamedFile(name, status.st_size, _digest(str(path), version, data=path.name in may_be_data))


@lru_cache(maxsize=4 * _MAX_FILES)
def _digest(path: str, _version: tuple[int, ...], *, data: bool) -> str:
    """Return the content's digest, empty for a database."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        chunk = file.read(_CHUNK)
        offset, mark = _DATABASES.get(Path(path).suffix, (0, b""))
        if data and mark and chunk[offset:].startswith(mark):
            return ""
        while chunk:
            digest.update(chunk)
            chunk = file.read(_CHUNK)
    return digest.hexdigest()


def _is_below(path: Path, root: Path) -> bool:
    """Return whether a path is in the project, also by links."""
    if Path(os.path.abspath(path)).is_relative_to(os.path.abspath(root)):  # noqa: PTH100 - links stay
        return True
    return _is_file(path) and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
