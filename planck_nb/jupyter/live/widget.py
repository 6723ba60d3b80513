"""The base class for widgets."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

_DIGEST_CHARACTERS = 12


class Widget(anywidget.AnyWidget):
    """A widget with its script in a file.

    The kernel sends the script. A page with a strict policy refuses it, so there the JupyterLab extension has the file.
    """

    _esm: Any
    script: ClassVar[Path]
    """The script, which is also `_esm`."""
    extension_url: ClassVar[str] = ""
    """The extension's address for a page with a strict policy, else empty."""
    layout = traitlets.Any(None).tag(sync=True)
    """Always None: the widgets' style sheets have all they need.

    A layout would be another model and view in each page, with listeners for forty properties while the page is open.
    """

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - traits of any type
        if Widget.extension_url:
            digest = digest_of(self.script.read_bytes())
            self._esm = f"{Widget.extension_url}/{self.script.stem}-{digest}.js"
        super().__init__(**values)


def digest_of(code: bytes) -> str:
    """Return a script's digest, as in its file's name.

    Args:
        code: The script.
    """
    return hashlib.sha256(code.replace(b"\r\n", b"\n")).hexdigest()[:_DIGEST_CHARACTERS]
