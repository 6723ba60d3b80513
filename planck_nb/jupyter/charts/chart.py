"""A static chart in a cell's output."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.rendering.plain_output import for_terminal

if TYPE_CHECKING:
    import pandas as pd


class Chart:
    """A chart and its data.

    A cell shows it as an image, so an untrusted notebook shows it, too: from inline SVG, such a notebook keeps only the
    text. `IPython.display.HTML(chart.svg)` shows it inline, in the theme's colours.

    Args:
        svg: The SVG markup.
        frame: The chart's table.
        summary: The chart in a few words, for output without images.
        description: The chart in sentences, for screen readers.
    """

    def __init__(self, svg: str, frame: pd.DataFrame, *, summary: str, description: str) -> None:
        self.svg = svg
        self.frame = frame
        self._summary = summary
        self._description = description

    def save(self, path: str | Path) -> Path:
        """Write the chart to an SVG file.

        Args:
            path: The file; `~` is the home directory. An existing file is replaced.

        Returns:
            The file's path.

        Raises:
            OSError: The file cannot be written.
        """
        path = Path(path).expanduser()
        path.write_text(self.svg, encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return for_terminal(self._summary)

    def _repr_mimebundle_(self, **_filters: object) -> dict[str, str]:
        data = b64encode(self.svg.encode()).decode()
        image = (
            f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(self._description)}"'
            ' style="max-width:100%;min-width:360px;height:auto">'
        )
        return {"image/svg+xml": self.svg, "text/html": image, "text/plain": repr(self)}
