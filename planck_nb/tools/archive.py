"""Keeps what files contained before a change: in memory, or in a folder for later processes."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import ToolError
from planck_nb.base.jsonl import append_line, read_lines

_VERSION = 1
_INDEX = "changes.jsonl"
_OURS = re.compile(r"[0-9a-f]{64}|\.planck-[0-9a-f]+\.tmp")
_DEAD_LINES = 1_000
"""The index is rewritten when it has more lines than this beyond twice the number of its changes."""

Ending: TypeAlias = Literal["undone", "forgotten"]


@dataclass(frozen=True, slots=True)
class Change:
    """One file that a tool wrote.

    Args:
        number: Counts from 1.
        path: The resolved path of the file.
        tool: The name of the tool.
        agent_id: The agent that called it.
        call_id: The call.
        time: When, in seconds since the epoch.
        added: Lines added, 0 if the content is not text.
        removed: Lines removed, 0 if the content is not text.
        before: The digest of the content before, None if there was no file.
        after: The digest of the content after.
        size: The length of the content before, in bytes.
    """

    number: int
    path: Path
    tool: str
    agent_id: str
    call_id: str
    time: float
    added: int
    removed: int
    before: str | None
    after: str
    size: int


def digest(content: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


class Archive(Protocol):
    """Keeps changes together with what the files contained before."""

    def load(self) -> tuple[list[Change], int]:
        """Return the changes that are kept, oldest first, and the highest number ever used. Raises OSError."""
        ...

    def keep(self, change: Change, before: bytes) -> None:
        """Keep a change; it is durable when this returns. Raises OSError."""
        ...

    def content(self, change: Change) -> bytes:
        """Return what the file contained before. Raises OSError, and `ToolError` if it is damaged."""
        ...

    def end(self, change: Change, ending: Ending) -> None:
        """Forget a change that was undone or is too old. Raises OSError."""
        ...


class MemoryArchive:
    """An archive for the lifetime of the process."""

    def __init__(self) -> None:
        self._contents: dict[int, bytes] = {}

    def load(self) -> tuple[list[Change], int]:
        """Return no changes: each process begins with an empty archive."""
        return [], 0

    def keep(self, change: Change, before: bytes) -> None:
        """Keep a change."""
        self._contents[change.number] = before

    def content(self, change: Change) -> bytes:
        """Return what the file contained before. Raises OSError for a change that was forgotten."""
        if change.number not in self._contents:
            raise FileNotFoundError(0, "its earlier content is no longer kept")
        return self._contents[change.number]

    def end(self, change: Change, ending: Ending) -> None:  # noqa: ARG002 - nothing is kept about it
        """Forget a change."""
        self._contents.pop(change.number, None)


class FolderArchive:
    """An archive in its own folder, created with the first change; one process at a time writes to it.

    Each content is a file named after its digest. The index has one JSON object per line: a change, or that a change
    was undone or forgotten. Incomplete lines and contents that no line refers to were left by a crash and are ignored.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._index = directory / _INDEX
        self._uses: Counter[str] = Counter()
        self._prepared = False

    def load(self) -> tuple[list[Change], int]:
        """Return the changes of the index, oldest first, and the highest number ever used. Raises OSError."""
        kept: dict[int, Change] = {}
        last = 0
        for entry in self._entries():
            match entry:
                case {"change": dict(fields)}:
                    with suppress(TypeError):  # a line of a newer version, perhaps
                        change = Change(**{**fields, "path": Path(fields.get("path", ""))})
                        kept[change.number] = change
                        last = max(last, change.number)
                case {"undone": int(number)} | {"forgotten": int(number)}:
                    kept.pop(number, None)
                case {"last": int(number)}:
                    last = max(last, number)
        self._uses = Counter(change.before for change in kept.values() if change.before is not None)
        return list(kept.values()), last

    def keep(self, change: Change, before: bytes) -> None:
        """Keep a change; it is durable when this returns. Raises OSError."""
        self._prepare()
        if change.before is not None:
            content = self._directory / change.before
            if not content.exists():
                write_atomically(content, before, mode=0o600)
            self._uses[change.before] += 1
        try:
            append_line(self._index, _line(change=_fields(change)), durable=True)
        except OSError:
            self._release(change)
            raise

    def content(self, change: Change) -> bytes:
        """Return what the file contained before. Raises OSError, and `ToolError` if it is damaged."""
        data = b"" if change.before is None else (self._directory / change.before).read_bytes()
        if change.before is not None and digest(data) != change.before:
            raise ToolError(f"What {change.path} held is damaged in {self._directory}; restore it by hand.")
        return data

    def end(self, change: Change, ending: Ending) -> None:
        """Forget a change that was undone or is too old. Raises OSError."""
        self._prepare()
        append_line(self._index, _line(**{ending: change.number}), durable=True)
        self._release(change)

    def _entries(self) -> Iterator[dict[str, Any]]:
        for line in read_lines(self._index):
            with suppress(ValueError):
                if isinstance(entry := json.loads(line), dict) and entry.get("v") == _VERSION:
                    yield entry

    def _prepare(self) -> None:
        """Before the first write: create the private folder, remove what a crash left, and shorten a long index."""
        if self._prepared:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        changes, last = self.load()
        for entry in self._directory.iterdir():
            if _OURS.fullmatch(entry.name) and entry.name not in self._uses:
                entry.unlink()
        if sum(1 for _ in read_lines(self._index)) > 2 * len(changes) + _DEAD_LINES:
            lines = [_line(change=_fields(change)) for change in changes]
            write_atomically(self._index, b"".join([*lines, _line(last=last)]), mode=0o600)
        self._prepared = True

    def _release(self, change: Change) -> None:
        if change.before is None:
            return
        self._uses[change.before] -= 1
        if self._uses[change.before] <= 0:
            del self._uses[change.before]
            with suppress(OSError):
                (self._directory / change.before).unlink()


def _fields(change: Change) -> dict[str, object]:
    return {**asdict(change), "path": str(change.path)}


def _line(**entry: object) -> bytes:
    return json.dumps({"v": _VERSION, **entry}).encode() + b"\n"
