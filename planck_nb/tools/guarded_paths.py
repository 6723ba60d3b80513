"""Files in a writable folder which programs obey by themselves.

A shell, Python, git, an editor or an agent runs or follows them when it starts or opens the folder. A command in the
sandbox cannot change the existing ones: they are mounted read-only, and each folder above them is a mount, since only a
mount cannot be moved away. A missing one is not mounted, as bubblewrap would create it; what the command leaves there
is renamed after its end.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Literal, TypeAlias

from planck_nb.agent.approval.obeyed_files import ENDS, IN_GIT, NAMES, NAMES_IN
from planck_nb.tools.no_links import open_file, open_folder, status_of
from planck_nb.tools.settings_paths import git_paths, named_paths, submodules

_NAMED_BY = (
    *("PLANCK_NB_ENV_FILE", "PLANCK_NB_MODELS_FILE", "PLANCK_NB_SKILLS_DIRS", "PLANCK_NB_SESSIONS_DIR"),
    *(
        "BASH_ENV",
        "ENV",
        "PYTHONSTARTUP",
        "ZDOTDIR",
        "INPUTRC",
        "GIT_CONFIG_GLOBAL",
        "R_PROFILE_USER",
        "R_ENVIRON_USER",
    ),
    *("JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "IPYTHONDIR", "MATPLOTLIBRC"),
    *("PIP_CONFIG_FILE", "UV_CONFIG_FILE", "NPM_CONFIG_USERCONFIG", "CONDARC", "DIRENV_CONFIG", "MYVIMRC"),
)
"""Variables with files and folders for programs that start."""

_ORDINARY = frozenset(
    ".cache .npm .conda .venv .ipynb_checkpoints .gitignore .gitattributes .github .yarn .cargo .bundle .mvn .hg .env "
    ".editorconfig .coverage .pytest_cache .ruff_cache .mypy_cache .hypothesis .DS_Store .virtual_documents".split()
)
"""Hidden names in a home folder which programs do not obey."""

_HARMLESS_HIDDEN = re.compile(
    r"\.(?:gitkeep|gitlab|gitlab-ci\.yml|\w+ignore|keep|nojekyll|coverage\..*|tox|nox|eggs|parcel-cache|next|nuxt|vite|turbo"
    r"|svelte-kit|angular|nyc_output|quarto|Rproj\.user|Rhistory|terraform.*|dvc|snakemake|nextflow.*|benchmarks|asv|uv|pixi"
    r"|node-version|nvmrc|ruby-version|java-version|sass-cache|jekyll-cache|doctrees|buildinfo|ropeproject"
    r"|cargo-lock|package-lock\.json|nfs.*|fuse_hidden.*|~lock.*|#.*|.*\.(?:sw[a-p]|tmp|lock|crc|log)|\w*[_-]history"
    r"|planck.*|git|bin|bzr|svn|CFUserTextEncoding)|.*\.set-aside-\d+"
)
"""Harmless hidden names in a project."""

_OWN = frozenset({"sessions"})
"""This process's own files in a new `.planck`."""

_BARE = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
"""A folder with one of these is a repository, wherever it lies."""

_LATER = re.compile(
    r"conftest\.py|setup\.py|noxfile\.py|tasks\.py|fabfile\.py|dodo\.py|SConstruct|GNUmakefile|[Mm]akefile|justfile|Rakefile"
    r"|Gruntfile\.js|gulpfile\.js|package\.json|\.pre-commit-config\.yaml|lefthook\.yml|Dockerfile|Vagrantfile|Jenkinsfile"
    r"|\.gitlab-ci\.yml|tox\.ini|pytest\.ini|pyproject\.toml|build\.rs|\.gitattributes|\.gitmodules|\.env(\..+)?"
    r"|\.?pylintrc|mypy\.ini|\.flake8|\.coveragerc|\.eslintrc.*|eslint\.config\..+|\.prettierrc.*|prettier\.config\..+"
    r"|(docker-)?compose(\.\w+)?\.ya?ml|CMakeLists\.txt|CMake(User)?Presets\.json|\.?latexmkrc|\.bazelrc|Taskfile\.ya?ml"
    r"|Procfile|Guardfile|setup\.cfg|\.python-versions?|(Dockerfile|Containerfile)\..+|Containerfile|\.?Justfile|\.justfile"
    r"|pnpm-workspace\.yaml|environment\.ya?ml|Pipfile|(pixi|poetry|pdm|hatch)\.toml|(flake|shell|default|devenv)\.nix"
    r"|devbox\.json|rust-toolchain(\.toml)?|settings\.gradle(\.kts)?|gradle(-wrapper)?\.properties|gradle-wrapper\.jar"
    r"|\.?jupytext(\.\w+)?|(jupyter|ipython)_\w+\.(py|json)|kernel\.json|.+\.desktop|pyvenv\.cfg|\.?mise\..+\.toml"
    r"|(lefthook-local|\.lefthook)\.yml|Directory\.Build\.\w+|build\.gradle(\.kts)?|matplotlibrc"
)
"""Code and settings which run by themselves later; results name changed ones."""

