"""The sessions directory: the files of a session, and the list of sessions."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import TypeAlias

from planck_nb.base.errors import SessionError, SessionFormatError, SessionNotFoundError, did_you_mean
from planck_nb.sessions.damage import known_damage, read_damage
from planck_nb.sessions.journal.codec import decode_header
from planck_nb.sessions.journal.journal_file import read_first_line

_log = logging.getLogger(__name__)
_warned: set[str] = set()

PLANCK_FOLDER = ".planck"

_SUFFIX = ".journal.jsonl"
_QUIET = 2.0
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")
_ID = re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(rf"{_ID.pattern}_{_NAME.pattern}{re.escape(_SUFFIX)}")


JournalState: TypeAlias = tuple[int, int, int, int]
"""The inode, the size and the times of the last changes of a file and its inode in nanoseconds."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a sessions directory.

    Args:
        id: Sixteen hexadecimal digits.
        name: The name, which other sessions may have, too.
        created: When the session was created, in UTC.
        path: The file of the journal.
        segment: The number of the journal's active segment, from 1.
        parent: The id of the session that it was forked from, or None.
        copied: The id of the last row that was copied from `parent`; 0 if there is none.
        renamed: Whether its file has another name than the session had when it was created, as a copy has.
        notice: A sentence about what waits until the user trusts the session; only `import_session` fills it in.
        state: Changes when the journal is written or replaced; as it was when the session was found.
    """

    id: str
    name: str
    created: datetime
    path: Path
    segment: int = 1
    parent: str | None = None
    copied: int = 0
    renamed: bool = False
    notice: str = field(default="", compare=False)
    state: JournalState | None = field(default=None, compare=False, repr=False)

    @property
    def database(self) -> Path:
        """The DuckDB file, which may be missing. Only DuckDB may open it: closing it in another way drops its locks."""
        return self.path.with_name(self.path.name.removesuffix(_SUFFIX) + ".duckdb")

    @property
    def damage(self) -> str:
        """A sentence about what readers skip of the journal, empty if it is sound. The first use reads all of it."""
        try:
            return str(read_damage(self))
        except SessionError as error:
            return str(error)

    @property
    def known_damage(self) -> str:
        """The same sentence as far as this process has checked the journal; reads nothing."""
        try:
            return str(known_damage(self))
        except SessionError as error:
            return str(error)

    @property
    def lock(self) -> Path:
        """The file whose lock the writing process holds, and which names that process."""
        return self.path.with_name(f"{self.id}.lock")

    @property
    def lock_marker(self) -> Path:
        """The file that exists while a process writes, on file systems without locks."""
        return self.path.with_name(f"{self.id}.lock.held")


def make_sessions_directory(directory: Path) -> None:
    """Create the directory for sessions, which only its user can read, if it does not exist.

    In a `.planck` folder, a new `.gitignore` keeps it out of Git: sessions are private, while the tools, skills and
    models in that folder are meant to be committed. Raises OSError.
    """
    if directory.is_dir():
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.parent.name == PLANCK_FOLDER:
        ignored = directory.parent / ".gitignore"
        with suppress(OSError), ignored.open("x", encoding="utf-8") as file:
            file.write(f"# Sessions are private.\n/{directory.name}/\n/.gitignore\n")


def warn_once(sentence: str) -> None:
    """Log a warning, which a notebook shows, unless this process has logged it before."""
    if sentence not in _warned:
        _warned.add(sentence)
        _log.warning("%s", sentence)


def clean_name(name: str) -> str:
    """Turn a name into one that can be part of a file name, for example "My Cool  Session!!" into "my-cool-session".

    A name that can be part of one is unchanged. The result is empty if nothing is left.
    """
    if _NAME.fullmatch(name):
        return name
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:80].rstrip("-._")


def new_session_info(directory: Path, session_id: str, name: str) -> SessionInfo:
    """Choose the files of a new session. Raises SessionError for an unusable id, and a name with no letter or digit."""
    name = clean_name(name)
    if not _ID.fullmatch(session_id):
        raise SessionError(f"{session_id[:80]!r} cannot be a session's id; use sixteen of the letters 0-9 and a-f.")
    if not name:
        raise SessionError("This cannot name a session: use up to 80 letters, digits, '-', '_' and '.', no '.' first.")
    return SessionInfo(session_id, name, datetime.now(UTC), directory / f"{session_id}_{name}{_SUFFIX}")


def unused_name(directory: Path, name: str) -> str:
    """Return the cleaned name. Raises SessionError if a session in the directory has it."""
    name = clean_name(name)
    if any(session.name == name for session in list_sessions(directory)):
        raise SessionError(f"There is a session named {name!r} already; choose another name.")
    return name


def numbered_name(directory: Path, name: str) -> str:
    """Return the cleaned name, with a number if a session in the directory has it."""
    name = clean_name(name) or "imported"
    taken = {session.name for session in list_sessions(directory)}
    names = chain([name], (f"{name[: 79 - len(str(number))]}-{number}" for number in count(2)))
    return next(free for free in names if free not in taken)


def list_sessions(directory: Path) -> list[SessionInfo]:
    """List the sessions in a directory that this version can read.

    Args:
        directory: The sessions directory, which need not exist.

    Returns:
        The sessions, oldest first.

    Raises:
        SessionError: The directory cannot be read.
    """
    found = []
    for path, status in _journal_files(directory):
        try:
            found.append(_read_info(path, status))
        except SessionError as error:
            warn_once(f"The session in {Path(path).name} is left out: {error}")
    return sorted(_without_copies(found), key=lambda session: (session.created, session.id))


def _without_copies(sessions: list[SessionInfo]) -> list[SessionInfo]:
    """Select one file of each session: the one that has the session's own name, else the longest."""
    files: dict[str, list[SessionInfo]] = {}
    if len({session.id for session in sessions}) == len(sessions):
        return sessions
    for session in sessions:
        files.setdefault(session.id, []).append(session)
    chosen = []
    for same in files.values():
        if len(same) > 1:
            same.sort(key=lambda session: (session.renamed, -_size_of(session.path), session.path.name))
            others = ", ".join(session.path.name for session in same[1:])
            warn_once(f"{others} is a copy of {same[0].path.name} and is left out; move it to another folder.")
        chosen.append(same[0])
    return chosen


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def find_session(directory: Path, id_or_name: str) -> SessionInfo:
    """Find a session by its id, or else by its name.

    Args:
        directory: The sessions directory.
        id_or_name: The id or the name; of several sessions with the name, the newest is returned.

    Returns:
        The session.

    Raises:
        SessionNotFoundError: There is no such session.
        SessionFormatError: Its journal was written by a newer version.
        SessionError: Its journal cannot be read.
    """
    sessions = list_sessions(directory)
    named = [session for session in sessions if session.name == id_or_name]
    identified = [session for session in sessions if session.id == id_or_name]
    if not (identified or named or "/" in id_or_name or "\\" in id_or_name):  # a path is not a name
        cleaned = clean_name(id_or_name)
        named = [session for session in sessions if session.name == cleaned]
    if identified or named:
        return (identified or named)[-1]
    for path in _journals(directory):
        if id_or_name in path.name.removesuffix(_SUFFIX).split("_", 1):
            return _read_info(path)
    hint = did_you_mean(id_or_name, {session.name for session in sessions})
    raise SessionNotFoundError(f"No session in {directory} is called {id_or_name!r}. {hint}".strip())


