"""Exports a session as one file, and imports it from the format that has all its data.

Rows hidden by a rewind are left out. JSONL is complete and can be imported; the other formats are for reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, get_args

from planck_nb.agent.events import AgentEvent, AgentStarted, Delegated, Responded, decode_event
from planck_nb.ai.server_address import shown_url
from planck_nb.base.atomic import replacing
from planck_nb.base.errors import SessionError, SessionFormatError
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import Redactor, process_secrets
from planck_nb.base.text import one_line
from planck_nb.base.visible import noun_with_names, series
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
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.records import OrderedRows
from planck_nb.sessions.journal.screening import usual_id
from planck_nb.tools.reserved_names import KERNEL_NAMES, is_reserved

ExportFormat: TypeAlias = Literal["jsonl", "markdown", "html", "ipynb"]
"""The formats that a session can be exported to."""

_ENDINGS: dict[str, ExportFormat] = {".jsonl": "jsonl", ".md": "markdown", ".html": "html", ".ipynb": "ipynb"}
"""The formats by the endings of file names."""

_SHOWN_TASK = 300
"""Characters of a task or a response that are shown; the conversations have the whole text."""

_SHOWN_EVENTS = ("agent_started", "delegated", "responded")  # a tuple, as a type may be a list

_GRANTING_EVENTS = ("agent_started", "agent_changed", "approval_decision")

_GAVE = {"ask": "asked", "delegate": "delegated to"}


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
    return b"".join(_pieces(session, form)).decode()


def _pieces(session: SessionInfo, form: ExportFormat) -> Iterator[bytes]:
    """Yield a file's content in pieces, like `export_session`."""
    try:
        if form == "jsonl":
            yield from _lines(session)
            return
        redactor = Redactor(process_secrets())
        visible = OrderedRows(session.path).visible()
        shown = (record for _, record in visible if record["kind"] == "message" or record.get("type") in _SHOWN_EVENTS)
        rows, events = [], []
        for record in map(redactor.redacted, map(codec.completed, shown)):
            rows += rows_of((record,))
            if record["kind"] == "event":
                events.append(record)
    except OSError as error:
        raise SessionError(f"Session {session.name!r} cannot be read ({error.strerror}); was it deleted?") from error
    names = team_names(events)
    for text in WRITERS[form](ExportContent(session, rows, names, task_lines(events, names))):
        yield text.encode("utf-8", "replace")


def _lines(session: SessionInfo) -> Iterator[bytes]:
    yield codec.encode_header(
        codec.Header(session.id, session.name, session.created, parent=session.parent, copied=session.copied)
    )
    redactor = Redactor(process_secrets())
    for line, record in OrderedRows(session.path).visible():
        # An import refuses rows that readers leave out or complete. Documents leave them out when they decode them.
        if not codec.is_readable(record):
            continue
        whole = codec.completed(record)
        has_escapes = b"\\u" in line or b"\\/" in line
        if whole is record and not has_escapes and not redactor.may_be_in(line.decode()):
            yield line
        else:
            yield codec.encode_record(redactor.redacted(whole))


def export_format(file: Path) -> ExportFormat:
    """Return the format which a file name's ending means.

    Args:
        file: The file.

    Returns:
        The format.

    Raises:
        SessionError: The ending means none.
    """
    form = _ENDINGS.get(file.suffix.lower())
    if form is None:
        *endings, last = _ENDINGS
        raise SessionError(
            f"{file} has no known format for a session; choose a file which ends in {', '.join(endings)} or {last}."
        )
    return form


def write_export(session: SessionInfo, file: Path, *, overwrite: bool = False) -> int:
    """Export a session to a file, whose ending decides the format.

    Args:
        session: The session.
        file: The file, which is written whole or stays as it is.
        overwrite: Whether to replace an existing file.

    Returns:
        The size in bytes.

    Raises:
        SessionError: The format is unknown, the session cannot be read, or the file exists or cannot be written.
    """
    form = export_format(file)
    try:
        if file.exists() and not overwrite:
            raise SessionError(f"{file} already exists; add --overwrite to replace it.")
        with replacing(file) as target:
            return sum(map(target.write, _pieces(session, form)))
    except OSError as error:
        raise SessionError(f"{file} cannot be written ({error.strerror}); choose another file.") from error


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
        with file.open("rb") as source:
            return _import(directory, file, source, name)
    except OSError as error:
        raise SessionError(f"{file} cannot be read ({error.strerror}); check the path.") from error


