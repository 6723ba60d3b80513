"""A recorded answer, and the file that holds them: JSON lines that are only ever appended."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planck_nb.ai.numbers import seconds, whole_number
from planck_nb.base.errors import (
    CassetteError,
    ProviderAddressError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)
from planck_nb.base.json_types import JsonObject
from planck_nb.base.jsonl import append_line, read_lines

VERSION = 1
_MIN_STATUS = 100

ERRORS: Mapping[str, type[ProviderError]] = {
    kind.__name__: kind
    for kind in (ProviderConnectionError, ProviderAddressError, ProviderTimeoutError, ProviderProtocolError)
}
"""Connection errors, which end a recorded answer as they ended the real one."""


@dataclass(frozen=True, slots=True)
class CassetteEntry:
    """A request and its answer.

    `occurrence` counts equal requests from 0. `status` is None if no answer began. Each chunk has the milliseconds
    since the one before it, the first since the request. `end` is "eof", "closed" if the reader stopped (an aborted
    run), or the name of the error that ended the answer early, whose sentence is `message`. `end_ms` is the time from
    the last chunk to the end. `complete` is true if the chunks hold a complete message.
    """

    key: str
    occurrence: int
    provider: str
    api: str
    model: str
    request: JsonObject
    status: int | None
    headers: dict[str, str]
    chunks: tuple[tuple[float, bytes], ...]
    end: str
    message: str
    end_ms: float
    complete: bool

    @property
    def duration(self) -> float:
        """Seconds from the request to the end."""
        return (sum(delay for delay, _ in self.chunks) + self.end_ms) / 1000

    def line(self) -> bytes:
        """The entry as a line of the file."""
        data = {"v": VERSION} | {name: getattr(self, name) for name in self.__slots__}
        data["chunks"] = [[delay, _written(chunk)] for delay, chunk in self.chunks]
        # A lone surrogate has no UTF-8 form, but its backslash escape is its JSON form.
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"


def _written(chunk: bytes) -> object:
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(chunk).decode("ascii")}


def read_entries(path: Path) -> Iterator[CassetteEntry]:
    """The entries of a file in order, without an incomplete last line; none if the file does not exist.

    Raises `CassetteError` for a file that cannot be read, a line that is not an entry, and a newer version.
    """
    try:
        for number, line in enumerate(read_lines(path), 1):
            if line.strip():
                yield _entry(line, path, number)
    except OSError as error:
        raise CassetteError(f"The cassette {path} cannot be read: {error.strerror}; check the path.") from error


def _entry(line: bytes, path: Path, number: int) -> CassetteEntry:
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        data: Any = json.loads(line)
        if data["v"] > VERSION:
            raise CassetteError(
                f"The cassette {path} was written by a newer planck_nb (version {data['v']}, line {number}; this one "
                f"reads {VERSION}); update planck_nb or record it again."
            )
        entry = CassetteEntry(
            key=_typed(data["key"], str),
            occurrence=_number(data["occurrence"], maximum=2**31),
            provider=_typed(data["provider"], str),
            api=_typed(data["api"], str),
            model=_typed(data["model"], str),
            request=_typed(data["request"], dict),
            status=None if data["status"] is None else _status(data["status"]),
            headers={_typed(name, str): _typed(value, str) for name, value in data["headers"].items()},
            chunks=tuple((_pause(delay), _read(chunk)) for delay, chunk in data["chunks"]),
            end=_typed(data["end"], str),
            message=_typed(data["message"], str),
            end_ms=_pause(data["end_ms"]),
            complete=_typed(data["complete"], bool),
        )
        if entry.end in ERRORS or entry.end == "closed" or (entry.end == "eof" and entry.status is not None):
            return entry
    raise CassetteError(
        f"Line {number} of the cassette {path} is not a recorded answer; remove the line, or record the file again."
    )


def _typed(value: Any, kind: type) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(value, kind):
        raise TypeError(kind)
    return value


def _number(value: object, *, maximum: int) -> int:
    if (number := whole_number(value, maximum=maximum)) is None:
        raise TypeError(int)
    return number


def _status(value: object) -> int:
    status = _number(value, maximum=599)
    if status < _MIN_STATUS:
        raise ValueError(status)
    return status


def _pause(value: object) -> float:
    """A delay in milliseconds; 0 if it is not valid, because an answer is worth more than its timing."""
    usable = isinstance(value, int | float) and seconds(value / 1000) is not None
    return float(value) if usable and isinstance(value, int | float) else 0.0


def _read(chunk: Any) -> bytes:  # noqa: ANN401 - any JSON value
    if isinstance(chunk, str):
        return chunk.encode("utf-8")
    return base64.b64decode(chunk["base64"], validate=True)


def append(path: Path, line: bytes) -> None:
    """Append a complete line to the file, which is created for its owner alone.

    An incomplete line that a crash left before it is removed. Raises `CassetteError` if the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        append_line(path, line)
    except OSError as error:
        raise CassetteError(f"The cassette {path} cannot be written: {error.strerror}; check the path.") from error
