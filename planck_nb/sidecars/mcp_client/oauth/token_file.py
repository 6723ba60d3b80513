"""A server's file with tokens, which only the user can read."""

from __future__ import annotations

import hashlib
import json
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planck_nb.ai.server_address import shown_url
from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import SidecarError
from planck_nb.base.ownership import foreign_reason
from planck_nb.base.reading import read_bounded

_MAX_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A server's file, named by a digest of its address.

    A sidecar with another address thereby lacks its tokens.

    Args:
        folder: The folder for all such files.
        url: The server's address.
    """

    folder: Path
    url: str

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return self.folder / f"{hashlib.sha256(self.url.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.json"

    def read(self) -> dict[str, Any]:
        """Return the stored values.

        The result is empty if the file is missing, damaged or perhaps read by others.
        """
        with suppress(OSError, ValueError):
            content, status = read_bounded(self.path, _MAX_BYTES)
            values = json.loads(content)
            if (
                isinstance(values, dict)
                and values.get("url") == self.url
                and not stat.S_IMODE(status.st_mode) & 0o077
                and not foreign_reason(self.path)
            ):
                return values
        return {}

    def update(self, **values: object) -> None:
        """Store values; None removes a value.

        Raises:
            SidecarError: The file cannot be written.
        """
        content = {**self.read(), **values, "url": self.url}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OSError):
                if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
                    self.path.unlink()  # replacing it would keep its permissions
            values_to_store = {key: value for key, value in content.items() if value is not None}
            write_atomically(self.path, json.dumps(values_to_store).encode(), mode=0o600)
        except OSError as error:
            address = shown_url(self.url)
            raise SidecarError(
                f"The sign-in to {address} cannot be stored in {self.path} ({error.strerror}); make it writable."
            ) from error
