"""Exports a session as one file, and imports it from the format that has all its data.

Rows hidden by a rewind are left out. JSONL is complete and can be imported; the other formats are for reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from planck_nb.ai.messages import FilePart, ImagePart, Message, Part
from planck_nb.base.errors import SessionError, SessionFormatError
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions import codec
from planck_nb.sessions.directory import (
    SessionInfo,
    find_by_id,
    list_sessions,
    new_session_info,
    numbered_name,
    unused_name,
)
from planck_nb.sessions.journal_file import JournalFile
from planck_nb.sessions.paging import Row, row_of
from planck_nb.sessions.records import read_records, visible_records

ExportFormat: TypeAlias = Literal["jsonl", "markdown", "html", "ipynb"]
"""The formats that a session can be exported to."""

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit}"
    ".call pre,.result pre{font:14px/1.4 ui-monospace,monospace}"
    ".thinking{opacity:.7;font-style:italic}h2{font-size:1rem;margin:1.5rem 0 0}img{max-width:100%}"
)


def export_session(session: SessionInfo, form: ExportFormat) -> str:
    """Export a session as text, also while a process writes it.

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
        records = visible_records(read_records(session.path))
    except OSError as error:
        raise SessionError(f"Session {session.name!r} cannot be read ({error.strerror}); was it deleted?") from error
    if form == "jsonl":
        header = codec.Header(session.id, session.name, session.created, parent=session.parent, copied=session.copied)
        return b"".join([codec.encode_header(header), *map(codec.encode_record, records)]).decode()
    writers: dict[str, Callable[[SessionInfo, list[Row]], str]] = {
        "markdown": _markdown,
        "html": _html,
        "ipynb": _notebook,
    }
    return writers[form](session, [row_of(record) for record in records if record["kind"] == "message"])


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
        The new session.

    Raises:
        SessionFormatError: The file is no such export, or is damaged.
        SessionError: The file cannot be read, the session cannot be written, or `name` is in use.
    """
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise SessionError(f"{file} cannot be read ({error.strerror}).") from error
    header = _header(lines[0] if lines else b"", file)
    records = [_checked(line, number, file) for number, line in enumerate(lines[1:], 2)]
    ids = [record["id"] for record in records]
    if ids != sorted(set(ids)) or any(row_id < 1 for row_id in ids):
        raise SessionFormatError(f"The rows of {file} are out of order; export the session again.")
    info = new_session_info(directory, new_id(), _name(directory, header, name))
    fresh = codec.Header(info.id, info.name, header.created, **_origin(directory, header, ids))
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SessionError(f"The sessions directory {directory} cannot be made ({error.strerror}).") from error
    JournalFile.create_with_content(info.path, fresh, b"".join(map(codec.encode_record, records))).close()
    return find_by_id(directory, info.id)


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
    if record["kind"] not in {"message", "event"} or not all(isinstance(value, kind) for value, kind in kinds):
        raise ValueError(record["kind"])


@dataclass(frozen=True, slots=True)
class _ExportBlock:
    """A part of a message to show. `kind` is the part's type, or "error"; `label` is a heading or empty."""

    kind: str
    text: str
    label: str = ""
    media: ImagePart | FilePart | None = None


def _blocks(message: Message) -> Iterator[_ExportBlock]:
    for part in message.content:
        yield from _part_blocks(part)
    if message.type == "assistant" and message.error:
        yield _ExportBlock("error", message.error, "Error")


def _part_blocks(part: Part) -> Iterator[_ExportBlock]:
    match part.type:
        case "text" | "thinking":
            if part.text:
                yield _ExportBlock(part.type, part.text)
        case "tool_call":
            args = part.invalid if part.invalid is not None else json.dumps(part.args, ensure_ascii=False, indent=2)
            yield _ExportBlock("call", args, f"{part.name} called")
        case "tool_result":
            yield _ExportBlock("result", part.text, f"{part.name} {'failed' if part.is_error else 'returned'}")
            for image in part.images:
                yield from _part_blocks(image)
        case "image":
            yield _ExportBlock("media", part.url or "image", media=part)
        case "file":
            yield _ExportBlock("media", part.url or part.name, media=part)


