"""What the kernel and its workers send one another.

Workers load what the kernel pickles, as Dask's do anyway. What workers send is JSON and read as if it came from a
server: it can neither run code here nor be something else than events, a body or an error.
"""

from __future__ import annotations

import pickle
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_core import from_json, to_json

from planck_nb import __version__
from planck_nb.ai.dialect import Dialect, Pause
from planck_nb.ai.models import Model
from planck_nb.ai.retries.retry import Timeouts
from planck_nb.ai.stream_events import StreamEvent, joined
from planck_nb.base import errors
from planck_nb.base.errors import ProviderConnectionError, ProviderError

LEASE_SECONDS = 4.0
"""A worker ends all requests for a kernel that was silent for so long."""

POLL_SECONDS = 1.0
"""Longest time between two signs of life from the kernel."""

PIECE_SECONDS = 0.1
"""Shortest time between two pieces of an answer."""

CROWD, CROWD_SECONDS = 20, 0.3
"""The same for a worker with so many requests: nobody reads them all while they are written."""

HELLO, START, READ = "planck_hello", "planck_start", "planck_read"
"""Names of the workers' operations."""

PartKind: TypeAlias = Literal["head", "body", "events", "end", "error"]

Part: TypeAlias = tuple[str, PartKind, bytes]
"""A piece of an answer: its request, its kind and its content."""

_EVENTS: TypeAdapter[list[StreamEvent | Pause]] = TypeAdapter(
    list[Annotated[StreamEvent | Pause, Field(discriminator="type")]], config=ConfigDict(ser_json_inf_nan="constants")
)


@dataclass(frozen=True, slots=True)
class Setup:
    """What requests to one model have in common.

    Args:
        model: The model.
        wire: Its wire format.
        timeouts: How long to wait for its server.
    """

    model: Model
    wire: Dialect
    timeouts: Timeouts

    def pickled(self) -> bytes:
        """Return it as bytes, without credentials."""
        return pickle.dumps(replace(self, model=replace(self.model, api_key=None, auth=None, found=None)))


def setup_of(data: bytes) -> Setup:
    """Load a setup, on a worker."""
    setup: Setup = pickle.loads(data)  # noqa: S301 - from the kernel, whose functions Dask runs
    return setup


@dataclass(frozen=True, slots=True)
class Order:
    """A request for a worker.

    Args:
        id: Its id.
        setup: The number of its setup.
        url: Its address.
        headers: Its headers, with the credentials.
        body: Its body.
    """

    id: str
    setup: int
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def versions() -> dict[str, str]:
    """Return what has to be the same on both sides."""
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "planck_nb": __version__}


def write_events(events: Sequence[StreamEvent | Pause]) -> bytes:
    """Write events, with consecutive chunks of a part joined."""
    return _EVENTS.dump_json([*joined(events)])  # type: ignore[arg-type]


def read_events(data: bytes) -> list[StreamEvent | Pause]:
    """Read events. Raises `ValueError` for anything else."""
    return _EVENTS.validate_json(data)


def write_error(error: Exception) -> bytes:
    """Write an error with its attributes."""
    return to_json([type(error).__name__, str(error), vars(error)], fallback=repr)


def read_error(data: bytes, worker: str) -> ProviderError:
    """Read an error.

    Args:
        data: The error, as written.
        worker: The worker's name, for errors of the worker itself.
    """
    name, message, attributes = from_json(data)
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, ProviderError)):
        return ProviderConnectionError(f"Worker {worker} failed ({name}: {message}); look at its log.")
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    vars(error).update(attributes)
    return error
