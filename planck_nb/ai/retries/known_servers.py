"""What the process knows of the servers that it talks to, shared by all clients."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from planck_nb.ai.context_windows import ContextWindows
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of, has_address
from planck_nb.ai.retries.rate_limiter import RateLimiter
from planck_nb.base.forks import call_in_forks

K = TypeVar("K")
V = TypeVar("V")

_MAX_REMEMBERED = 256
"""How many of each are remembered: servers that were reached or refused images, and the limiters used last."""


class KnownServers:
    """The servers that have answered, a rate limiter for each model and key at each of them, and what they refused."""

    def __init__(self) -> None:
        self.windows = ContextWindows()
        self._lock = threading.Lock()
        self._reached: OrderedDict[str, None] = OrderedDict()
        self._without_images: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._limiters: OrderedDict[tuple[object, ...], RateLimiter] = OrderedDict()

    def was_reached(self, url: str) -> bool:
        """Whether the server of this URL has ever answered, with any status."""
        return _origin(url) in self._reached

    def reached(self, url: str) -> None:
        """Remember that the server of this URL has answered."""
        if (origin := _origin(url)) not in self._reached:
            with self._lock:
                _remember(self._reached, origin, None)

    def refused_images(self, model: Model) -> None:
        """Remember that the server of a model does not accept images for it."""
        with self._lock:
            _remember(self._without_images, (base_url_of(model), model.id), None)

    def accepting(self, model: Model) -> Model:
        """The model as its server accepts it: without images if it has refused them."""
        if not self._without_images or not has_address(model):
            return model
        if (base_url_of(model), model.id) not in self._without_images:
            return model
        kinds = ("text", "pdf") if model.modalities is None else model.modalities
        return replace(model, modalities=tuple(kind for kind in kinds if kind != "image"))

    def limiter(self, url: str, model: Model, key: str | None, clock: Callable[[], float]) -> RateLimiter:
        """The rate limiter for requests to a model, which servers count by model and by key."""
        identity = (_origin(url), str(model), hash(key), clock)
        with self._lock:
            found = self._limiters.get(identity)
            if found is None:
                found = RateLimiter(clock)
                _remember(self._limiters, identity, found)
            else:
                self._limiters.move_to_end(identity)
            return found


def known_servers(transport: object | None) -> KnownServers:
    """The servers of the network, or those behind a transport that is used instead of it."""
    if transport is None:
        return _of_the_network
    try:
        return _behind_transports.setdefault(transport, KnownServers())
    except TypeError:  # it has no weak references or no hash
        return KnownServers()


def _remember(known: OrderedDict[K, V], name: K, value: V) -> None:
    known[name] = value
    while len(known) > _MAX_REMEMBERED:
        known.popitem(last=False)


@lru_cache
def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


_of_the_network = KnownServers()
_behind_transports: WeakKeyDictionary[object, KnownServers] = WeakKeyDictionary()


def _forget_all() -> None:
    # A lock that another thread held at the fork stays locked.
    global _of_the_network  # noqa: PLW0603 - a forked process starts again
    _of_the_network = KnownServers()
    _behind_transports.clear()


call_in_forks(_forget_all)
