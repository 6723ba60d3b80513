"""Exports a session as one file, and imports it from the format that has all its data.

Rows hidden by a rewind are left out. JSONL is complete and can be imported; the other formats are for reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from planck_nb.base.errors import SessionError, SessionFormatError
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import process_secrets, redact_rows
from planck_nb.sessions.database.paging import rows_of
from planck_nb.sessions.directory import (
    SessionInfo,
    find_by_id,
    list_sessions,
    make_sessions_directory,
    new_session_info,
    numbered_name,
    unused_name,
)
from planck_nb.sessions.exports.export_documents import WRITERS, ExportContent
from planck_nb.sessions.exports.export_tasks import task_lines, team_names
from planck_nb.sessions.exports.import_notice import import_notice
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.records import read_records, visible_records

ExportFormat: TypeAlias = Literal["jsonl", "markdown", "html", "ipynb"]
"""The formats that a session can be exported to."""


def export_session(session: SessionInfo, form: ExportFormat) -> str:
    """Export a session as text, also while a process writes it.

    Secrets in it are replaced, because files are passed on: the journal has what the user and the model wrote.

    Args:
        session: The session.
        form: "jsonl", "markdown", "html" or "ipynb".

    Returns:
        The content of a file in that format.

    Raises:
        SessionFormatError: The journal was written by a newer version.
        SessionError: There is no such format, or the session cannot be read.
    """
    if form not in get_args(ExportFormat):
        raise SessionError(
            f"A session cannot be exported to {form!r}; choose one of {', '.join(get_args(ExportFormat))}."
        )
    try:
        # An import refuses rows that readers leave out or complete. Documents leave them out when they decode them.
        visible: Iterable[JsonObject] = visible_records(read_records(session.path))
        if form == "jsonl":
            visible = filter(codec.is_readable, visible)
        records = redact_rows(map(codec.completed, visible), process_secrets())
    except OSError as error:
        raise SessionError(f"Session {session.name!r} cannot be read ({error.strerror}); was it deleted?") from error
    if form == "jsonl":
        header = codec.Header(session.id, session.name, session.created, parent=session.parent, copied=session.copied)
        return b"".join([codec.encode_header(header), *map(codec.encode_record, records)]).decode()
    names = team_names(records)
    return WRITERS[form](ExportContent(session, rows_of(records), names, task_lines(records, names)))


def import_session(directory: Path, file: Path, *, name: str | None = None) -> SessionInfo:
    """Create a session from an exported JSONL file.

    Rows keep their ids. If the directory has the session that was exported, the new one counts as its fork, and
    otherwise as a fork of that session's parent, so that no cost is counted twice.

    Args:
        directory: The sessions directory, which is created if it does not exist.
        file: The exported file.
        name: The name of the new session, which no other session may have; None uses the exported name, with a number
            if another session has it.

    Returns:
        The new session. Its `notice` is a sentence about the rules, addresses, tools and grants that wait until the
        user trusts it; empty if there are none.

    Raises:
        SessionFormatError: The file is not such an export, or is damaged.
        SessionError: The file cannot be read, the session cannot be written, or `name` is in use.
    """
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise SessionError(f"{file} cannot be read ({error.strerror}); check the path.") from error
    header = _header(lines[0] if lines else b"", file)
    records = [_checked(line, number, file) for number, line in enumerate(lines[1:], 2)]
    ids = [record["id"] for record in records]
    if ids != sorted(set(ids)) or any(row_id < 1 for row_id in ids):
        raise SessionFormatError(f"The rows of {file} are out of order; export the session again.")
    info = new_session_info(directory, new_id(), _name(directory, header, name))
    fresh = codec.Header(info.id, info.name, header.created, **_origin(directory, header, ids))
    try:
        make_sessions_directory(directory)
    except OSError as error:
        raise SessionError(f"{directory} cannot be created ({error.strerror}); choose another folder.") from error
    JournalFile.create_with_content(info.path, fresh, b"".join(map(codec.encode_record, records))).close()
    notice = import_notice(info.name, visible_records(records))
    return replace(find_by_id(directory, info.id), notice=notice)


def _name(directory: Path, header: codec.Header, name: str | None) -> str:
    return numbered_name(directory, header.name) if name is None else unused_name(directory, name)


def _header(line: bytes, file: Path) -> codec.Header:
    record = codec.parse_line(line)
    if record is not None:
        codec.check_version(record)
    try:
        return codec.decode_header(line)
    except SessionFormatError as error:
        raise SessionFormatError(
            f"{file} does not begin like an exported session; only sessions exported as .jsonl can be imported."
        ) from error


def _origin(directory: Path, header: codec.Header, ids: list[int]) -> JsonObject:
    copies = [(header.session_id, ids[-1] if ids else 0), (header.parent, header.copied)]
    there = {session.id for session in list_sessions(directory)}
    return next(({"parent": origin, "copied": copied} for origin, copied in copies if origin in there), {})


def _checked(line: bytes, number: int, file: Path) -> JsonObject:
    record = codec.parse_line(line)
    if record is None:
        raise SessionFormatError(f"Line {number} of {file} is damaged; export the session again.")
    codec.check_version(record)
    try:
        if record["kind"] == "metadata":
            dict(record["data"])
        else:
            _check_row(record)
    except (KeyError, TypeError, ValueError) as error:
        raise SessionFormatError(
            f"Line {number} of {file} is not a row of a session; export the session again."
        ) from error
    return record


def _check_row(record: JsonObject) -> None:
    """Raise KeyError, TypeError or ValueError for a row that readers cannot use. An export contains no rewinds."""
    datetime.fromisoformat(record["ts"])
    time = codec.event_of(record, session_id="", seq=0).time
    kinds = ((record["agent_id"], str), (record["turn"], int), (time, int | float))
    whole = codec.completed(record) is record and all(isinstance(value, kind) for value, kind in kinds)
    if record["kind"] not in {"message", "event"} or not whole:
        raise ValueError(record["kind"])
