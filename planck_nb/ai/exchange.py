"""HTTP requests and responses, whether real or recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class HttpTransport(Protocol):
    """An async transport from httpx or httpx2, or a similar object.

    It gets its own library's request, and returns its own library's response.
    """

    async def handle_async_request(self, request: Any) -> Any:  # noqa: ANN401 - of either library
        """Send a request.

        Args:
            request: A `Request`.

        Returns:
            A `Response` whose body is still to be read.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. Its headers have lower-case names, and lack "host" and "content-length"."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenResponse:
    """A response whose body is still arriving, decompressed.

    `headers` have lower-case names. `read` returns the next bytes, empty at the end; `is_at_end` returns whether the
    end is known to have come; `close` gives the connection back, or closes it if the body has not ended.
    """

    status: int
    headers: Mapping[str, str]
    read: Callable[[], Awaitable[bytes]]
    close: Callable[[], Awaitable[None]]
    is_at_end: Callable[[], bool] = bool


class Sender(Protocol):
    """Sends requests."""

    async def send(self, request: HttpRequest) -> OpenResponse:
        """The response, as soon as its head has arrived."""
        ...
