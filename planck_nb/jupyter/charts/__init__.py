"""Static SVG charts for a session: its usage, and a timeline."""

from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.charts.timeline import timeline_chart
from planck_nb.jupyter.charts.usage import UsageTables, unpriced_note, usage_tables

__all__ = ["Chart", "UsageTables", "timeline_chart", "unpriced_note", "usage_tables"]
