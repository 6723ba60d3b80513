"""Saved HTML beside a live view, in place of a missing one."""

from __future__ import annotations

_WITHOUT_VIEW = (
    "<style>.jp-OutputArea-child:has(> .jupyter-widgets):has(~ .jp-OutputArea-child .{marker})"
    ":not(:has(> .jupyter-widgets > *)){{display:none}}</style>"
)
"""A style which hides the live view's output where it is empty.

In a notebook which is opened after its kernel has ended, JupyterLab would write above the HTML about a missing model.
"""


def beside_view(html: str, marker: str) -> str:
    """Prepare HTML for an output after a live view.

    Both outputs are in the same cell.

    Args:
        html: A single `div` element.
        marker: A class for it, by which the live view finds it; it is without spaces.

    Returns:
        The element with the class, and with a style which hides an unloaded live view.
    """
    element = html.replace("<div", f'<div class="{marker}"', 1)
    return f"{element.removesuffix('</div>')}{_WITHOUT_VIEW.format(marker=marker)}\n</div>"
