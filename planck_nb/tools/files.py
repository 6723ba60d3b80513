"""Read, write and edit files for agents.

What an agent has read is remembered, so that it cannot overwrite a later change by someone else; what tools write
is recorded in `Files.changes` and can be undone.
"""

from __future__ import annotations

import codecs
import os
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from planck_nb.agent.calling.approved_call import FileVersion, file_version, version_of
from planck_nb.agent.calling.tool import ToolContext
from planck_nb.agent.calling.tool_output import MAX_RESULT_CHARACTERS, MAX_RESULT_LINES, ToolOutput
from planck_nb.base.errors import ToolError
from planck_nb.base.line_diff import unified_diff
from planck_nb.base.secrets import around_secret
from planck_nb.base.text import head_and_tail
from planck_nb.tools.changes import Changes
from planck_nb.tools.file_access import exists, lock_of, resolve, write_file
from planck_nb.tools.no_links import open_file, read_bytes
from planck_nb.tools.notebook_cells import MAX_BYTES, show_notebook

_REMEMBERED = 10_000
"""How many versions are remembered, over all agents; the least recently used are forgotten first."""

_PIECE = 65_536
_SNIFFED = 8_192

_DIFF_HEADERS = 2
_SHOWN_LINES = 300
_SHOWN_CHARACTERS = 12_000


class Files:
    """Reads and writes files for agents.

    It remembers which version each agent has seen.

    Args:
        changes: Records what is written, by default in memory.
    """

    def __init__(self, changes: Changes | None = None) -> None:
        self.changes = Changes() if changes is None else changes
        self._seen: OrderedDict[tuple[str, Path], FileVersion] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self, path: str, *, cwd: Path | None, context: ToolContext, offset: int = 0, limit: int | None = None
    ) -> str | ToolOutput:
        """Return a file's text: at most `limit` lines after `offset` others.

        It ends in a note if it is cut. From a notebook, return cells instead.
        """
        try:
            found = _approved(path, cwd, context)
            with open_file(found) as file:
                status = os.fstat(file.fileno())
                self._remember(context.agent_id, found, version_of(status))
                if not _is_text(file.read(_SNIFFED)):
                    return f"[binary file, {status.st_size:,} bytes: cannot be shown as text]"
                file.seek(0)
                if found.suffix == ".ipynb" and status.st_size <= MAX_BYTES:
                    cells = show_notebook(file.read(), offset=offset, limit=limit)
                    if cells is not None:
                        return cells
                    file.seek(0)
                return _read_lines(file, offset, limit)
        except OSError as error:
            raise ToolError(f"cannot read {path}: {_reason(error)}") from error

    @staticmethod
    def text(path: Path) -> str:
        """Return a text for a prompt, cut as `read` does.

        Args:
            path: The file.

        Returns:
            The text; empty for a binary file.

        Raises:
            ToolError: The file cannot be read.
        """
        try:
            with path.open("rb") as file:
                if not _is_text(file.read(_SNIFFED)):
                    return ""
                file.seek(0)
                return _read_lines(file, 0, None)
        except OSError as error:
            raise ToolError(f"cannot read {path}: {_reason(error)}") from error

    def write(self, path: str, content: str, *, cwd: Path | None, context: ToolContext) -> str:
        """Create or replace a file, and return what was done.

        If there was a file, a diff follows.
        """
        data = utf8(content, "content")
        try:
            found = _approved(path, cwd, context)
            with lock_of(found):
                before = read_bytes(found) if exists(found) else None
                self._refuse_stale(context, found, path)
                changed = text_diff(before or b"", data, path)
                self._put(found, before, data, ("write", context), changed)
        except OSError as error:
            raise ToolError(f"cannot write {path}: {_reason(error)}") from error
        if before is None:
            return f"Written {path} (new file, {len(data):,} bytes)."
        return f"Written {path}: no change." if before == data else f"Written {path}.\n{changed.text}"

    def edit(self, path: str, old: str, new: str, *, cwd: Path | None, context: ToolContext) -> str:
        """Replace the one occurrence of `old`, and return a sentence with a diff."""
        try:
            found = _approved(path, cwd, context)
            with lock_of(found):
                before = read_bytes(found)
                self._refuse_stale(context, found, path)
                data = replace_once(before, old, new, path)
                changed = text_diff(before, data, path)
                self._put(found, before, data, ("edit", context), changed)
        except OSError as error:
            raise ToolError(f"cannot access {path}: {_reason(error)}") from error
        return f"Edited {path}.\n{changed.text}"

    def _put(
        self, path: Path, before: bytes | None, data: bytes, who: tuple[str, ToolContext], changed: TextDiff
    ) -> None:
        tool, context = who
        agent_id, call_id = context.agent_id, context.call_id
        lines = (changed.added, changed.removed)
        with self.changes.recording(path, before, data, tool=tool, agent_id=agent_id, call_id=call_id, lines=lines):
            write_file(path, data)
        self._remember(agent_id, path, version_of(path.lstat()))

    def _remember(self, agent_id: str, path: Path, version: FileVersion) -> None:
        with self._lock:
            self._seen[agent_id, path] = version
            self._seen.move_to_end((agent_id, path))
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)

    def _refuse_stale(self, context: ToolContext, path: Path, shown: str) -> None:
        """Raise `ToolError` if the file is not as the agent saw it last, or as it was when a person was asked.

        A file that the agent never saw may be changed.
        """
        with self._lock:
            seen = self._seen.get((context.agent_id, path))
        now = file_version(path)
        if seen is not None:
            if now is not None and now != seen:
                raise ToolError(f"{shown} has changed on disk since you read it; read it again before you change it.")
        elif context.versions.get(str(path), now) != now:
            raise ToolError(f"{shown} has changed on disk since the user was asked; read it, and make the call again.")


