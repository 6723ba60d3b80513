"""Asking models without keeping a client: one default client per event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
from collections.abc import Mapping, Sequence

from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client, Stream
from planck_nb.ai.messages import AssistantMessage
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.json_types import JsonObject
from planck_nb.base.sync import close_with_loop

_clients: dict[asyncio.AbstractEventLoop, Client] = {}


def default_client() -> Client:
    """The client that the running event loop's callers share. It is closed when the loop ends, or at exit."""
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        for ended in [other for other in _clients if other.is_closed()]:
            _clients.pop(ended).abandon()
        client = _clients[loop] = Client()
    return client


def stream(
    model: Model | str,
    context: Context,
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    stop: Sequence[str] = (),
    thinking: str | None = None,
    tool_choice: str | None = None,
    output: JsonObject | None = None,
    extra: Mapping[str, object] | None = None,
) -> Stream:
    """The answer of a model as it comes. `model` may be "provider:model"; the options are those of `Options`.

    Needs a running event loop. Raises `ModelError` for a model that does not exist; iterating raises the rest.
    """
    options = Options(max_tokens, temperature, top_p, stop, thinking, tool_choice, output, extra or {})
    return default_client().stream(_model(model), context, options)


async def complete(
    model: Model | str,
    context: Context,
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    stop: Sequence[str] = (),
    thinking: str | None = None,
    tool_choice: str | None = None,
    output: JsonObject | None = None,
    extra: Mapping[str, object] | None = None,
) -> AssistantMessage:
    """The whole answer of a model; otherwise like `stream`. Raises `ModelError` or `ProviderError`."""
    options = Options(max_tokens, temperature, top_p, stop, thinking, tool_choice, output, extra or {})
    return await default_client().complete(_model(model), context, options)


def _model(model: Model | str) -> Model:
    return get_model(model) if isinstance(model, str) else model


async def _close_default_client() -> None:
    if client := _clients.pop(asyncio.get_running_loop(), None):
        await client.aclose()


close_with_loop(_close_default_client)


@atexit.register
def _close_all() -> None:
    """An HTTP client that is not closed complains on stderr, in whichever cell ran last."""
    while _clients:
        loop, client = _clients.popitem()
        if not loop.is_closed() and not loop.is_running():
            with contextlib.suppress(Exception):
                loop.run_until_complete(client.aclose())
        client.abandon()
