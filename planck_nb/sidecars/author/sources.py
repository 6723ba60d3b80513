"""A sidecar's source files: its own modules, their changes and reloads."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
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

    Raises:
        ConfigError: If the module is missing.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._top = module.partition(".")[0]
        self._root = _root(self._top)
        self._finder = _FreshSourceFinder(self)
        self.files: set[str] = set()
        """The files which were imported, or could not be."""

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
        spec.loader = _FreshLoader(fullname, spec.origin)
        return spec


class _FreshLoader(SourceFileLoader):
    """A loader which compiles the source at each import."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


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
