"""Durable sessions: a journal for each session, materialized in DuckDB and queried with SQL."""

from planck_nb.sessions.directory import (
    SessionInfo,
    delete_session,
    find_by_id,
    find_by_name,
    find_session,
    list_sessions,
    open_in,
)
from planck_nb.sessions.export import export_session, import_session
from planck_nb.sessions.paging import Page, Row
from planck_nb.sessions.query import VIEWS, Query, query, query_async, query_into
from planck_nb.sessions.reader import SessionReader
from planck_nb.sessions.search import search, search_async, terms
from planck_nb.sessions.session import Session, SessionLog
from planck_nb.sessions.vacuum import compact_store

__all__ = [
    "VIEWS",
    "Page",
    "Query",
    "Row",
    "Session",
    "SessionInfo",
    "SessionLog",
    "SessionReader",
    "compact_store",
    "delete_session",
    "export_session",
    "find_by_id",
    "find_by_name",
    "find_session",
    "import_session",
    "list_sessions",
    "open_in",
    "query",
    "query_async",
    "query_into",
    "search",
    "search_async",
    "terms",
]
