"""A sidecar's source files: its own modules, their changes and reloads."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

from planck_nb.base.errors import ConfigError

_INSTALLED = ("site-packages", "dist-packages")
_LIBRARIES = ("planck_nb", "mcp", "mcp_types")

Stamp = tuple[int, int, int]
"""A file's change time in nanoseconds, size and inode; zeros if missing."""


class Sources:
    """A sidecar's modules: those in its package or, unless installed, beside it.

    Args:
        module: Its entry's module.
        fixed_folder: A folder with files to load only once, except in its `.planck`; empty for no such folder.
        start: The start in nanoseconds: files there which were written later are not loaded; 0 for now.
        digests: Digests for sources which another process has loaded.

    Raises:
        ConfigError: If the module is missing.
    """

    def __init__(
        self, module: str, *, fixed_folder: str = "", start: int = 0, digests: Mapping[str, str] | None = None
    ) -> None:
        self._module = module
        self._top = module.partition(".")[0]
        self._root = _root(self._top)
        self._finder = _FreshSourceFinder(self)
        self._fixed_folder = None if not fixed_folder else Path(fixed_folder).resolve()
        self._start = start or time.time_ns()
        self.files: set[str] = set()
        """The files which were imported, or could not be."""
        self.digests = dict(digests or {})
        """The sources' SHA-256 digests, by file."""

    def owns(self, name: str, file: str) -> bool:
        """Return whether a module belongs to the sidecar."""
        if name.partition(".")[0] in _LIBRARIES or name == "__main__":
            return False
        path = Path(file)
        if not path.is_relative_to(self._root):
            return False
        return not any(part in _INSTALLED for part in path.relative_to(self._root).parts)

    def stamps(self) -> dict[str, Stamp]:
        """Return the files' state, to be compared with an earlier one."""
        return {file: _stamp(file) for file in self.files}

    def changed(self) -> list[str]:
        """Return the changed files which must not be loaded again."""
        return [file for file in filter(self._is_fixed, self.files) if self.digests.get(file) != _digest(_read(file))]

    def keep(self, file: str, source: bytes) -> None:
        """Note a file's source before its code is run.

        Raises:
            ImportError: If it must not be loaded again, and has changed, or if it was written after the start.
        """
        digest = _digest(source)
        if self._is_fixed(file) and (self.digests.get(file) or self._first_digest(file, digest)) != digest:
            raise ImportError(changed_sentence([file]))
        self.digests[file] = digest

    def _first_digest(self, file: str, digest: str) -> str:
        """Return a new file's digest, empty if written later.

        Only the system sets the time when a file's status changed.
        """
        with suppress(OSError):
            return digest if Path(file).stat().st_ctime_ns <= self._start else ""
        return ""

    def _is_fixed(self, file: str) -> bool:
        if self._fixed_folder is None:
            return False
        path = Path(file).resolve()
        return path.is_relative_to(self._fixed_folder) and not path.is_relative_to(self._fixed_folder / ".planck")

    def load(self) -> ModuleType:
        """Import the module, and return it.

        Its own modules are compiled from their sources.
        """
        if self._finder not in sys.meta_path:  # it stays, because functions import modules, too
            sys.meta_path.insert(0, self._finder)
        return importlib.import_module(self._module)

    def load_again(self) -> ModuleType:
        """Import the sidecar's modules again, or leave them as they are.

        They stay in use if this raises.
        """
        modules = {
            name: module
            for name, module in list(sys.modules.items())
            if (file := getattr(module, "__file__", None)) and self.owns(name, file)
        }
        for name in modules:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            return self.load()
        except BaseException:
            sys.modules.update(modules)
            raise


class _FreshSourceFinder(MetaPathFinder):
    """A finder for a sidecar's modules, compiled from their sources.

    Python uses cached bytecode if the source still has its former modification time in seconds and its former size; an
    edit within the same second can leave both unchanged.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if not self._sources.owns(fullname, spec.origin):
            return None
        self._sources.files.add(spec.origin)
        spec.loader = _FreshLoader(self._sources, fullname, spec.origin)
        return spec


class _FreshLoader(SourceFileLoader):
    """A loader which compiles the source at each import."""

    def __init__(self, sources: Sources, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.sources = sources

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self.sources.keep(path, source)
        return self.source_to_code(source, path)


def changed_sentence(files: Iterable[str]) -> str:
    """Return a sentence about changed files."""
    names = ", ".join(sorted(os.path.basename(file) for file in files))  # noqa: PTH119 - no paths
    return (
        f"{names} changed after this sidecar was started, and commands can write there; look at the change, then "
        "restart the sidecar."
    )


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def _root(top: str) -> Path:
    """Return the folder with the sidecar's modules, or its only file."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"The sidecar's module {top} cannot be found: {error}.") from error
    if spec is None:
        raise ConfigError(
            f"There is no module {top}; install the sidecar, or start it in the folder where {top}.py is."
        )
    folders = list(spec.submodule_search_locations or ())
    place = Path(folders[0] if folders else spec.origin or top)
    return place if place.parent.name in _INSTALLED else place.parent


def _stamp(file: str) -> Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116 - at each call
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
