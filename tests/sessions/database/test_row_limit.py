"""A statement that needs a few rows of `tool_calls` has no others joined, and gets the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from support.history import write_history

from planck_nb.sessions import query
from planck_nb.sessions.database.queries import rows_needed


@pytest.mark.parametrize(
    ("statement", "needed"),
    [
        ("select * from tool_calls limit 10", 10),
        ("from Tool_Calls limit 3", 3),
        ("select name, ts from tool_calls limit 10 offset 5", 15),
        ("select * exclude (result) from tool_calls limit 0", 0),
        ("select * from tool_calls", None),
        ("select * from tool_calls offset 3", None),
        ("select * from tool_calls limit 10%", None),
        ("select * from tool_calls limit (select 3)", None),
        ("select * from tool_calls order by ts limit 3", None),
        ("select * from tool_calls where name = 'read' limit 3", None),
        ("select * from tool_calls qualify row_number() over () = 1 limit 3", None),
        ("select * from tool_calls tablesample 3 limit 3", None),
        ("select distinct name from tool_calls limit 3", None),
        ("select count(*) from tool_calls limit 3", None),
        ("select name from tool_calls group by name limit 3", None),
        ("select name from tool_calls group by all limit 3", None),
        ("select * replace (max(ts) as ts) from tool_calls limit 3", None),
        ("select columns('n.*') from tool_calls limit 3", None),
        ("select unnest([1, 2]) from tool_calls limit 3", None),
        ("with t as (select count(*) from tool_calls) select * from tool_calls limit 3", None),
        ("select * from tool_calls, messages limit 3", None),
        ("select * from (select * from tool_calls) limit 3", None),
        ("select * from messages limit 3", None),
        ("(select name from tool_calls limit 3) union all (select name from tool_calls limit 1)", None),
    ],
)
def test_how_many_rows_a_statement_needs(statement: str, needed: int | None) -> None:
    with duckdb.connect() as connection:
        parsed = connection.execute("select json_serialize_sql($1)", [statement]).fetchone()
    assert parsed is not None
    assert rows_needed(json.loads(parsed[0])["statements"][0]["node"], "tool_calls") == needed


@pytest.mark.slow
def test_a_limited_statement_has_as_many_rows_of_the_view_as_there_are(tmp_path: Path) -> None:
    write_history(tmp_path, 3, 40)
    calls = query(tmp_path, "select * from tool_calls")
    found = set(map(tuple, calls.astype(str).to_numpy()))
    assert len(found) == len(calls) > 20
    for limit, offset in [(0, 0), (1, 0), (7, 5), (20, len(calls) - 3), (1000, 0)]:
        some = query(tmp_path, f"select * from tool_calls limit {limit} offset {offset}")
        assert len(some) == min(limit, len(calls) - offset)
        assert set(map(tuple, some.astype(str).to_numpy())) <= found
    assert query(tmp_path, "select count(*) as n from (select * from tool_calls limit 5), tool_calls").n[0] == 5 * len(
        calls
    )
