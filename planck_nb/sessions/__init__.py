"""Durable sessions: a journal for each session, materialized in DuckDB and queried with SQL."""

from planck_nb.sessions.damage import Damage, read_damage
from planck_nb.sessions.database.first_reading import reading_reports
from planck_nb.sessions.database.paging import Page, Row
from planck_nb.sessions.database.queries import VIEWS, Query, query, query_async, query_into
from planck_nb.sessions.database.text_search import search, search_async, search_sql, terms
from planck_nb.sessions.database.vacuum import compact_store, estimate_compaction
from planck_nb.sessions.directory import (
    SessionInfo,
    find_by_id,
    find_by_name,
    find_session,
    list_sessions,
    session_files,
)
from planck_nb.sessions.exports.export import ExportFormat, export_format, export_session, import_session, write_export
from planck_nb.sessions.housekeeping import delete_session, last_used_first
from planck_nb.sessions.journal.branch import Branch
from planck_nb.sessions.journal.signing import Signer
from planck_nb.sessions.lock import open_in
from planck_nb.sessions.members import AgentRecord, SessionMembers, read_members
from planck_nb.sessions.open_tasks import OpenTaskRecord, read_open_tasks
from planck_nb.sessions.reader import SessionReader
from planck_nb.sessions.session import Session, SessionLog
from planck_nb.sessions.unanswered import UnansweredPrompt, read_unanswered

__all__ = [
    "VIEWS",
    "AgentRecord",
    "Branch",
    "Damage",
    "ExportFormat",
    "OpenTaskRecord",
    "Page",
    "Query",
    "Row",
    "Session",
    "SessionInfo",
    "SessionLog",
    "SessionMembers",
    "SessionReader",
    "Signer",
    "UnansweredPrompt",
    "compact_store",
    "delete_session",
    "estimate_compaction",
    "export_format",
    "export_session",
    "find_by_id",
    "find_by_name",
    "find_session",
    "import_session",
    "last_used_first",
    "list_sessions",
    "open_in",
    "query",
    "query_async",
    "query_into",
    "read_damage",
    "read_members",
    "read_open_tasks",
    "read_unanswered",
    "reading_reports",
    "search",
    "search_async",
    "search_sql",
    "session_files",
    "terms",
    "write_export",
]
