"""The pyplot figures that a call has made, and no others. Matplotlib is not imported here."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from planck_nb.agent.calling.images import image_of
from planck_nb.ai.messages import ImagePart

_FIGURES = "matplotlib._pylab_helpers"
_INLINE = "matplotlib_inline.backend_inline"


class OwnFigures:
    """The open figures of one call.

    Matplotlib keeps the open figures of the whole process. While code of the call runs, it sees those of the call only.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[Any, Any] = OrderedDict()
        self._to_draw: tuple[list[Any], bool] = ([], False)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Let the code in the block see and make only figures of this call."""
        others = _exchange(self._open)
        to_draw = _exchange_drawing(self._to_draw)
        try:
            yield
        finally:
            # Matplotlib may have been imported in the block; then there were no others.
            self._open = _exchange(OrderedDict() if others is None else others) or OrderedDict()
            self._to_draw = _exchange_drawing(to_draw or ([], False)) or ([], False)

    def close_all(self, *, shown: object = None) -> Iterator[ImagePart]:
        """Draw the open figures and close them. Call it inside `current`.

        Args:
            shown: A figure that was shown already, and is only closed.

        Yields:
            The figures as images. Drawing may run the user's code, and raise what that raises.
        """
        figures = _figures()
        if figures is None or not figures:
            return
        try:
            for manager in list(figures.values()):
                if manager.canvas.figure is not shown:
                    image = image_of(manager.canvas.figure)
                    if image is not None:
                        yield image
        finally:
            sys.modules[_FIGURES].Gcf.destroy_all()

    @staticmethod
    def discard() -> None:
        """Close the open figures. Call it inside `current`."""
        if _figures():
            sys.modules[_FIGURES].Gcf.destroy_all()


def _figures() -> OrderedDict[Any, Any] | None:
    module = sys.modules.get(_FIGURES)
    return None if module is None else module.Gcf.figs


def _exchange(figures: OrderedDict[Any, Any]) -> OrderedDict[Any, Any] | None:
    """Make these the open figures. Returns the previous ones, None without Matplotlib."""
    module = sys.modules.get(_FIGURES)
    if module is None or not hasattr(module, "Gcf"):  # its import was interrupted
        return None
    before: OrderedDict[Any, Any] = module.Gcf.figs
    module.Gcf.figs = figures
    return before


def _exchange_drawing(state: tuple[list[Any], bool]) -> tuple[list[Any], bool] | None:
    """Exchange what the inline backend is going to draw when the cell ends."""
    show = getattr(sys.modules.get(_INLINE), "show", None)
    if show is None:
        return None
    before = (show._to_draw, show._draw_called)  # noqa: SLF001 - the backend has no other way
    show._to_draw, show._draw_called = state  # noqa: SLF001
    return before
