"""Read, write and edit files for agents.

What an agent has read is remembered, so that it cannot overwrite a later change by someone else; what tools write
is recorded in `Files.changes` and can be undone.
"""

from __future__ import annotations

import codecs
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO, TypeAlias

from planck_nb.agent.calling.tool_output import MAX_RESULT_CHARACTERS, MAX_RESULT_LINES
from planck_nb.base.errors import ToolError
from planck_nb.tools.changes import Changes
from planck_nb.tools.edits import TextDiff, replace_once, text_diff, utf8
from planck_nb.tools.file_access import lock_of, read_bytes, require_regular, resolve, write_file

_REMEMBERED = 10_000
"""How many files have their versions remembered, over all agents; the least recently used are forgotten first."""

_PIECE = 65_536
_SNIFFED = 8_192

Version: TypeAlias = tuple[int, int, int]


class Files:
    """Files as agents know them.

    Args:
        changes: Records what is written, by default in memory.
    """

    def __init__(self, changes: Changes | None = None) -> None:
        self.changes = Changes() if changes is None else changes
        self._seen: OrderedDict[tuple[str, Path], Version] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, path: str, *, cwd: Path | None, agent_id: str, offset: int = 0, limit: int | None = None) -> str:
        """Return the text of a file: at most `limit` lines after `offset` others, ending in a note if it is cut."""
        try:
            found = resolve(path, cwd)
            require_regular(found.stat())
            with found.open("rb") as file:
                status = os.fstat(file.fileno())
                self._remember(agent_id, found, _version(status))
                if not _is_text(file.read(_SNIFFED)):
                    return f"[binary file, {status.st_size:,} bytes: cannot be shown as text]"
                file.seek(0)
                return _read_lines(file, offset, limit)
        except OSError as error:
            raise ToolError(f"cannot read {path}: {_reason(error)}") from error

    def write(self, path: str, content: str, *, cwd: Path | None, agent_id: str, call_id: str) -> str:
        """Create or replace a file, and return what was done, with a diff if there was a file."""
        data = utf8(content, "content")
        try:
            found = resolve(path, cwd)
            with lock_of(found):
                before = read_bytes(found) if found.exists() else None
                self._refuse_stale(agent_id, found, path)
                changed = text_diff(before or b"", data, path)
                self._put(found, before, data, ("write", agent_id, call_id), changed)
        except OSError as error:
            raise ToolError(f"cannot write {path}: {_reason(error)}") from error
        if before is None:
            return f"Written {path} (new file, {len(data):,} bytes)."
        return f"Written {path}: no change." if before == data else f"Written {path}.\n{changed.text}"

    def edit(self, path: str, old: str, new: str, *, cwd: Path | None, agent_id: str, call_id: str) -> str:
        """Replace the one occurrence of `old`, and return what was done, with a diff."""
        try:
            found = resolve(path, cwd)
            with lock_of(found):
                before = read_bytes(found)
                self._refuse_stale(agent_id, found, path)
                data = replace_once(before, old, new, path)
                changed = text_diff(before, data, path)
                self._put(found, before, data, ("edit", agent_id, call_id), changed)
        except OSError as error:
            raise ToolError(f"cannot access {path}: {_reason(error)}") from error
        return f"Edited {path}.\n{changed.text}"

    def _put(self, path: Path, before: bytes | None, data: bytes, who: tuple[str, str, str], changed: TextDiff) -> None:
        tool, agent_id, call_id = who
        lines = (changed.added, changed.removed)
        with self.changes.recording(path, before, data, tool=tool, agent_id=agent_id, call_id=call_id, lines=lines):
            write_file(path, data)
        self._remember(agent_id, path, _version(path.stat()))

    def _remember(self, agent_id: str, path: Path, version: Version) -> None:
        with self._lock:
            self._seen[agent_id, path] = version
            self._seen.move_to_end((agent_id, path))
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)

    def _refuse_stale(self, agent_id: str, path: Path, shown: str) -> None:
        """Raise `ToolError` if the file is not as the agent saw it last; a file it never saw may be changed."""
        with self._lock:
            seen = self._seen.get((agent_id, path))
        if seen is not None and path.exists() and _version(path.stat()) != seen:
            raise ToolError(f"{shown} has changed on disk since you read it; read it again before you change it.")


def _version(status: os.stat_result) -> Version:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_text(beginning: bytes) -> bool:
    if b"\0" in beginning:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)  # not final: the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _read_lines(file: BinaryIO, offset: int, limit: int | None) -> str:
    """Lines as they are in the file, in bounded memory even if lines are long."""
    skipped = 0
    while skipped < offset and (piece := file.readline(_PIECE)):
        skipped += piece.endswith(b"\n")
    most = MAX_RESULT_LINES - 1
    wanted = most if limit is None else min(limit, most)
    lines: list[str] = []
    remaining = MAX_RESULT_CHARACTERS - 200
    while len(lines) < wanted and (line := file.readline(4 * remaining)):
        text = line.decode("utf-8", "replace")
        if len(text) > remaining:
            if lines:
                return "".join(lines) + _cut_note(offset + len(lines))
            return f"{text[:remaining]}\n[… line {offset + 1} is too long to be shown; use bash to see more of it …]"
        lines.append(text)
        remaining -= len(text)
    cut = (limit is None or limit > most) and len(lines) == most and file.read(1)
    return "".join(lines) + (_cut_note(offset + len(lines)) if cut else "")


def _cut_note(line: int) -> str:
    return f"[… cut here; read on with offset={line} …]"


def _reason(error: OSError) -> str:
    return f"{error.strerror or error}."


files = Files()
"""Used by tools that were not given their own `Files`."""