def _import(directory: Path, file: Path, source: BinaryIO, name: str | None) -> SessionInfo:
    header = _header(source.readline(), file)
    begin, last_id, granting = source.tell(), 0, []
    for record in _checked_rows(source, file):
        if record["id"] <= last_id:
            raise SessionFormatError(f"The rows of {file} are out of order; export the session again.")
        last_id = record["id"]
        if record["kind"] == "metadata" or record.get("type") in _GRANTING_EVENTS:
            granting.append(record)
    info = new_session_info(directory, new_id(), _name(directory, header, name))
    fresh = codec.Header(info.id, info.name, header.created, **_origin(directory, header, last_id))
    try:
        make_sessions_directory(directory)
    except OSError as error:
        raise SessionError(f"{directory} cannot be created ({error.strerror}); choose another folder.") from error
    source.seek(begin)
    JournalFile.create_with_content(info.path, fresh, (_copied(line) for line in source)).close()
    return replace(find_by_id(directory, info.id), notice=import_notice(info.name, granting))


def _copied(line: bytes) -> bytes:
    """Return a checked row's line as journals have it."""
    if usual_id(line) and codec.parse_usual_line(line) is not None:
        return line
    return codec.encode_record(codec.decode_line(line))


def _checked_rows(source: BinaryIO, file: Path) -> Iterator[JsonObject]:
    return (_checked(line, number, file) for number, line in enumerate(source, 2))


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


def _origin(directory: Path, header: codec.Header, last_id: int) -> JsonObject:
    copies = [(header.session_id, last_id), (header.parent, header.copied)]
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


def team_names(records: Iterable[JsonObject]) -> dict[str, str]:
    """Return the names of the agents of teams by their ids; with the id if several agents have the same name.

    Args:
        records: The rows of a session; those that cannot be decoded are left out.
    """
    names: dict[str, str] = {}
    for agent_id, event in _events(records, "agent_started"):
        if isinstance(event, AgentStarted) and event.team_id and event.name:
            names[agent_id] = event.name
    counts = Counter(names.values())
    return {agent: name if counts[name] == 1 else f"{name} ({agent})" for agent, name in names.items()}


def task_lines(records: Iterable[JsonObject], names: Mapping[str, str]) -> list[str]:
    """Return a line of plain text for each task that an agent gave to another one, in the order of the tasks.

    Args:
        records: The rows of a session; those that cannot be decoded are left out.
        names: The names of agents by their ids.
    """
    tasks: dict[tuple[str, str], _Task] = {}
    for agent_id, event in _events(records, "delegated", "responded"):
        if isinstance(event, Delegated):
            tasks.setdefault((agent_id, event.task_id), _Task(agent_id, event))
        elif isinstance(event, Responded) and (task := tasks.get((agent_id, event.task_id))) is not None:
            task.responses.append(event)
    return [task.line(names) for task in tasks.values()]


@dataclass(slots=True)
class _Task:
    """A task, the agent that gave it, and what came back."""

    delegator: str
    asked: Delegated
    responses: list[Responded] = field(default_factory=list[Responded])

    def line(self, names: Mapping[str, str]) -> str:
        asked = self.asked
        target = names.get(asked.target_id) or asked.target_name or asked.target_id
        delegator = names.get(self.delegator, self.delegator)
        task = f"{delegator} {_GAVE[asked.kind]} {target}: “{one_line(asked.text, _SHOWN_TASK)}”"
        if not self.responses:
            return f"{task}; no response yet"
        last = self.responses[-1]
        status = "failed" if last.error else "answered automatically" if last.automatic else "answered"
        text = one_line("\n\n".join(response.text for response in self.responses), _SHOWN_TASK)
        return f"{task}; {status} after {max(0.0, last.time - asked.time):.1f} s: “{text}”"