_LATER_IN = {name: re.compile(r"[aA]ctivate.*|python[\d.]*(\.exe)?") for name in ("bin", "Scripts")}
"""An environment's programs, which editors run by themselves."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", ".git"})
_MAX_DEPTH = 3
_MAX_ENTRIES = 20_000
_MAX_AFTERWARDS = 100_000
_FOLDER_COST = 10
"""A folder takes as long as this number of entries."""
_MAX_SETTINGS = 100_000
_MAX_NAMED = 10
_IDENTITY = stat.S_ISUID | stat.S_ISGID
_CLOCK_STEP = 100_000_000
"""Nanoseconds by which a file system's time may lag behind the clock."""

_HARMLESS = re.compile(
    r"""\s*(?:[#;].*)?
    |\s*\[(?:core|init|user|pull|push|merge|extensions|(?:remote|branch|submodule)\s+"[^"\\\n]*")\]\s*
    |\s*(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|precomposeunicode|objectformat
    |refstorage|defaultbranch|name|email|fetch|merge|rebase|active|tagopt|default|autosetuprebase|ff|conflictstyle)\s*=[^\\\n]*
    |\s*(?:url|pushurl)\s*=\s*(?!\s*["']?(?:ext|fd)::|\s*["']?-|[^\n]*\\$)[^\n]*""",
    re.VERBOSE | re.IGNORECASE,
)
"""A harmless line in a repository's configuration."""


_Kind: TypeAlias = Literal["guarded", "later", "hidden", "rest"]


