"""Messages between the kernel and its workers.

Workers load the kernel's pickles, as Dask's do anyway. Workers send JSON, which is read as if it came from a server: it
cannot run code here.
"""

from __future__ import annotations

import pickle
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_core import from_json, to_json

from planck_nb.ai.dialect import Dialect, Pause
from planck_nb.ai.models import Model
from planck_nb.ai.retries.retry import Timeouts
from planck_nb.ai.stream_events import StreamEvent, joined
from planck_nb.base import errors
from planck_nb.base.errors import ProviderConnectionError, ProviderError
from planck_nb.base.version import __version__

LEASE_SECONDS = 4.0
"""Seconds until an unconnected kernel's requests end."""

SILENCE_SECONDS = 20.0
"""Longest silence of a worker or scheduler, which may be busy."""

POLL_SECONDS = 1.0
"""Longest wait for a first event."""

PIECE_SECONDS = 0.1
"""Shortest time between two answers of a worker."""

# The most, after a poll, is less than a lease: a question whose connection broke is asked again in time.
_SECONDS_PER_REQUEST, _MAX_JOINING_SECONDS = 0.002, 2.0

HELLO, START, READ = "planck_hello", "planck_start", "planck_read"
"""The workers' operations."""

PartKind: TypeAlias = Literal["head", "body", "events", "end", "error"]

Part: TypeAlias = tuple[str, PartKind, bytes]
"""A piece of an answer: its request, its kind and its content."""

_EVENTS: TypeAdapter[list[StreamEvent | Pause]] = TypeAdapter(
    list[Annotated[StreamEvent | Pause, Field(discriminator="type")]], config=ConfigDict(ser_json_inf_nan="constants")
)


@dataclass(frozen=True, slots=True)
class Setup:
    """The requests' common part, for one model.

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


@lru_cache(maxsize=100)
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


def joining_seconds(requests: int) -> float:
    """Return how long a worker joins events.

    A piece costs the kernel more than its content.

    Args:
        requests: The worker's requests.

    Returns:
        Seconds.
    """
    return min(_MAX_JOINING_SECONDS, PIECE_SECONDS + requests * _SECONDS_PER_REQUEST)


def versions() -> dict[str, str]:
    """Return the versions to compare."""
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "planck_nb": __version__}


def write_events(events: Sequence[StreamEvent | Pause]) -> bytes:
    """Write events, with a part's consecutive chunks joined."""
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
        worker: The worker's name, for its own errors.
    """
    name, message, attributes = from_json(data)
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, ProviderError)):
        return ProviderConnectionError(f"Worker {worker} failed ({name}: {message}); look at its log.")
    if issubclass(kind, ProviderConnectionError):  # it depends on the machine
        message = f"Worker {worker} reports: {message}"
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    vars(error).update(attributes)
    return error
