"""Authentication for a connection to a server, and the person to ask."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from planck_nb.base.errors import SidecarSignInError
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    import httpx2


class Person(Protocol):
    """The sidecar's user."""

    async def ask(self, question: Question) -> QuestionAnswer | None:
        """Show a question and return the answer; None without a person."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context in which calls and the start have unlimited time."""
        ...

    def failed(self, error: SidecarSignInError) -> None:
        """End the connection after a failed sign-in."""
        ...


Authorize: TypeAlias = "Callable[[Person], httpx2.Auth]"
"""Factory for a connection's authentication at a server."""
