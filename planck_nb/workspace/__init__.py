"""The composition root: the only place that wires configuration, sessions and agents together."""

from __future__ import annotations

from planck_nb.workspace.evaluation import EvaluationRun
from planck_nb.workspace.map_progress import MapEstimate, MapProgress
from planck_nb.workspace.map_run import MapItem, MapRun
from planck_nb.workspace.workspace import Workspace

__all__ = ["EvaluationRun", "MapEstimate", "MapItem", "MapProgress", "MapRun", "Workspace"]
