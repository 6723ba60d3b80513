"""Static SVG charts for a session: its usage, and a timeline."""

from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.charts.timeline import timeline_chart
from planck_nb.jupyter.charts.usage import usage_chart

__all__ = ["Chart", "timeline_chart", "usage_chart"]
