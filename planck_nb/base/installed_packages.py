"""Command for installing an extra."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
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
