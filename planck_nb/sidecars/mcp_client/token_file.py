"""The file with the tokens of one server, which only the user can read."""

from __future__ import annotations

import hashlib
import json
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import SidecarError
from planck_nb.base.ownership import foreign_reason
from planck_nb.base.reading import read_bounded

_MAX_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The file of a server, named by a digest of its address: a sidecar with another address gets none of its tokens.

    Args:
        folder: The folder of all such files.
        url: The address of the server.
    """

    folder: Path
    url: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"{hashlib.sha256(self.url.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.json"

    def read(self) -> dict[str, Any]:
        """Return what is stored; nothing if the file is missing, damaged or may have been read by others."""
        with suppress(OSError, ValueError):
            content, status = read_bounded(self.path, _MAX_BYTES)
            found = json.loads(content)
            if (
                isinstance(found, dict)
                and found.get("url") == self.url
                and not stat.S_IMODE(status.st_mode) & 0o077
                and not foreign_reason(self.path)
            ):
                return found
        return {}

    def update(self, **values: object) -> None:
        """Store values; None removes one.

        Raises:
            SidecarError: The file cannot be written.
        """
        content = {**self.read(), **values, "url": self.url}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OSError):
                if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
                    self.path.unlink()  # replacing it would keep its permissions
            kept = {key: value for key, value in content.items() if value is not None}
            write_atomically(self.path, json.dumps(kept).encode(), mode=0o600)
        except OSError as error:
            raise SidecarError(
                f"The sign-in to {self.url} cannot be stored in {self.path} ({error.strerror}); make it writable."
            ) from error
