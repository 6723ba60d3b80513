"""Encodes messages, events and rewinds as journal lines, and decodes them.

A line is a row in JSON. Its keys are the columns of the table for its `kind`, and `data`, which is the whole message or
event. Nothing here reads or writes files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from planck_nb.agent.events import AgentEvent, MessageAppended, decode_event, encode_event
from planck_nb.ai.messages import Message, decode_message, encode_message, message_json, text_of
from planck_nb.base.errors import SessionFormatError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.long_json import in_pieces

VERSION = 1
"""The version of the journal format; lines of a higher version are not read."""


LAST_ID = 2**62
"""The highest id of a row; DuckDB can store it and the next ones."""

_NESTED = 6
"""Levels from the line of a message to the data of an image in a result; what is within them is written at once."""

_LAST_VERSION = 10_000
_MAX_SEGMENTS = 100_000
_FIRST_YEAR, _LAST_YEAR = 1900, 9998
_LAST_SECOND = 253_000_000_000


_TIME = re.compile(r"(?!0000)\d{4}-(0\d|1[0-2])-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of each segment of a journal. `created` is in UTC.

    `segment` counts from 1, and `last_id` is the last id in the segments before. A fork has the id of the original
    session in `parent`, and its rows up to the id `copied` come from there.
    """

    session_id: str
    name: str
    created: datetime
    segment: int = 1
    last_id: int = 0
    parent: str | None = None
    copied: int = 0


def encode_header(header: Header) -> bytes:
    """Encode a header. The id of the line is that of the row before it, or 0."""
    data: JsonObject = {"session_id": header.session_id, "name": header.name, "segment": header.segment}
    if header.parent is not None:
        data.update(parent=header.parent, copied=header.copied)
    created = _timestamp(header.created.timestamp())
    return _encode({"v": VERSION, "id": header.last_id, "kind": "session", "ts": created, "data": data})


def decode_header(line: bytes) -> Header:
    """Decode the first line of a journal. Raises SessionFormatError unless it is a header that this version reads."""
    record = decode_line(line)
    try:
        data = record["data"]
        header = Header(
            data["session_id"],
            data["name"],
            datetime.fromisoformat(record["ts"]),
            data.get("segment", 1),
            record["id"],
            data.get("parent"),
            data.get("copied", 0),
        )
        if record["kind"] == "session" and _is_valid(header):
            return header
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise SessionFormatError("The file does not begin like a session's journal; move it out of the sessions folder.")


def _is_valid(header: Header) -> bool:
    texts = (header.session_id, header.name, header.parent or "")
    numbers = (header.segment, header.last_id, header.copied)
    return (
        all(isinstance(text, str) and text.isprintable() and text.isascii() for text in (header.session_id, texts[2]))
        and isinstance(header.name, str)
        and all(_is_id(number) for number in numbers)
        and 1 <= header.segment <= _MAX_SEGMENTS
        and header.created.tzinfo is not None
        and _FIRST_YEAR <= header.created.year <= _LAST_YEAR
    )


def encode_message_line(
    row_id: int, agent_id: str, message: Message, *, turn: int, time: float, fields: bytes | None = None
) -> bytes:
    """Encode a message that was complete at `time`, in seconds since the epoch.

    `time` is stored in addition to `ts`, which is rounded to microseconds. Raises ValueError if it is not JSON.
    `fields` is what `encode_message_fields` returned, so that only the rest is encoded.
    """
    row = _row("message", row_id, agent_id, turn, time)
    if fields is not None:
        return b"".join((_plain_json(row)[:-1], b",", fields, b"}\n"))
    line = {**row, **_message_columns(message, time)}
    try:
        return b'%s,"data":%s}\n' % (_plain_json(line)[:-1], message_json(message))
    except ValueError:
        return _encode({**line, "data": encode_message(message)})


def encode_message_fields(message: Message, *, time: float) -> bytes | None:
    """Encode what the line of a message has besides the fields that every line has, without the braces.

    This may take long, so it is meant for a thread. Returns None if it cannot be encoded in this way.
    """
    fields = {**_message_columns(message, time), "data": encode_message(message)}
    try:
        first, *rest = in_pieces(fields, _NESTED, _plain_json)
    except ValueError:
        return None
    return b"".join((first[1:], *rest[:-1]))


def _message_columns(message: Message, time: float) -> JsonObject:
    line: JsonObject = {"time": time, "role": message.type}
    if message.type == "assistant":
        line.update(provider=message.provider, model=message.model, stop_reason=message.stop_reason)
        if message.usage is not None:
            line.update(
                input_tokens=message.usage.input_tokens,
                output_tokens=message.usage.output_tokens,
                cache_read_tokens=message.usage.cache_read_tokens,
                cache_write_tokens=message.usage.cache_write_tokens,
                thinking_tokens=message.usage.thinking_tokens,
            )
        line["cost_usd"] = message.cost
    line["text"] = text_of(message.content)
    return line


def encode_event_line(row_id: int, event: AgentEvent, sign: Callable[[JsonObject], JsonObject] | None = None) -> bytes:
    """Encode an event; `sign` adds a signature to its data. Raises ValueError if it is not JSON."""
    line = _row("event", row_id, event.agent_id, event.turn, event.time)
    line["type"] = event.type
    data = encode_event(event)
    line["data"] = data if sign is None else sign(data)
    try:
        return _plain_json(line) + b"\n"
    except ValueError:
        return _encode(line)


