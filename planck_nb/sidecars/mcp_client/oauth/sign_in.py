"""Sign-in to sidecars over HTTP with OAuth 2.1, on their server's demand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.sidecars.mcp_client.link.authorization import Authorize, Person
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

if TYPE_CHECKING:
    import httpx2

    from planck_nb.sidecars.mcp_client.oauth.checked_requests import SignInNetwork

SIGN_IN_SECONDS = 300.0
"""Seconds for a person's sign-in."""


def sign_in(
    spec: SidecarSpec, folder: Path, *, seconds: float = SIGN_IN_SECONDS, network: SignInNetwork | None = None
) -> Authorize | None:
    """Make the authentication for a sidecar's server.

    It signs in only on the server's demand.

    The person sees an address to visit, which is never opened automatically. The browser then comes back to a loopback
    address at which this process listens; if the browser runs on another machine, the person pastes its final address.
    Tokens are kept in a file for the user alone, one for each server.

    Args:
        spec: The sidecar.
        folder: The folder for tokens; it is created on demand.
        seconds: Time for the person.
        network: The network for the sign-in's requests, by default the real one.

    Returns:
        The authentication for `auth` in `Sidecars`; None for a process, or a spec with a token.
    """
    if not spec.url or spec.token or any(name.lower() == "authorization" for name in spec.headers):
        return None

    def authorize(person: Person) -> httpx2.Auth:
        from planck_nb.sidecars.mcp_client.oauth.oauth import OAuthSignIn  # noqa: PLC0415 - loads mcp

        return OAuthSignIn(spec, person, folder, seconds=seconds, network=network)

    return authorize
