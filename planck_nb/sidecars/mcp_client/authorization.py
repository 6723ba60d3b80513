"""The authentication of one connection to a server, and the person whom it asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from planck_nb.base.errors import SidecarSignInError
from planck_nb.sidecars.mcp_client.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    import httpx2


class Person(Protocol):
    """The person who uses a sidecar."""

    async def ask(self, question: Question) -> QuestionAnswer | None:
        """Show a question and return the answer; None if no person can be asked."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context in which the time limits of calls and of the start are paused."""
        ...

    def failed(self, error: SidecarSignInError) -> None:
        """Called when the user did not sign in, which ends the connection."""
        ...


Authorize: TypeAlias = "Callable[[Person], httpx2.Auth]"
"""Makes the authentication of one connection to a server."""
