"""Deprecated names of 0.1.0 for `planck_nb.jupyter.charts`."""

from __future__ import annotations

import warnings

from planck_nb.jupyter import charts

_RENAMED = {"Picture": "Chart", "timeline_picture": "timeline_chart", "usage_picture": "usage_chart"}


def __getattr__(name: str) -> object:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"planck_nb.jupyter.pictures.{name} is now planck_nb.jupyter.charts.{_RENAMED[name]}.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(charts, _RENAMED[name])
