"""HTTP requests and responses, whether real or recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from planck_nb.ai.dialect import Pause
    from planck_nb.ai.models import Model
    from planck_nb.ai.retries.retry import Timeouts
    from planck_nb.ai.stream_events import StreamEvent


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


class Reply(Protocol):
    """An answer that is being read.

    `headers` have lower-case names.
    """

    status: int
    headers: Mapping[str, str]

    async def body(self) -> bytes:
        """Read an answer that is no stream, up to the size of an error."""
        ...

    async def next_batch(self) -> list[StreamEvent | Pause] | None:
        """Read the next events, None after the last.

        Raises:
            ProviderError: The answer is broken, or reports an error.
        """
        ...

    async def aclose(self) -> None:
        """Stop reading, and end the connection unless it can be used again."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker's share of an engine's requests.

    Args:
        worker: The worker's address.
        running: Requests that it answers now.
        answered: Requests that it has answered.
        failed: Requests that ended in an error.
        problem: Why it is not used, empty if it is.
    """

    worker: str
    running: int
    answered: int
    failed: int
    problem: str


class Engine(Protocol):
    """Sends requests from elsewhere, such as from a cluster, and has their answers read there.

    The conversation, limits, retries, tools and approvals stay with the caller. So a lost worker loses the answers that
    it was reading, and these are asked for again as after a broken connection.
    """

    async def send(self, request: HttpRequest, model: Model, timeouts: Timeouts) -> Reply:
        """Send a request.

        Args:
            request: The request, with its credentials.
            model: The model that answers; its wire format decodes the answer.
            timeouts: How long to wait for the server.

        Returns:
            The answer, as soon as its head has arrived.

        Raises:
            ProviderConnectionError: No server or no worker could be reached.
        """
        ...

    def workers(self) -> Sequence[WorkerState]:
        """Return the workers so far."""
        ...