@dataclass(frozen=True, slots=True)
class GuardedPaths:
    """The guarded paths in a folder at one moment.

    Args:
        folder: The writable folder, with links followed.
        existing: The existing paths, each with its target if it is a link.
        links: The other links through which they lead, with their targets.
        missing: Where they lead if nothing is there.
        later: Stamps of files which run by themselves later.
        hidden: Other hidden paths whose names are not known.
        is_complete: Whether all folders were looked at, down to a depth.
        modules: Names of modules at the top level.
        home: The home folder if commands can write in it, whose hidden entries are all guarded.
        since: The time in nanoseconds since the epoch.
    """

    folder: Path
    existing: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    later: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    is_complete: bool = True
    modules: frozenset[str] = frozenset()
    home: str = ""
    since: int = 0

    @classmethod
    def of(
        cls, folder: Path, environment: Mapping[str, str], limit: int = _MAX_ENTRIES, since: int = 0
    ) -> GuardedPaths:
        """Look for guarded paths.

        Args:
            folder: The writable folder, with links followed.
            environment: The commands' environment.
            limit: How many entries are looked at.
            since: Folders which were closed to their owner since this time are opened again; 0 for none.
        """
        existing, later = dict[str, str](), dict[str, tuple[int, int]]()
        home = os.path.realpath(environment.get("HOME") or os.devnull)
        home = home if Path(home).is_relative_to(folder) else ""
        links, missing, others = dict[str, str](), set[str](), set[str]()
        pairs = _walk(str(folder), home, limit, since)
        for path, kind in pairs:
            if kind == "hidden":
                others.add(path)
            elif kind == "guarded":
                existing[path] = os.readlink(path) if os.path.islink(path) else ""  # noqa: PTH114, PTH115 - strings
                for name in (path, *_links_in(path)):
                    links |= {str(link): os.readlink(link) for link in _links_on_way(Path(name), folder)}  # noqa: PTH115 - as above
                    if not os.path.exists(name):  # noqa: PTH110 - as above
                        missing.add(os.path.realpath(name))
            elif kind == "later":
                with suppress(OSError):
                    status = os.lstat(path)
                    later[path] = status.st_mtime_ns, status.st_size
        # A command's own settings could name any file, which would then be renamed.
        more = () if since else named_paths(list(existing), str(folder))
        for name in dict.fromkeys((*more, *_environments(folder, environment))):
            if os.path.lexists(name):
                existing.setdefault(name, os.readlink(name) if os.path.islink(name) else "")  # noqa: PTH114, PTH115 - as above
            else:
                missing.add(name)
        links = {name: target for name, target in links.items() if name not in existing}
        return cls(
            folder,
            existing,
            links,
            frozenset(missing),
            later,
            frozenset(others),
            all(kind != "rest" for _, kind in pairs),
            frozenset(_modules(folder)),
            home,
            time.time_ns(),
        )

    def mounts(self, exceptions: Sequence[Path] = ()) -> dict[Path, tuple[str, ...]]:
        """Return bubblewrap's options for the existing paths and the folders above them.

        Args:
            exceptions: Paths which the command may change nevertheless.
        """
        options: dict[Path, tuple[str, ...]] = {}
        names = [*self.existing, *(link for name in self.existing for link in _links_in(name))]
        for name in names if self.folder != Path("/") else ():
            path = Path(os.path.realpath(name))  # a link is restored after the command
            if path == self.folder or not path.is_relative_to(self.folder):  # as a mount, the folder would be read-only
                continue
            if not path.exists() or _is_below(path, exceptions):
                continue
            parents = [
                parent for parent in path.parents if parent != self.folder and parent.is_relative_to(self.folder)
            ]
            for parent in parents:
                if not any(str(outer) in self.existing for outer in (parent, *parent.parents)):
                    options.setdefault(parent, ("--bind", str(parent), str(parent)))
            options[path] = ("--ro-bind", str(path), str(path))
        return options

    def clean(self, environment: Mapping[str, str], exceptions: Sequence[Path] = ()) -> list[str]:
        """Rename what a command left, and return sentences about it.

        Args:
            environment: The commands' environment.
            exceptions: Paths which the command was allowed to change.
        """
        # Otherwise a command could hide something behind many new files.
        now = GuardedPaths.of(
            self.folder, environment, _MAX_AFTERWARDS if self.is_complete else _MAX_ENTRIES, self.since
        )
        sentences: list[str] = []
        for name in sorted(now.existing.keys() | self.existing.keys()):
            if not _is_below(Path(name), exceptions) and self._is_changed(name):
                sentences += self._restore(Path(name), is_new=name not in self.existing)
        for name, target in sorted(self.links.items()):
            if not os.path.islink(name) or os.readlink(name) != target:  # noqa: PTH114, PTH115 - strings
                sentences += self._restore(Path(name), is_new=False)
        for name in sorted(self.missing):
            if Path(name).is_relative_to(self.folder) and os.path.lexists(name):
                sentences += self._restore(Path(name), is_new=True)
        if os.geteuid() == 0 and (programs := sorted(_clear_identity(self.folder, self.since))):
            names = ", ".join(programs)
            sentences.append(
                f"These programs would have given root's rights to other users, and no longer do: {names}."
            )
        return [*sentences, *self._about(now)]

    def _about(self, now: GuardedPaths) -> Iterator[str]:
        """Yield sentences about what was not renamed."""
        files = sorted(
            os.path.relpath(name, self.folder) for name, stamp in now.later.items() if self.later.get(name) != stamp
        )
        if files:
            yield (f"This command changed files that other programs run automatically: {', '.join(files)}.")
        names = sorted(
            os.path.relpath(name, self.folder) for name in now.hidden - self.hidden if self._is_changed(name)
        )
        if names:
            text = ", ".join(names[:_MAX_NAMED]) + (" and others" if names[_MAX_NAMED:] else "")
            yield f"This command made hidden files; see what they are for before you open the folder: {text}."
        if not now.is_complete and (self.is_complete or self.folder not in _too_large):
            _too_large.add(self.folder)
            yield (
                "This folder has too many entries to look through them all: files that programs load automatically are"
                " protected only where they were found."
            )
        if shadowing := sorted(_shadowing(now.modules - self.modules)):
            yield (
                f"New modules in this folder hide installed ones of their name: {', '.join(shadowing)}. Rename them."
            )

    def _is_changed(self, name: str) -> bool:
        """Return whether a path is new, moved, removed, or leads elsewhere."""
        try:
            status = os.lstat(name)
            target = os.readlink(name) if stat.S_ISLNK(status.st_mode) else ""  # noqa: PTH115 - a string
        except OSError:
            return name in self.existing
        if name in self.existing:
            return target != self.existing[name]
        # The first look may have ended before it, and a person may have made it.
        return self.is_complete or status.st_ctime_ns >= self.since - _CLOCK_STEP

    def _restore(self, path: Path, *, is_new: bool) -> list[str]:
        """Put a guarded path back as it was."""
        place = os.path.relpath(path, self.folder)
        if is_new and _is_settings(path):
            return _clean_settings(path, place)
        if path.name == "hooks" and _has_only_samples(path):
            return []
        if is_new and path.name == ".planck" and path.is_dir() and not path.is_symlink():
            return _clean_own(path)
        aside = ""
        with suppress(OSError):
            if os.path.lexists(path):
                aside = _set_aside(path)
            if target := self.existing.get(str(path)) or self.links.get(str(path)):
                with open_folder(path.parent) as folder:
                    os.symlink(target, path.name, dir_fd=folder)
        if not aside and is_new:
            return [f"This command left {place}, which programs load automatically; remove it."]
        if not aside:
            return [f"This command moved or removed {place}."]
        return [f"This command left {place}, which programs load automatically; it was renamed to {aside}."]


