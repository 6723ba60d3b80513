"""Interface for engines, which send requests from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from planck_nb.ai.dialect import Pause
from planck_nb.ai.exchange import HttpRequest
from planck_nb.ai.models import Model
from planck_nb.ai.retries.retry import Timeouts
from planck_nb.ai.stream_events import StreamEvent


class Reply(Protocol):
    """An answer on its way. Its headers have lower-case names."""

    status: int
    headers: Mapping[str, str]
    worker: str
    """The worker that reads it, empty for this process."""

    async def body(self) -> bytes:
        """Read a document in place of a stream."""
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
        running: Requests on their way.
        answered: Complete answers.
        failed: Errors.
        problem: Why it is not used, empty if it is.
    """

    worker: str
    running: int
    answered: int
    failed: int
    problem: str


class Engine(Protocol):
    """Sender for requests from elsewhere, such as a cluster.

    The conversation, limits, retries, tools and approvals stay with the caller. So a lost worker loses unfinished
    answers only, and these are asked for again as after a broken connection.
    """

    async def send(self, request: HttpRequest, model: Model, timeouts: Timeouts) -> Reply:
        """Send a request.

        Args:
            request: The request, with its credentials.
            model: The answering model; its wire format decodes the answer.
            timeouts: How long to wait for the server.

        Returns:
            The answer, as soon as its head has arrived.

        Raises:
            ProviderConnectionError: The server, or every worker, is out of reach.
        """
        ...

    def workers(self) -> Sequence[WorkerState]:
        """Return the workers so far."""
        ...
