"""Ready pictures of a session, as static SVG: what it used, and who did what when."""

from planck_nb.jupyter.charts.chart import Picture
from planck_nb.jupyter.charts.timeline import timeline_picture
from planck_nb.jupyter.charts.usage import usage_picture

__all__ = ["Picture", "timeline_picture", "usage_picture"]
