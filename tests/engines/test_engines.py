"""The engines pass the tests for engines."""

from __future__ import annotations

import pytest

from planck_nb.engines import DaskEngine
from planck_nb.testing.engine_tests import EngineTests


class TestThisProcess(EngineTests):
    @pytest.fixture
    def engine(self) -> None:
        """None: the client sends its requests itself."""


class TestDask(EngineTests):
    @pytest.fixture
    def engine(self, dask_engine: DaskEngine) -> DaskEngine:
        return dask_engine
