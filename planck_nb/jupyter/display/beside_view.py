"""HTML that is saved in the same cell as a live view, and takes its place where there is none."""

from __future__ import annotations

_WITHOUT_VIEW = (
    "<style>.jp-OutputArea-child:has(> .jupyter-widgets):has(~ .jp-OutputArea-child .{marker})"
    ":not(:has(> .jupyter-widgets > *)){{display:none}}</style>"
)
"""Hides the output of the live view where it contains no element: in a notebook that is opened after its kernel has
ended, JupyterLab would write above the HTML that the widget's model was not found."""


def beside_view(html: str, marker: str) -> str:
    """Prepare HTML for an output that comes after that of a live view in the same cell.

    Args:
        html: One `div` element.
        marker: A class for it, by which the live view finds it; it contains no spaces.

    Returns:
        The element with the class, and with a style that hides the live view where it cannot be loaded.
    """
    marked = html.replace("<div", f'<div class="{marker}"', 1)
    return f"{marked.removesuffix('</div>')}{_WITHOUT_VIEW.format(marker=marker)}\n</div>"