def _events(records: Iterable[JsonObject], *types: str) -> Iterator[tuple[str, AgentEvent]]:
    """Yield the events of these types, each with the id of its agent."""
    for record in records:
        if record["kind"] == "event" and record["data"].get("type") in types:
            with suppress(ValueError, RecursionError):  # as `codec.is_readable`, which is counted as damage
                yield record["agent_id"], decode_event(record["data"])


def import_notice(name: str, records: Iterable[JsonObject]) -> str:
    """Return a sentence about what waits for trust in an imported session; empty if nothing does.

    A signature is valid only in its own session, so no row of an import that gives power is authentic.

    Args:
        name: The name of the session.
        records: Its rows that no rewind hides.
    """
    records = list(records)
    agents, settings = _agents(records), _settings(records)
    rules = {_text(pair[1]) for stored in settings for pair in _pairs(stored.get("rules")) if pair[0] == "allow"}
    rules |= {_text(data.get("rule")) for data in _of_type(records, "approval_decision") if _is_remembered(data)}
    addresses = {_text(_table(agent.get("model_source")).get("base_url")) for agent in agents}
    tools = {tool for agent in agents for tool in _list(agent.get("tools")) if isinstance(tool, str)}
    granted = [names for agent in agents for names in _table(agent.get("grants")).values()]
    grants = {_text(name) for names in granted for name in _list(names)}
    fields = {field for agent in agents for field in _table(_table(agent.get("options")).get("extra"))}
    found = {
        "remembered approval rule": sorted(f"`{rule}`" for rule in rules - {""}),
        "model server": sorted(shown_url(address) for address in addresses - {""}),
        "tool": sorted(tool for tool in tools if tool in KERNEL_NAMES or not is_reserved(tool)),
        "grant": sorted(grants - {""}),
        "request field": sorted(fields),
    }
    waiting = [noun_with_names(noun, names) for noun, names in found.items() if names]
    if not waiting:
        return ""
    where = " (those that your folder has stay)" if found["tool"] else ""
    return (
        f"Session {name} continues without {series(waiting)}{where} until you trust it: "
        f"look at it, then `%planck resume {name} --trust` restores everything."
    )


def _settings(records: Iterable[JsonObject]) -> list[JsonObject]:
    """The settings that were stored last, and those that a resume without trust has set aside."""
    metadata: JsonObject = {}
    for record in records:
        if record["kind"] == "metadata":
            metadata |= _table(record.get("data"))
    return [_table(metadata.get("choices")), _table(_table(metadata.get("waiting")).get("settings"))]


def _agents(records: Iterable[JsonObject]) -> list[JsonObject]:
    """The newest description of each agent that was not removed, and what a resume without trust has set aside."""
    agents: dict[str, JsonObject] = {}
    waiting: JsonObject = {}
    for record in records:
        data = _table(record.get("data"))
        if record["kind"] == "metadata":
            waiting = _table(data.get("waiting", waiting))
        elif record.get("type") in ("agent_started", "agent_changed"):  # a tuple, as it may be a list
            agent_id = str(record.get("agent_id"))
            agents[agent_id] = {**agents.get(agent_id, {}), **data}
    kept = {agent_id: agent for agent_id, agent in agents.items() if not agent.get("removed")}
    set_aside = _table(waiting.get("agents"))
    return [*kept.values(), *(_table(data) for agent_id, data in set_aside.items() if agent_id in kept)]


def _of_type(records: Iterable[JsonObject], kind: str) -> Iterator[JsonObject]:
    return (_table(record.get("data")) for record in records if record.get("type") == kind)


def _is_remembered(decision: JsonObject) -> bool:
    return decision.get("allowed") is True and decision.get("by") == "user"


def _pairs(value: object) -> list[list[Any]]:
    return [pair for pair in _list(value) if isinstance(pair, list) and len(pair) == 2]  # noqa: PLR2004 - a pair


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _table(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
