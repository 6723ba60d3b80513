"""A Dask cluster for all tests of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from planck_nb.engines import DaskEngine

pytest.register_assert_rewrite("planck_nb.testing.engine_tests")


@pytest.fixture(scope="session")
def dask_engine() -> Iterator[DaskEngine]:
    engine = DaskEngine(workers=2)
    yield engine
    asyncio.run(engine.aclose())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "engines" in item.path.parts:
            item.add_marker("process")
