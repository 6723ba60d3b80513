"""Creates and opens the sessions of a workspace, signed with the user's key."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from planck_nb.base.async_tasks import uninterrupted
from planck_nb.base.errors import ConfigError, SessionError, SessionLockedError, SessionNotFoundError
from planck_nb.base.threads import run_in_thread
from planck_nb.config import user_key
from planck_nb.sessions import Session, SessionInfo, Signer, last_used_first, list_sessions
from planck_nb.tools.private_folders import make_private_folder
from planck_nb.workspace.trusted_config import TrustedConfig


async def close_session(session: Session) -> None:
    """Close a session. Updating the DuckDB file of a long one takes seconds; a stop is delivered after that."""
    await uninterrupted(asyncio.ensure_future(run_in_thread(session.close)))


class WorkspaceSessions:
    """The directory of a workspace's sessions.

    Args:
        config: The configuration, which names the directory.
        owner: Identifies the workspace to others that try to open the same session.
    """

    def __init__(self, config: TrustedConfig, owner: str = "") -> None:
        self._config = config
        self._temporary: Path | None = None
        self._moved: Path | None = None
        self.problem = ""
        """The reason why the sessions are in a temporary directory, else empty."""
        self.owner = owner

    @property
    def directory(self) -> Path:
        """The directory that contains the sessions; a temporary one if the first could not be created there."""
        return self._moved or self._temporary or self._config.config.sessions_dir

    def follow(self, directory: Path) -> None:
        """Use the directory where it is now, after it was moved while a session was open."""
        self._moved = directory

    @property
    def key_problem(self) -> str:
        """A sentence about the user's key if it cannot be used, else empty."""
        return self._signing.problem

    def sessions(self) -> list[SessionInfo]:
        """The stored sessions, the oldest first."""
        return list_sessions(self.directory)

    def start(self, session_id: str, name: str) -> Session:
        """Create a session in the configured directory, or else in a temporary one."""
        try:
            return self._start(session_id, name)
        except SessionError as error:
            if type(error) is not SessionError or not isinstance(error.__cause__, OSError) or self._temporary:
                raise
            self.problem = error.__cause__.strerror or str(error.__cause__)
        self._temporary = make_private_folder()
        return self._start(session_id, name)

    def _start(self, session_id: str, name: str) -> Session:
        signer = self._signing.signer
        return Session.start(session_id, name=name, directory=self.directory, owner=self.owner, signer=signer)

    def open(self, id_or_name: str, *, take_over: bool = False) -> Session:
        """Open a stored session; `take_over` as in `Session.open`."""
        signer = self._signing.signer
        return Session.open(self.directory, id_or_name, owner=self.owner, signer=signer, take_over=take_over)

    def open_last_used(self) -> Session:
        """Open the last used session that is not open."""
        for info in last_used_first(self.sessions()):
            with suppress(SessionLockedError):
                return self.open(info.id)
        raise SessionNotFoundError("There is no other session to resume; `%planck sessions` lists them.")

    @cached_property
    def _signing(self) -> _Signing:
        return _Signing.of(self._config.config.user_folder)


@dataclass(frozen=True, slots=True)
class _Signing:
    """The signer of sessions, and a sentence about the user's key if it cannot be used."""

    signer: Signer
    problem: str = ""

    @classmethod
    def of(cls, folder: Path | None) -> _Signing:
        problem = "There is no home folder for the key of your sessions; set HOME."
        if folder is not None:
            try:
                return cls(Signer(user_key(folder)))
            except ConfigError as error:
                problem = str(error)
        # With a key of its own, a fork or a return to a branch still finds what this process has written.
        return cls(Signer(secrets.token_bytes(32)), problem)
