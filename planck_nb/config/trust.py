"""The user's trust in a folder's files.

A file that can run code or redirect requests, or an entry in one, is a `TrustItem` with a digest and a complete
description. The user's own folder keeps the digests, so a new or changed file is not trusted, and a missing one changes
nothing. Used bytes are always the ones behind the digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import filelock

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import ConfigError
from planck_nb.base.file_locks import refuses_locks
from planck_nb.base.ownership import foreign_reason
from planck_nb.base.reading import read_bounded
from planck_nb.base.secrets import without_generated_keys
from planck_nb.base.visible import visible

TRUST_FILE = "trust.json"
TRUST_VARIABLE = "PLANCK_NB_TRUST"
"""The environment variable that trusts the folder, for programs that run unattended."""

MAX_BYTES = 1_048_576
"""The most bytes of a file that needs trust."""

_MAX_TRUST_BYTES = 16 * MAX_BYTES
_MAX_TEXT = 100_000
"""Characters in a remembered description, for showing changes."""

_VERSION = 1
_LOCK_SECONDS = 10.0


class Trusted(NamedTuple):
    """An item as the user trusted it.

    Args:
        digest: Its digest.
        text: Its text, unless very long.
        time: The time in seconds since the epoch.
    """

    digest: str
    text: str = ""
    time: float = 0.0


_Change: TypeAlias = Callable[[dict[str, dict[str, Trusted]]], object]


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A file, or an entry in one, which needs trust.

    Args:
        kind: "settings", "models", "variables", "tool", "team", "link" or "sidecar".
        path: The file's absolute path; for an entry `#` and its name follow.
        digest: The SHA-256 digest for everything to be used.
        name: A name to show, such as the sidecar's; empty if the path says enough.
        details: Everything that it would do, as labels and texts.
    """

    kind: str
    path: Path
    digest: str
    name: str = ""
    details: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, kind: str, path: Path, content: bytes, details: Iterable[tuple[str, str]], *, name: str = ""
    ) -> TrustItem:
        """Make an item, and spell out invisible characters and lookalikes.

        Args:
            kind: The kind.
            path: The file.
            content: Everything behind the digest.
            details: Labels and texts; keys in known formats are left out, and empty texts with their labels.
            name: A name to show.
        """
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - links are kept: they are part of the folder
        safe = tuple((_one_line(label), _shown(text)) for label, text in details if text)
        return cls(kind, absolute, hashlib.sha256(content).hexdigest(), _one_line(name), safe)

    @property
    def title(self) -> str:
        """Kind and name, which are one for a project's own sidecar."""
        return self.kind if self.name in ("", self.kind) else f"{self.kind} {self.name}"

    @property
    def text(self) -> str:
        """The details as lines."""
        return "\n".join(labelled(label, text) for label, text in self.details)


def labelled(label: str, text: str) -> str:
    """Return a label with a text beside it, or marked lines below."""
    if "\n" not in text:
        return f"{label}: {text}"
    return f"{label}:\n" + "\n".join(f"  | {line}" for line in text.split("\n"))


