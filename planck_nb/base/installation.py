"""This installation: where it came from, and how to add to it."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "planck-nb"


def own_distribution() -> Distribution | None:
    """Return the installed package's metadata, None where it runs from bare files."""
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return the command which adds an extra to this installation.

    A package from a folder is installed from there again: the name alone would mean another package.

    Args:
        extra: The extra, such as "mcp".

    Example:
        >>> "[mcp]" in install_command("mcp")
        True
    """
    folder = _source_folder()
    package = shlex.quote(f"{folder or NAME}[{extra}]")
    return pip_command(f"-e {package}" if folder is not None else package)


def pip_command(arguments: str) -> str:
    """Return a command which installs packages for this Python.

    Args:
        arguments: What follows `install`, quoted for a shell.
    """
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # as in environments made by uv
        return f"uv pip install --python {python} {arguments}"
    return f"{python} -m pip install {arguments}"


def _source_folder() -> Path | None:
    """Return the folder of an editable installation.

    Its address is in `direct_url.json`: https://packaging.python.org/en/latest/specifications/direct-url/
    """
    metadata = own_distribution()
    try:
        origin = json.loads((metadata and metadata.read_text("direct_url.json")) or "{}")
        is_editable, url = origin.get("dir_info", {}).get("editable", False), urlsplit(origin.get("url", ""))
    except (ValueError, AttributeError):
        return None
    return Path(unquote(url.path)) if is_editable and url.scheme == "file" else None
