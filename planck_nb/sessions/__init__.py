"""Durable sessions: a journal per session, folded into DuckDB, queried with SQL."""

from planck_nb.sessions.query import VIEWS, Query, query, query_async
from planck_nb.sessions.session import Row, Session, SessionLog
from planck_nb.sessions.store import SessionInfo, find_session, list_sessions

__all__ = [
    "VIEWS",
    "Query",
    "Row",
    "Session",
    "SessionInfo",
    "SessionLog",
    "find_session",
    "list_sessions",
    "query",
    "query_async",
]
