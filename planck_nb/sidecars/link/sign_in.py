"""Signing in to sidecars over HTTP with OAuth 2.1, if their server asks for that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from planck_nb.base.errors import SidecarSignInError
from planck_nb.sidecars.link.questions import Question, QuestionAnswer
from planck_nb.sidecars.link.sidecar_spec import SidecarSpec

if TYPE_CHECKING:
    import httpx2

SIGN_IN_SECONDS = 300.0
"""Seconds that a person has to sign in."""


class Person(Protocol):
    """The person who uses a sidecar."""

    async def ask(self, question: Question) -> QuestionAnswer | None:
        """Show a question and return the answer; None if no person can be asked."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context in which time limits of calls and of the start wait for the person."""
        ...

    def failed(self, error: SidecarSignInError) -> None:
        """Learn that the person did not sign in, which ends the connection."""
        ...


Authorize: TypeAlias = "Callable[[Person], httpx2.Auth]"
"""Makes what signs in to a server, for one connection."""


def sign_in(spec: SidecarSpec, folder: Path, *, seconds: float = SIGN_IN_SECONDS) -> Authorize | None:
    """Make what signs in to the server of a sidecar when it answers that it wants that.

    The person is shown an address to visit, which is never opened automatically. The browser then comes back to a
    loopback address at which this process listens; if the browser runs on another machine, the person pastes the
    address at which it ended. Tokens are kept in a file that only the user can read, one for each server.

    Args:
        spec: The sidecar.
        folder: Where tokens are kept; it is created when it is needed.
        seconds: How long the person has.

    Returns:
        What `Sidecars(auth=…)` wants; None for a sidecar that is a process, or whose spec already has a token.
    """
    if not spec.url or spec.token or any(name.lower() == "authorization" for name in spec.headers):
        return None

    def authorize(person: Person) -> httpx2.Auth:
        from planck_nb.sidecars.link.oauth import OAuthSignIn  # noqa: PLC0415 - loads mcp

        return OAuthSignIn(spec, person, folder, seconds=seconds)

    return authorize