def _approved(path: str, cwd: Path | None, context: ToolContext) -> Path:
    """Return the resolved path that was approved, or where the path leads if nothing was checked. Raises OSError."""
    if context.touches is None:
        return resolve(path, cwd)
    for touch in context.touches:
        if touch.kind in ("read", "write") and touch.target:
            return Path(touch.target)
    resolve(path, cwd)  # raises OSError, unless it could not be resolved only when the call was checked
    raise OSError(0, "It leads elsewhere than when the call was checked; make the call again")


def _is_text(beginning: bytes) -> bool:
    if b"\0" in beginning:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)  # not final: the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _read_lines(file: BinaryIO, offset: int, limit: int | None) -> str:
    """Return lines as they are, in bounded memory even for long ones."""
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


def utf8(text: str, what: str) -> bytes:
    """Return the text as bytes. Raises a `ToolError` that names `what` if UTF-8 cannot represent the text."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{what} contains half of a surrogate pair at {error.start}; write whole characters.") from None


def replace_once(data: bytes, old: str, new: str, path: str) -> bytes:
    """Replace the one occurrence of `old` with `new`; all other bytes stay as they are, whatever their encoding.

    If every line of `data` ends in CRLF, lines in `old` and `new` may end in LF.

    Raises:
        ToolError: `old` is empty, does not occur, or occurs more than once, overlapping occurrences included. The
            message names `path`.
    """
    old_bytes, new_bytes = utf8(old, "old_string"), utf8(new, "new_string")
    if not old_bytes:
        raise ToolError("old_string is empty; give the text to replace, or use `write` for the whole file.")
    if old_bytes == new_bytes:
        raise ToolError("old_string and new_string are the same; there is nothing to change.")
    if b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n"):
        old_bytes, new_bytes = _crlf(old_bytes), _crlf(new_bytes)
    first = data.find(old_bytes)
    if first < 0:
        raise ToolError(f"old_string not found in {path}; read the file and copy the text exactly.")
    if data.find(old_bytes, first + 1) >= 0:
        raise ToolError(f"old_string appears more than once in {path}; make it more specific with lines around it.")
    return data[:first] + new_bytes + data[first + len(old_bytes) :]


@dataclass(frozen=True, slots=True)
class TextDiff:
    """A bounded diff in unified format, and the numbers of lines.

    Both numbers are 0 if either side is not text.
    """

    text: str
    added: int
    removed: int


def text_diff(before: bytes, after: bytes, path: str) -> TextDiff:
    """Compare two contents of the file `path`; if one is not text, a sentence takes the place of the diff."""
    if b"\0" in before or b"\0" in after:
        return TextDiff(f"[binary: {len(before):,} bytes became {len(after):,}]", 0, 0)
    old, new = _lines(before), _lines(after)
    hunks = list(unified_diff(old, new, path))
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunks)
    marks = Counter(line[0] for line in hunks[_DIFF_HEADERS:])
    shown = head_and_tail(text, characters=_SHOWN_CHARACTERS, lines=_SHOWN_LINES, around=around_secret)
    return TextDiff(shown, marks["+"], marks["-"])


def _lines(data: bytes) -> list[str]:
    """Return a file's lines.

    Unlike `str.splitlines`, this splits at line feeds only.
    """
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _crlf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
