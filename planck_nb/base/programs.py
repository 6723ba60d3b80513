"""Programs and modules outside folders in which agents' commands can write."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PYTHON = os.path.realpath(sys.executable)
"""This Python with links followed, for helpers with the standard library alone.

A link in a project's environment could be replaced.
"""


class InstalledModules(MetaPathFinder):
    """A finder for installed code, which prefers installed modules.

    Otherwise a `pandas.py` which a command leaves in the working directory would run in this process, in place of the
    installed one. Other code finds modules as usual.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a top-level module in the other folders."""
        if path is not None or not is_installed(_importer()):
            return None
        here = os.path.realpath(os.curdir)
        folders = [folder for folder in sys.path if folder and os.path.realpath(folder) != here]
        return PathFinder.find_spec(fullname, folders, target)

    def install(self) -> None:
        """Use this finder before all others."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Undo `install`."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


installed_modules = InstalledModules()
"""The finder for this process."""

PACKAGES = (
    "aiohttp anywidget certifi docstring_parser duckdb filelock imagesize ipywidgets jsonschema markdown_it matplotlib "
    "mcp nest_asyncio2 pandas polars pyarrow pydantic pygments tomlkit yaml"
).split()
"""Packages which planck_nb imports, as modules."""


def hidden_sentence(names: Iterable[str] = PACKAGES) -> str:
    """Return a sentence about packages hidden by files beside the notebook.

    Python prefers a `pandas.py` there, or beside a script, to the package, and code which needs the package fails.

    Args:
        names: The packages.

    Returns:
        The sentence, for example "The package mcp is hidden by ./mcp.py; rename that file, and start again."; empty
        if this process has or would import each package itself.
    """
    files = {name: file for name in names if (file := _hiding_file(name)) is not None}
    if not files:
        return ""
    packages = " and ".join(files)
    is_one = len(files) == 1
    return (
        f"The package{'' if is_one else 's'} {packages} {'is' if is_one else 'are'} hidden by "
        f"{' and '.join(files.values())}; rename {'that file' if is_one else 'those files'}, and start again."
    )


def _hiding_file(name: str) -> str | None:
    """Return the file imported in place of a package, for people."""
    if (module := sys.modules.get(name)) is not None:
        file = getattr(module, "__file__", None)
    elif any(isinstance(finder, InstalledModules) for finder in sys.meta_path):
        return None
    else:
        spec = PathFinder.find_spec(name)
        file = None if spec is None else spec.origin
    if not isinstance(file, str) or is_installed(file):
        return None
    here = Path.cwd()
    path = Path(file) if Path(file).stem != "__init__" else Path(file).parent
    if path.parent.resolve() not in {here.resolve(), Path(sys.path[0] or ".").resolve()}:
        return None
    return f"./{path.name}" if path.parent.resolve() == here.resolve() else str(path)


def _importer() -> str:
    """Return the file whose code imports a module."""
    frame = sys._getframe(2)  # noqa: SLF001 - the only way
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_filename


def is_installed(file: str) -> bool:
    """Return whether a source file belongs to installed code.

    This package and the standard library count, besides the installed packages.
    """
    return file.startswith(_OWN_FOLDERS) or "site-packages" in file or "dist-packages" in file


_OWN_FOLDERS = (str(Path(__file__).parents[1]) + os.sep, os.path.dirname(os.__file__) + os.sep)  # noqa: PTH120 - a text
"""This package's folder and the standard library's."""


def find_program(name: str, *, search_path: str | None = None, writable: Iterable[Path] = ()) -> str | None:
    """Find a program in PATH, except in folders where commands can write.

    The search is done once for each name and PATH, so a program which a command leaves anywhere is never used.

    Args:
        name: The program's name.
        search_path: The variable PATH; by default this process's own.
        writable: Folders where commands can write, besides the working directory.

    Returns:
        Its absolute path; None without one.
    """
    folders = [Path(os.path.realpath(folder)) for folder in (Path.cwd(), *writable)]
    folders = [folder for folder in folders if folder != Path(folder.anchor)]
    search_path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    return next((path for path in _places(name, search_path) if not _is_in(path, folders)), None)


@lru_cache(maxsize=64)
def _places(name: str, search_path: str) -> tuple[str, ...]:
    paths = (os.path.join(folder, name) for folder in search_path.split(os.pathsep) if os.path.isabs(folder))  # noqa: PTH117, PTH118 - strings are faster
    return tuple(path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))  # noqa: PTH113


def _is_in(path: str, folders: Iterable[Path]) -> bool:
    places = (Path(os.path.realpath(os.path.dirname(path))), Path(os.path.realpath(path)))  # noqa: PTH120
    return any(place.is_relative_to(folder) for place in places for folder in folders)
