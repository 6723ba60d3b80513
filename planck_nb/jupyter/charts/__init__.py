"""Charts of a session as static SVG: its usage, and a timeline of its agents."""

from planck_nb.jupyter.charts.chart import Picture
from planck_nb.jupyter.charts.timeline import timeline_picture
from planck_nb.jupyter.charts.usage import usage_picture

__all__ = ["Picture", "timeline_picture", "usage_picture"]
