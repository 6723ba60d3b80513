"""Signing in to sidecars over HTTP with OAuth 2.1, if their server requires that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.sidecars.mcp_client.authorization import Authorize, Person
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

if TYPE_CHECKING:
    import httpx2

SIGN_IN_SECONDS = 300.0
"""Seconds that a person has to sign in."""


def sign_in(spec: SidecarSpec, folder: Path, *, seconds: float = SIGN_IN_SECONDS) -> Authorize | None:
    """Make the authentication for the server of a sidecar; it signs in only if the server requires that.

    The person is shown an address to visit, which is never opened automatically. The browser then comes back to a
    loopback address at which this process listens; if the browser runs on another machine, the person pastes the
    address at which it ended. Tokens are kept in a file that only the user can read, one for each server.

    Args:
        spec: The sidecar.
        folder: Where tokens are kept; it is created when it is needed.
        seconds: How long the person has.

    Returns:
        What `auth` of `Sidecars` returns; None for a sidecar that is a process, or whose spec already has a token.
    """
    if not spec.url or spec.token or any(name.lower() == "authorization" for name in spec.headers):
        return None

    def authorize(person: Person) -> httpx2.Auth:
        from planck_nb.sidecars.mcp_client.oauth import OAuthSignIn  # noqa: PLC0415 - loads mcp

        return OAuthSignIn(spec, person, folder, seconds=seconds)

    return authorize