_too_large: set[Path] = set()
"""Folders about whose number of entries the user has been told."""


def _walk(folder: str, home: str, limit: int, since: int) -> list[tuple[str, _Kind]]:
    """Return paths with their kinds.

    "later" files run by themselves later; "hidden" ones have an unknown name; "rest" is for skipped folders.
    """
    pairs: list[tuple[str, _Kind]] = []
    waiting, cost = deque([(folder, 0)]), 0
    while waiting:
        if cost >= limit:
            return [*pairs, (folder, "rest")]
        place, depth = waiting.popleft()
        entries = _entries(place, since)
        cost += len(entries) + _FOLDER_COST
        names = {entry.name for entry in entries}
        if any(names >= marks for marks in _BARE):
            pairs += ((entry.path, "guarded") for entry in entries if entry.name in IN_GIT)
        inner = NAMES_IN.get(os.path.basename(place), frozenset())  # noqa: PTH119 - as above
        later = _LATER_IN.get(os.path.basename(place))  # noqa: PTH119 - as above
        for entry in entries:
            if entry.name == ".git":
                pairs += ((path, "guarded") for path in git_paths(entry.path, folder))
                waiting += ((path, _MAX_DEPTH) for path in submodules(entry.path, folder))
                continue
            kind: _Kind | None = "guarded" if entry.name in inner else _kind(entry.name, is_at_home=place == home)
            if kind is None and later is not None and later.fullmatch(entry.name):
                kind = "later"
            if kind is not None:
                pairs.append((entry.path, kind))
            if kind in (None, "hidden") and depth < _MAX_DEPTH and entry.name not in _SKIPPED:
                waiting += [(entry.path, depth + 1)] if entry.is_dir(follow_symlinks=False) else []
    return pairs


def _entries(folder: str, since: int) -> list[os.DirEntry[str]]:
    for is_last in (not since, True):
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except PermissionError:
            with suppress(OSError):
                if not is_last and os.lstat(folder).st_ctime_ns >= since - _CLOCK_STEP:
                    _give_rights(Path(folder))
        except OSError:
            break
    return []


def _give_rights(folder: Path) -> None:
    """Give a folder's owner the rights to read and change it."""
    with open_folder(folder) as descriptor:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        Path(f"/proc/self/fd/{descriptor}").chmod(mode | stat.S_IRWXU)


def _kind(name: str, *, is_at_home: bool) -> _Kind | None:
    if name in NAMES or name.endswith(ENDS):
        return "guarded"
    is_hidden = name.startswith(".") and name not in _ORDINARY
    if is_hidden and is_at_home:
        return "guarded"
    if _LATER.fullmatch(name):
        return "later"
    return "hidden" if is_hidden and not _HARMLESS_HIDDEN.fullmatch(name) else None


def _clear_identity(folder: Path, since: int) -> Iterator[str]:
    """Take their owner's rights from changed programs, and yield their names."""
    entry_count = 0
    for place, _, files in os.walk(folder):
        entry_count += len(files) + _FOLDER_COST
        if entry_count > _MAX_ENTRIES:
            return
        for name in files:
            path = Path(place, name)
            with suppress(OSError):
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode) or not status.st_mode & _IDENTITY:
                    continue
                if status.st_ctime_ns < since - _CLOCK_STEP:
                    continue
                with open_folder(path.parent) as parent:
                    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
                try:
                    os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~_IDENTITY)
                finally:
                    os.close(descriptor)
                yield os.path.relpath(path, folder)


def _links_in(name: str) -> Iterator[str]:
    """Yield a guarded folder's links, whose targets programs obey, too."""
    for place, folders, files in os.walk(name):
        for entry in (*folders, *files):
            if os.path.islink(path := os.path.join(place, entry)):  # noqa: PTH114, PTH118 - texts
                yield path
        if place.count(os.sep) > name.count(os.sep):
            folders.clear()


