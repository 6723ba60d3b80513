"""Credentials that are computed for each request: signatures, and tokens that expire."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from planck_nb.base.errors import ModelError, PlanckError
from planck_nb.base.secrets import MIN_LENGTH, is_secret_name, remember_secret
from planck_nb.base.threads import run_in_thread


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that is about to be sent, as an `Auth` function receives it.

    Args:
        method: The HTTP method, such as "POST".
        url: The whole URL.
        headers: All headers by their lower-case names, "host" and "content-length" included.
        body: The bytes of the body, empty for a GET request.
        rejected: True if the server has just answered 401 to what the function returned before, so that a cached token
            has to be replaced.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    rejected: bool = False


Auth: TypeAlias = Callable[[OutgoingRequest], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""A function, sync or async, that returns the headers to add to a request. Sync functions run in a thread."""


class Authenticator:
    """Calls an `Auth` function for each attempt to send one request.

    `rejected` is what the next call is told. `secrets` are the credentials that the function has returned so far, which
    must not appear in messages or recordings.
    """

    def __init__(self, auth: Auth, name: str) -> None:
        self.rejected = False
        self.secrets: set[str] = set()
        self._auth = auth
        self._name = name

    async def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The headers to add. Raises `ModelError` if the function fails or returns no headers."""
        request = OutgoingRequest(method, url, headers, body, self.rejected)
        try:
            if inspect.iscoroutinefunction(self._auth):
                returned = await self._auth(request)
            else:
                returned = await run_in_thread(lambda: self._auth(request))
                if inspect.isawaitable(returned):
                    returned = await returned
        except PlanckError:
            raise
        except Exception as error:
            raise ModelError(
                f"The auth function of {self._name} failed ({type(error).__name__}: {error}); correct it."
            ) from error
        if not isinstance(returned, Mapping) or not all(_is_header(*item) for item in returned.items()):
            raise ModelError(
                f"The auth function of {self._name} returned no headers; return a dict of header names and values."
            )
        added = {name.lower(): value for name, value in returned.items()}
        self.secrets |= secrets_in(added)
        for secret in self.secrets:
            if not secret.startswith("Signature="):  # each request has its own
                remember_secret(secret, "key")
        return added


def secrets_in(headers: Mapping[str, str]) -> set[str]:
    """The credentials in request headers, without the scheme such as "Bearer" before them."""
    return {
        word
        for name, value in headers.items()
        if name in _CREDENTIALS or is_secret_name(name)
        for word in value.split()
        if len(word) >= MIN_LENGTH
    }


_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})


def _is_header(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, str) and "\n" not in value and "\r" not in value
