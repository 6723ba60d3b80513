"""Connections to DuckDB are reused."""

from __future__ import annotations

import os

import duckdb
import pytest

from planck_nb.sessions.database.duckdb import idle_connection


def test_a_connection_is_used_again_but_by_one_at_a_time() -> None:
    with idle_connection() as first, idle_connection() as second:
        assert second is not first
    with idle_connection() as again:
        assert again in {first, second}


def test_a_connection_that_had_an_error_is_not_used_again() -> None:
    with pytest.raises(duckdb.Error), idle_connection() as failed:
        failed.execute("create table left_behind (a integer); select nonsense")
    with idle_connection() as next_one:
        assert next_one is not failed
        assert next_one.execute("select count(*) from duckdb_tables()").fetchone() == (0,)


def test_only_a_few_are_kept() -> None:
    with idle_connection() as a, idle_connection() as b, idle_connection() as c:
        pass
    with idle_connection() as d, idle_connection() as e, idle_connection() as f:
        assert len({a, b, c} & {d, e, f}) == 2


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_uses_none_of_its_parent() -> None:
    with idle_connection() as kept:
        pass
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with idle_connection() as own:
                code = 0 if own is not kept and own.execute("select 1").fetchone() == (1,) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with idle_connection() as again:
        assert again.execute("select 1").fetchone() == (1,)
