"""Puts the JupyterLab extension into wheels and editable installations, with the files of the view.

The server lets browsers keep what is below `static/` for a year, so each name there has a digest of its file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "planck_nb" / "jupyter" / "static"
WIDGETS = HERE.parent / "planck_nb" / "jupyter" / "live"
"""Contains the small widgets' scripts."""
SETTINGS = HERE / "settings"
"""Contains each plugin's buttons, menus and shortcuts."""
EXTENSION = "@planck-nb/lab"
CODE = "lab.js"
CONTAINER = "remoteEntry.js"
"""What JupyterLab loads first; it loads `CODE`."""


def extension_folder(built: Path) -> Path:
    """Return where the extension is built, given where the view is."""
    return HERE / "built" if built == STATIC else built / "extension"


def digest_of(file: Path) -> str:
    """Return the name by which the browser requests a file, without the suffix."""
    content = file.read_bytes().replace(b"\r\n", b"\n")
    return f"{file.stem}-{hashlib.sha256(content).hexdigest()[:12]}"


def extension_files(view: Path = STATIC) -> dict[Path, str]:
    """Return the files of the extension, each with its path below the folder of the extension."""
    folder = extension_folder(view)
    code = [*folder.glob("*.js"), *view.glob("*.js"), *WIDGETS.glob("*.js")]
    named = {file: f"static/{digest_of(file)}.js" for file in sorted(code)}
    schemas = {file: f"schemas/{EXTENSION}/{file.name}" for file in sorted(SETTINGS.glob("*.json"))}
    return {**named, **schemas, **{file: file.name for file in sorted(folder.glob("*.json"))}}


class ExtensionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the files where Jupyter looks for extensions."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel, also to that of an editable installation."""
        for file, path in extension_files().items():
            build_data["shared_data"][str(file)] = f"share/jupyter/labextensions/{EXTENSION}/{path}"
