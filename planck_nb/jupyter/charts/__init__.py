"""Static SVG charts: usage, a timeline, and scores."""

from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.charts.scores import scores_chart
from planck_nb.jupyter.charts.timeline import timeline_chart
from planck_nb.jupyter.charts.usage import UsageTables, unpriced_note, usage_tables

__all__ = ["Chart", "UsageTables", "scores_chart", "timeline_chart", "unpriced_note", "usage_tables"]
