"""Packages that this one needs: how to install them, and what hides them."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

_THIS = "planck-nb"


def install_command(extra: str) -> str:
    """Return the instruction for installing an extra, by the way in which this package was installed.

    A clone and a wheel are not known to the package index, so their extras cannot come from it. How a package was
    installed is in its [direct_url.json](https://packaging.python.org/en/latest/specifications/direct-url/).

    Args:
        extra: The extra's name, such as "mcp".

    Returns:
        Words that follow "run", such as "`pip install -e '.[mcp]'` in /home/ada/planck-nb".
    """
    try:
        source = json.loads(distribution(_THIS).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        source = {}
    path = unquote(urlsplit(source.get("url", "")).path)
    if not path or not source["url"].startswith("file:"):
        return f"`pip install '{_THIS}[{extra}]'`"
    if "dir_info" not in source:
        return f"`pip install '{path}[{extra}]'`"
    option = "-e " if source["dir_info"].get("editable") else ""
    return f"`pip install {option}'.[{extra}]'` in {path}"


def hiding_file(package: str) -> str:
    """Return the file or folder that Python finds in place of an installed package.

    A notebook's folder is searched first, so a file there can have a package's name.

    Args:
        package: The package's name.

    Returns:
        The path, relative to the working directory if it is there; empty if nothing hides the package.
    """
    try:
        installed = Path(str(distribution(package).locate_file(package)))
        spec = find_spec(package)
    except (PackageNotFoundError, ValueError):  # not installed, or not imported from a file
        return ""
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    file = next((Path(place) for place in places if place), None)
    if file is None or not installed.exists() or file.is_relative_to(installed):
        return ""
    file = file.parent if file.name == "__init__.py" else file
    return f"./{file.relative_to(Path.cwd())}" if file.is_relative_to(Path.cwd()) else str(file)


def hidden_package(package: str) -> str:
    """Return a sentence about a package that cannot be imported because something hides it; empty if nothing does."""
    file = hiding_file(package)
    if not file:
        return ""
    restart = ", and restart the kernel" if package in sys.modules else ""
    return f"The package {package} is hidden by {file}; rename that file or folder{restart}."