def find_by_id(directory: Path, session_id: str) -> SessionInfo:
    """Find a session by its id, without reading the other sessions.

    Args:
        directory: The sessions directory.
        session_id: Sixteen hexadecimal digits.

    Returns:
        The session.

    Raises:
        SessionNotFoundError: There is no such session.
        SessionFormatError: Its journal was written by a newer version.
        SessionError: Its journal cannot be read.
    """
    files = [path for path in _journals(directory) if path.name.startswith(f"{session_id}_")]
    if len(files) == 1:
        return _read_info(files[0])
    for session in list_sessions(directory) if files else ():
        if session.id == session_id:
            return session
    raise SessionNotFoundError(f"No session in {directory} has the id {session_id!r}; list_sessions names them all.")


def find_by_name(directory: Path, name: str) -> SessionInfo:
    """Find the newest session with a name.

    Args:
        directory: The sessions directory.
        name: The name.

    Returns:
        The session.

    Raises:
        SessionNotFoundError: There is no such session that this version can read.
    """
    sessions = list_sessions(directory)
    for session in reversed(sessions):
        if session.name == name:
            return session
    hint = did_you_mean(name, {session.name for session in sessions})
    raise SessionNotFoundError(f"No session in {directory} has the name {name!r}. {hint}".strip())


