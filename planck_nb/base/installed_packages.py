"""Needed packages: their installation, and files which hide them."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

_THIS = "planck-nb"


def install_command(extra: str) -> str:
    """Return the command for installing an extra.

    A clone and a wheel are unknown to the package index, so their extras cannot come from it. Their place is in their
    [direct_url.json](https://packaging.python.org/en/latest/specifications/direct-url/).

    Args:
        extra: The extra's name, such as "mcp".

    Returns:
        Words to follow "run", such as "`pip install -e '.[mcp]'` in /home/ada/planck-nb".
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
    """Return the file or folder which hides an installed package.

    A notebook's folder is searched first, so a file there can have a package's name.

    Args:
        package: The package's name.

    Returns:
        The path, relative to the working directory if it is there; empty for a package in its own place.
    """
    try:
        place = Path(str(distribution(package).locate_file(package)))
        spec = find_spec(package)
    except (PackageNotFoundError, ValueError):  # not installed, or not imported from a file
        return ""
    origins = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    file = next((Path(origin) for origin in origins if origin), None)
    if file is None or not place.exists() or file.is_relative_to(place):
        return ""
    file = file.parent if file.name == "__init__.py" else file
    return f"./{file.relative_to(Path.cwd())}" if file.is_relative_to(Path.cwd()) else str(file)


def hidden_by(package: str) -> str:
    """Return a sentence's end, about the file which hides a package.

    The result is empty for a package in its own place.
    """
    file = hiding_file(package)
    if not file:
        return ""
    restart = ", and restart the kernel" if package in sys.modules else ""
    return f"is hidden by {file}; rename that file or folder{restart}"
