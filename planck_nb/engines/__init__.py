"""Engines: where requests to models are sent, and their answers read."""

from planck_nb.engines.dask_engine import DaskEngine

__all__ = ["DaskEngine"]