def session_files(session: SessionInfo) -> list[Path]:
    """List the existing files of a session.

    Args:
        session: The session.

    Returns:
        Its files, including those in its folders, but not its lock.
    """
    files: list[Path] = []
    for path in own_paths(session):
        inner = path.rglob("*") if is_folder(path) else (path,)
        files += (file for file in inner if not is_folder(file))
    return sorted(files)


def own_paths(session: SessionInfo) -> list[Path]:
    """List the files and folders whose names begin with that of the session, but not its lock."""
    stem = session.path.name.removesuffix(_SUFFIX)
    return [path for path in session.path.parent.iterdir() if path.name.startswith(f"{stem}.")]


def is_folder(path: Path) -> bool:
    """Whether this is a folder, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def _journals(directory: Path) -> list[Path]:
    return [Path(path) for path, _ in _journal_files(directory)]


def _journal_files(directory: Path) -> list[tuple[str, os.stat_result]]:
    """List the journals with their status. There may be thousands, and making a `Path` for each is slow."""
    try:
        with os.scandir(directory) as entries:
            named = [entry for entry in entries if entry.name.endswith(_SUFFIX) and _FILE.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise SessionError(
            f"The sessions folder {directory} is not readable for you; change its permissions or choose another one."
        ) from error
    found = []
    for entry in named:
        with suppress(OSError):
            status = os.stat(entry.path)  # noqa: PTH116 - as above; that of the entry has no inode on Windows
            if stat.S_ISREG(status.st_mode):  # opening a named pipe would block until another process writes to it
                found.append((entry.path, status))
    return found


def has_many(directory: Path, number: int) -> bool:
    """Return whether a directory has at least this many journals, without reading any."""
    with suppress(OSError), os.scandir(directory) as entries:
        return sum(entry.name.endswith(_SUFFIX) for entry in entries) >= number
    return False


_headers: dict[str, SessionInfo] = {}
"""The sessions of journals that were read, by the path of the file."""


def _read_info(path: str | Path, status: os.stat_result | None = None) -> SessionInfo:
    """Read the header of a journal, unless this process has read it and the file is as it was."""
    key = str(path)
    try:
        status = os.stat(key) if status is None else status  # noqa: PTH116 - as in `_journal_files`
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = _headers.get(key)
        if known is not None and known.state == state:
            return known
        path = Path(path)
        session_id, name = path.name.removesuffix(_SUFFIX).split("_", 1)
        line = read_first_line(path)
    except OSError as error:
        raise SessionError(f"The session's journal {path} cannot be read ({error.strerror}).") from error
    header = decode_header(line)
    if header.session_id != session_id:
        raise SessionFormatError(f"{path.name} holds another session; rename it back.")
    info = SessionInfo(
        session_id,
        name,
        header.created,
        path,
        header.segment,
        header.parent,
        header.copied,
        header.name != name,
        state=state,
    )
    if time.time() - max(status.st_mtime, status.st_ctime) > _QUIET:
        _headers[key] = info
    else:  # the clock of a file system may be too coarse to show a change that follows
        _headers.pop(key, None)
    return info