def encode_rewind_line(row_id: int, agent_id: str, *, before_id: int, time: float) -> bytes:
    """Encode a rewind, which hides every row from `before_id` on, of all agents."""
    line = _row("rewind", row_id, agent_id, None, time)
    line["before_id"] = before_id
    return _encode(line)


def encode_metadata_line(row_id: int, metadata: Mapping[str, object], *, time: float) -> bytes:
    """Encode a change of some of the session's metadata. Raises ValueError if it is not JSON."""
    line = _row("metadata", row_id, None, None, time)
    line["data"] = dict(metadata)
    return _encode(line)


def decode_line(line: bytes) -> JsonObject:
    """Decode a line. Raises SessionFormatError for a damaged line and for one of a newer version."""
    record = parse_line(line)
    if record is None:
        raise SessionFormatError("A line of the session's journal is damaged; restore the file from a backup.")
    check_version(record)
    return record


def parse_line(line: bytes) -> JsonObject | None:
    """Decode a line of any version; None for one that is incomplete or damaged."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not (line.endswith(b"\n") and isinstance(record, dict)):
        return None
    return record if _is_version(record.get("v")) and _is_id(record.get("id")) and _is_row(record) else None


def parse_usual_line(line: bytes) -> JsonObject | None:
    """Decode a message or an event in a third as long.

    The result is None for a line which `parse_line` has to decode. Its beginning was recognised before.
    """
    if not line.endswith(b"\n"):
        return None
    try:
        record: JsonObject = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    return record if isinstance(record.get("data"), dict) else None


def _is_row(record: JsonObject) -> bool:
    """Whether a line of a known kind has what readers need of it."""
    kind = record.get("kind")
    if record["v"] > VERSION:
        return True
    if not isinstance(kind, str):
        return False
    if kind not in {"message", "event", "rewind", "metadata"}:
        return True
    if not _is_time(record.get("ts")):
        return False
    if kind == "rewind":
        return _is_id(record.get("before_id"))
    return isinstance(record.get("data"), dict) and (kind == "metadata" or isinstance(record.get("agent_id"), str))


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_SECOND


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LAST_VERSION


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LAST_ID


def check_version(record: JsonObject) -> None:
    """Raise SessionFormatError for a line of a newer version."""
    if record["v"] > VERSION:
        raise SessionFormatError("The session was written by a newer planck_nb; upgrade to open it.")


def encode_record(record: JsonObject) -> bytes:
    """Encode a decoded line again."""
    return _encode(record)


def message_of(record: JsonObject) -> Message:
    """Return the message in a decoded line of kind "message"."""
    return decode_message(record["data"])


def readable_event(record: JsonObject, *, session_id: str, seq: int) -> AgentEvent | None:
    """Return the event in a decoded line as `event_of` does, None if it cannot be decoded or is of another kind."""
    if record.get("kind") not in {"message", "event"}:
        return None
    try:
        return event_of(record, session_id=session_id, seq=seq)
    except (ValueError, RecursionError):
        return None


def event_of(record: JsonObject, *, session_id: str, seq: int) -> AgentEvent:
    """Return the event in a decoded line of kind "event" or "message", numbered `seq`."""
    if record["kind"] == "event":
        return replace(decode_event(record["data"]), session_id=session_id, seq=seq)
    whole = completed(record)
    return MessageAppended(
        record["agent_id"], session_id, whole["turn"], seq, whole["time"], id=record["id"], message=message_of(record)
    )


def completed(record: JsonObject) -> JsonObject:
    """Return a decoded line with a turn, and a message with its time, which a damaged line may not have."""
    if record["kind"] not in {"message", "event"}:
        return record
    if type(record.get("turn")) is not int:
        record = {**record, "turn": 0}
    if record["kind"] == "message" and not _is_seconds(record.get("time")):
        record = {**record, "time": datetime.fromisoformat(record["ts"]).timestamp()}
    return record


def is_readable(record: JsonObject) -> bool:
    """Whether the message or event in a decoded line can be decoded; True for lines of other kinds."""
    try:
        if record.get("kind") == "message":
            message_of(record)
        elif record.get("kind") == "event":
            decode_event(record["data"])
    except (ValueError, RecursionError):
        return False
    return True


def text_in(record: JsonObject) -> str:
    """Return the text of a message in a decoded line of kind "message"; empty if the line has none."""
    text = record.get("text")
    return text if isinstance(text, str) else ""


def _row(kind: str, row_id: int, agent_id: str | None, turn: int | None, time: float) -> dict[str, Any]:
    return {"v": VERSION, "id": row_id, "kind": kind, "agent_id": agent_id, "turn": turn, "ts": _timestamp(time)}


def _timestamp(time: float) -> str:
    try:
        second, microsecond = divmod(round(time * 1_000_000), 1_000_000)
        return f"{_whole_second(second)}.{microsecond:06d}Z"
    except (OverflowError, OSError) as error:
        raise ValueError(f"{time} is not a time") from error


@lru_cache(maxsize=2)
def _whole_second(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def _encode(line: JsonObject) -> bytes:
    # Neither UTF-8 nor DuckDB can represent a lone surrogate, so it becomes a question mark.
    finite = json.loads(json.dumps(line), parse_constant=lambda _: None)
    return json.dumps(finite, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _plain_json(line: object) -> bytes:
    """Encode JSON types, four times as fast. Raises ValueError for lone surrogates and for deep nesting."""
    return to_json(line, inf_nan_mode="null")  # DuckDB cannot read the names of infinity and "not a number"