def _links_on_way(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the links in a folder through which a path leads."""
    place, names = folder, [*reversed(path.relative_to(folder).parts)]
    found = set[Path]()
    while names:
        name = names.pop()
        if name == place.anchor:
            place = Path(name)
        elif name == os.pardir:
            place = place.parent
        else:
            place /= name
            if place in found:
                return
            if place.is_symlink():
                found.add(place)
                if place.is_relative_to(folder):
                    yield place
                names += reversed(place.readlink().parts)
                place = place.parent


def _environments(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield environments in use, folders in PATH, and files named by variables."""
    places = [sys.prefix, sys.base_prefix, environment.get("VIRTUAL_ENV", ""), environment.get("CONDA_PREFIX", "")]
    for value in filter(None, (environment.get(name) for name in _NAMED_BY)):
        places += [os.path.join(folder, part) for part in value.split(os.pathsep)]  # noqa: PTH118 - texts
    for place in environment.get("PATH", "").split(os.pathsep):
        is_environment = os.path.exists(os.path.join(os.path.dirname(place), "pyvenv.cfg"))  # noqa: PTH110, PTH118, PTH120
        places.append(os.path.dirname(place) if is_environment else place)  # noqa: PTH120
    for place in dict.fromkeys(filter(os.path.isabs, places)):
        path = Path(os.path.realpath(place))
        if path != folder and path.is_relative_to(folder):
            yield str(path)


def _modules(folder: Path) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            name, _, end = entry.name.partition(".")
            is_module = end in ("py", "pyc", "so") or end.endswith(".so")
            if name.isidentifier() and (
                is_module or (not end and os.path.exists(os.path.join(entry.path, "__init__.py")))  # noqa: PTH110, PTH118
            ):
                yield name


def _shadowing(modules: frozenset[str]) -> Iterator[str]:
    """Yield the modules with an installed one's name."""
    folders = [path for path in sys.path if "site-packages" in path or "dist-packages" in path]
    for name in modules:
        places = (os.path.join(folder, end) for folder in folders for end in (name, f"{name}.py"))  # noqa: PTH118
        if name in sys.stdlib_module_names or any(map(os.path.exists, places)):
            yield name


def _is_settings(path: Path) -> bool:
    """Return whether this is a repository's configuration."""
    in_repository = path.parent.name == ".git" or (path.parent / "HEAD").exists()
    return path.name == "config" and in_repository and not path.is_symlink()


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _clean_own(folder: Path) -> list[str]:
    """Set aside a command's files in a new `.planck`."""
    names = [f"{entry.name} as {_set_aside(entry)}" for entry in folder.iterdir() if entry.name not in _OWN]
    return [f"This command left files in {folder.name}; they were renamed: {', '.join(names)}."] if names else []


def _has_only_samples(hooks: Path) -> bool:
    with suppress(OSError):
        return not hooks.is_symlink() and all(hook.name.endswith(".sample") for hook in hooks.iterdir())
    return False


def _clean_settings(file: Path, place: str) -> list[str]:
    """Keep the harmless lines in a new repository's configuration."""
    try:
        with open_file(file) as source:
            text = source.read(_MAX_SETTINGS + 1).decode()
        text = text if len(text) <= _MAX_SETTINGS else "\\"
    except (OSError, ValueError):
        text = "\\"
    lines = text.splitlines()
    harmless = [line for line in lines if _HARMLESS.fullmatch(line)]
    if len(harmless) == len(lines):
        return []
    with suppress(OSError):
        aside = _set_aside(file)
        with open_folder(file.parent) as folder:
            descriptor = os.open(file.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
        with os.fdopen(descriptor, "w") as new_file:
            new_file.writelines(f"{line}\n" for line in harmless)
        return [
            f"This command left settings in {place} which run programs; all are in {aside}, the harmless ones stay."
        ]
    return [f"{place} has settings which run programs; look at it."]


def _set_aside(path: Path) -> str:
    """Rename a path, and return its new name.

    Its folder is opened without following links, which another command may put there meanwhile.
    """
    if not os.access(path.parent, os.W_OK | os.X_OK):
        _give_rights(path.parent)
    with open_folder(path.parent) as folder:
        names = (f"{path.name}.set-aside-{number}" for number in count(1))
        aside = next(name for name in names if status_of(name, folder, path) is None)
        os.rename(path.name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    return aside
