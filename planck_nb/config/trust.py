"""Trust in a folder: which of its files that can run code or redirect requests the user has allowed.

Such a file is a `TrustItem`: its kind, its path and a digest of its content. Trust is remembered in the user's own
folder by these digests, so a file that is new or has changed is not trusted, and one that is gone changes nothing. The
bytes that are used are always the ones that the digest was computed from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import filelock

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import ConfigError
from planck_nb.base.ownership import foreign_reason
from planck_nb.base.reading import read_bounded
from planck_nb.base.visible import visible

TRUST_FILE = "trust.json"
TRUST_VARIABLE = "PLANCK_NB_TRUST"
"""The environment variable that trusts the folder, for programs that run unattended."""

MAX_BYTES = 1_048_576
"""The most bytes of a file that needs trust."""

_MAX_TRUST_BYTES = 16 * MAX_BYTES
_VERSION = 1
_LOCK_SECONDS = 10.0

_Change: TypeAlias = Callable[[dict[str, dict[str, str]]], object]


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A file of a folder that can run code or redirect requests.

    Args:
        kind: "settings", "models", "variables", "tool", "team", "link" or "sidecar".
        path: The absolute path of the file.
        digest: The SHA-256 of its content.
        description: What it would do, on one line.
        summary: The same with its long parts cut.
    """

    kind: str
    path: Path
    digest: str
    description: str
    summary: str = ""

    @classmethod
    def of(cls, kind: str, path: Path, content: bytes, description: str, summary: str | None = None) -> TrustItem:
        """Make the item of a file with this content; hidden characters in its description are spelled out."""
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - links are kept: they are part of the folder
        shown = _on_one_line(description)
        short = _cut(shown) if summary is None else _on_one_line(summary)
        return cls(kind, absolute, hashlib.sha256(content).hexdigest(), shown, short)


class FolderTrust:
    """What the user trusts in one folder.

    Args:
        folder: The folder of the project.
        user_folder: The user's own folder for planck_nb, whose files need no trust; None if there is none.
        always: Whether everything in the folder is trusted, without remembering it.
        given: Digests of files that are trusted in this process, by path.
    """

    def __init__(
        self,
        folder: Path,
        user_folder: Path | None,
        *,
        always: bool = False,
        given: Mapping[str, str] | None = None,
    ) -> None:
        self.always = always
        self._folder = Path(os.path.realpath(folder))
        self._user_folder = user_folder
        self.given = dict(given or {})
        """What was trusted in this process, which counts even if it cannot be remembered."""
        self.problem = ""
        """A sentence about the trust file if it cannot be used."""
        self._parsed: tuple[tuple[int, ...], dict[str, dict[str, str]]] | None = None

    def is_own(self, path: Path) -> bool:
        """Whether a file is in the user's own folder, with all links resolved."""
        if self._user_folder is None:
            return False
        own = os.path.realpath(self._user_folder)
        return Path(os.path.realpath(path)).is_relative_to(own)

    def accepts(self, item: TrustItem) -> bool:
        """Whether the file may be used with this content."""
        return self.always or item.digest in (self.given.get(str(item.path)), self._known().get(str(item.path)))

    def knows(self, item: TrustItem) -> bool:
        """Whether the file was trusted with some content."""
        return str(item.path) in self.given or str(item.path) in self._known()

    def add(self, items: Iterable[TrustItem]) -> None:
        """Trust these files with their present content, in this process and, if it can be written, from now on."""
        given = {str(item.path): item.digest for item in items}
        if not given:
            return
        self.given |= given
        self._update(lambda folders: folders.setdefault(str(self._folder), {}).update(given))

    def clear(self) -> None:
        """Stop trusting the folder."""
        self.given.clear()
        self._update(lambda folders: folders.pop(str(self._folder), None))

    def _known(self) -> Mapping[str, str]:
        return self._read().get(str(self._folder), {})

    def _read(self) -> Mapping[str, Mapping[str, str]]:
        """What is remembered about all folders. The file is parsed again only if it has changed."""
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
            with filelock.FileLock(path.with_suffix(".lock"), timeout=_LOCK_SECONDS, mode=0o600):
                known = self._read()
                if self.problem:
                    path.replace(path.with_suffix(".bad"))
                folders = {name: dict(files) for name, files in known.items() if Path(name).is_dir()}
                change(folders)
                content = json.dumps({"version": _VERSION, "folders": folders}, indent=1, sort_keys=True)
                write_atomically(path, content.encode(), mode=0o600)
                self.problem = ""

    @property
    def _path(self) -> Path | None:
        return None if self._user_folder is None else self._user_folder / TRUST_FILE


def is_consent(environment: Mapping[str, str]) -> bool:
    """Whether `PLANCK_NB_TRUST` is set to 1, true, yes or on."""
    return environment.get(TRUST_VARIABLE, "").strip().lower() in {"1", "true", "yes", "on"}


def read_item(path: Path, name: str) -> bytes:
    """Read a file that a setting names: a regular one of at most 1 MiB. Raises ConfigError."""
    try:
        return read_bounded(path, MAX_BYTES)[0]
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {path}: {error.strerror or error}.") from error


def _folders(data: object) -> dict[str, dict[str, str]]:
    if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("folders"), dict):
        raise ValueError("it is not a file of this version")
    return {
        str(folder): {str(path): str(digest) for path, digest in files.items()}
        for folder, files in data["folders"].items()
        if isinstance(files, dict)
    }


def _on_one_line(text: str) -> str:
    """The text with hidden characters spelled out, and line breaks too: after one, a shell reads another command."""
    return visible(text.strip()).replace("\n", "⟨U+000A⟩").replace("\t", " ")


def _cut(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