def _speaker(row: Row, *, several: bool) -> str:
    message = row.message
    if message.type == "assistant":
        who = ":".join(filter(None, (message.provider, message.model))) or "Model"
    else:
        who = {"user": "User", "tool_result": "Tools", "summary": "Summary"}[message.type]
    return f"{who} · {row.agent_id}" if several else who


def _several(rows: Iterable[Row]) -> bool:
    return len({row.agent_id for row in rows}) > 1


def _about(session: SessionInfo) -> str:
    return f"Session {session.id}, begun {session.created.astimezone(UTC):%Y-%m-%d %H:%M} UTC."


def _markdown(session: SessionInfo, rows: list[Row]) -> str:
    several = _several(rows)
    parts = [f"# {session.name}", _about(session)]
    for row in rows:
        parts += [f"## {_speaker(row, several=several)}", *map(_markdown_block, _blocks(row.message))]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: _ExportBlock) -> str:
    if block.kind == "text":
        return block.text
    if block.kind == "thinking":
        return "\n".join(f"> {line}".rstrip() for line in block.text.splitlines())
    if block.media is not None:
        picture = block.media.type == "image" and block.media.data is not None
        return f"![image]({_address(block.media)})" if picture else f"*{block.text}*"
    fence = "```"
    while fence in block.text:
        fence += "`"
    return f"**{block.label}**\n\n{fence}{'json' if block.kind == 'call' else ''}\n{block.text}\n{fence}"


def _html(session: SessionInfo, rows: list[Row]) -> str:
    several = _several(rows)
    articles = []
    for row in rows:
        content = "".join(map(_html_block, _blocks(row.message)))
        title = escape(_speaker(row, several=several))
        articles.append(f'<article class="{row.message.type}"><h2>{title}</h2>{content}</article>\n')
    name = escape(session.name)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
        f"</head>\n<body><h1>{name}</h1><p>{escape(_about(session))}</p>\n{''.join(articles)}</body></html>\n"
    )


def _html_block(block: _ExportBlock) -> str:
    if block.media is not None and block.media.type == "image" and block.media.data is not None:
        return f'<p><img alt="image" src="{escape(_address(block.media))}"></p>'
    label = f"<strong>{escape(block.label)}</strong>" if block.label else ""
    return f'<div class="{block.kind}">{label}<pre>{escape(block.text)}</pre></div>'


def _address(media: ImagePart | FilePart) -> str:
    return f"data:{media.mime};base64,{media.data}"


def _notebook(session: SessionInfo, rows: list[Row]) -> str:
    """Make a notebook with a cell for each prompt, whose output is the conversation that followed."""
    several = _several(rows)
    cells = [
        _cell("markdown", f"# {session.name}\n\n{_about(session)}"),
        _cell("code", "%load_ext planck_nb", outputs=[]),
    ]
    prompted = next((row.agent_id for row in rows if row.message.type == "user"), None)
    answer: list[str] = []
    for row in rows:
        texts = list(map(_markdown_block, _blocks(row.message)))
        if row.message.type == "user" and row.agent_id == prompted:
            answer = []
            cells.append(_cell("code", "\n\n".join(["%%planck", *texts]).replace("\n\n", "\n", 1), outputs=answer))
        elif len(cells) == 2:  # noqa: PLR2004 - there is no prompt yet
            cells.append(_cell("markdown", "\n\n".join(texts)))
        else:
            answer.extend([f"**{_speaker(row, several=several)}**", *texts])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
        if cell.get("outputs"):
            data = {"text/markdown": "\n\n".join(cell["outputs"])}
            cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _cell(kind: str, source: str, *, outputs: list[str] | None = None) -> JsonObject:
    cell: JsonObject = {"cell_type": kind, "metadata": {}, "source": source}
    return cell if outputs is None else {**cell, "execution_count": None, "outputs": outputs}