class FolderTrust:
    """The user's trust in one folder.

    Args:
        folder: The folder of the project.
        user_folder: The user's own folder for planck_nb, whose files need no trust; None if there is none.
        always: Whether everything in the folder is trusted, without remembering it.
        given: What is trusted in this process, by path.
    """

    def __init__(
        self,
        folder: Path,
        user_folder: Path | None,
        *,
        always: bool = False,
        given: Mapping[str, Trusted] | None = None,
    ) -> None:
        self.always = always
        self._folder = Path(os.path.realpath(folder))
        self._user_folder = user_folder
        self.given = dict(given or {})
        """Items trusted in this process.

        They count even if they cannot be remembered.
        """
        self.problem = ""
        """A sentence about the trust file if it cannot be used."""
        self._parsed: tuple[tuple[int, ...], dict[str, dict[str, Trusted]]] | None = None

    def is_own(self, path: Path) -> bool:
        """Return whether a file is in the user's own folder.

        All links are resolved.
        """
        if self._user_folder is None:
            return False
        own = os.path.realpath(self._user_folder)
        return Path(os.path.realpath(path)).is_relative_to(own)

    def accepts(self, item: TrustItem) -> bool:
        """Return whether an item may be used as it is."""
        path = str(item.path)
        digests = [entry.digest for entry in (self.given.get(path), self._known().get(path)) if entry is not None]
        return self.always or item.digest in digests

    def trusted(self, item: TrustItem) -> Trusted | None:
        """Return what the user trusted last under this item's path, None for a new one."""
        return self.given.get(str(item.path)) or self._known().get(str(item.path))

    def add(self, items: Iterable[TrustItem]) -> None:
        """Trust items as they are.

        This holds in this process and, if it can be written, from now on.
        """
        now = time.time()
        entries = {str(item.path): Trusted(item.digest, _kept(item.text), now) for item in items}
        if not entries:
            return
        self.given |= entries
        self._update(lambda folders: folders.setdefault(str(self._folder), {}).update(entries))

    def remove(self, items: Iterable[TrustItem]) -> None:
        """Stop trusting items, in whatever form."""
        paths = [str(item.path) for item in items]

        def change(folders: dict[str, dict[str, Trusted]]) -> None:
            for path in paths:
                folders.get(str(self._folder), {}).pop(path, None)

        for path in paths:
            self.given.pop(path, None)
        self._update(change)

    def clear(self) -> None:
        """Stop trusting the folder."""
        self.given.clear()
        self._update(lambda folders: folders.pop(str(self._folder), None))

    def _known(self) -> Mapping[str, Trusted]:
        return self._read().get(str(self._folder), {})

    def _read(self) -> Mapping[str, Mapping[str, Trusted]]:
        """Return what is remembered about all folders.

        The file is parsed again only if it has changed.
        """
        self.problem = ""
        path = self._path
        if path is None or not path.exists():
            return {}
        try:
            status = path.stat()
            if reason := foreign_reason(path):
                self.problem = f"{path} is not used, because {reason}."
                return {}
            version = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            if self._parsed is None or self._parsed[0] != version:
                data, _ = read_bounded(path, _MAX_TRUST_BYTES)
                self._parsed = version, _folders(json.loads(data))
            return self._parsed[1]
        except (OSError, ValueError, RecursionError) as error:
            self.problem = f"{path} is not used, because it cannot be read: {error}."
            return {}

    def _update(self, change: _Change) -> None:
        path = self._path
        if path is None:
            return
        with suppress(OSError, filelock.Timeout):  # then it holds for this process only
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _lock_of(path):
                known = self._read()
                if self.problem:
                    path.replace(path.with_suffix(".bad"))
                folders = {name: dict(files) for name, files in known.items() if Path(name).is_dir()}
                change(folders)
                data = {
                    folder: {path: entry._asdict() for path, entry in entries.items()}
                    for folder, entries in folders.items()
                }
                content = json.dumps({"version": _VERSION, "folders": data}, indent=1, sort_keys=True)
                write_atomically(path, content.encode(), mode=0o600)
                self.problem = ""

    @property
    def _path(self) -> Path | None:
        return None if self._user_folder is None else self._user_folder / TRUST_FILE


def _lock_of(path: Path) -> filelock.BaseFileLock:
    """Return the file's lock.

    It is another file, or this one's existence where files cannot be locked.
    """
    lock = path.with_suffix(".lock")
    if refuses_locks(lock):
        return filelock.SoftFileLock(path.with_suffix(".lock.held"), timeout=_LOCK_SECONDS, mode=0o600)
    return filelock.FileLock(lock, timeout=_LOCK_SECONDS, mode=0o600)


def is_consent(environment: Mapping[str, str]) -> bool:
    """Return whether `PLANCK_NB_TRUST` is set to 1, true, yes or on."""
    return environment.get(TRUST_VARIABLE, "").strip().lower() in {"1", "true", "yes", "on"}


def read_item(path: Path, name: str) -> bytes:
    """Read a regular file named by a setting.

    Raises:
        ConfigError: It cannot be read, or is longer than 1 MiB.
    """
    try:
        return read_bounded(path, MAX_BYTES)[0]
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {path}: {error.strerror or error}.") from error


def _folders(data: object) -> dict[str, dict[str, Trusted]]:
    if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("folders"), dict):
        raise ValueError("it is not a file of this version")
    return {
        str(folder): {str(path): item for path, entry in entries.items() if (item := _trusted(entry)) is not None}
        for folder, entries in data["folders"].items()
        if isinstance(entries, dict)
    }


def _trusted(entry: object) -> Trusted | None:
    match entry:
        case {"digest": str(digest), "text": str(text), "time": int() | float() as time_trusted}:
            return Trusted(digest, text, float(time_trusted))
        case _:
            return None


def _kept(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else ""


def _shown(text: str) -> str:
    return visible(without_generated_keys(text.strip("\n")), lookalikes=True)


def _one_line(text: str) -> str:
    """Return a label or name, in which a line break cannot begin another label."""
    return _shown(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")
