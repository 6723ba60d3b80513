"""Finds out how many rows of a view a statement needs, so that the view reads no other texts."""

from __future__ import annotations

from typing import Any

_ALL_ROWS = ("where_clause", "group_sets", "having", "qualify", "sample")
_CHANGED_STAR = ("replace_list", "columns", "expr")


def rows_needed(select: dict[str, Any], view: str) -> int | None:
    """Return the highest number of rows of a view that a statement needs.

    Args:
        select: The parsed statement, as DuckDB's `json_serialize_sql` describes it.
        view: The name of the view.

    Returns:
        The sum of limit and offset for `SELECT columns FROM view LIMIT number OFFSET number`. None for every other
        statement: an order, a condition or a function may need all rows.
    """
    source, modifiers = select.get("from_table") or {}, select.get("modifiers") or []
    if source.get("type") != "BASE_TABLE" or source["table_name"].lower() != view or source.get("sample"):
        return None
    if any(select.get(part) for part in _ALL_ROWS) or select.get("aggregate_handling") != "STANDARD_HANDLING":
        return None
    if select["cte_map"]["map"]:  # may read the view, too
        return None
    if not all(map(_is_column, select["select_list"])):
        return None
    if [(modifier.get("type"), modifier.get("limit_type")) for modifier in modifiers] != [
        ("LIMIT_MODIFIER", "ROW_COUNT")
    ]:
        return None
    limit, offset = modifiers[0].get("limit"), modifiers[0].get("offset")
    counts = [_constant(expression) for expression in (limit, offset) if expression is not None]
    return None if limit is None or None in counts else sum(filter(None, counts))


def _is_column(expression: dict[str, Any]) -> bool:
    if expression["class"] == "STAR":
        return not any(expression.get(part) for part in _CHANGED_STAR)
    return bool(expression["class"] == "COLUMN_REF")


def _constant(expression: dict[str, Any]) -> int | None:
    literal = expression.get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" and literal["text"].isdecimal() else None
