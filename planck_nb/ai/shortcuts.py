"""Functions that ask models with a default client, one per event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
from collections.abc import Mapping, Sequence

from planck_nb.ai.client import Client, Stream
from planck_nb.ai.messages import AssistantMessage
from planck_nb.ai.model_lookup.catalogue import get_model
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.forks import call_in_forks
from planck_nb.base.json_types import JsonObject
from planck_nb.base.sync import close_with_loop

_clients: dict[asyncio.AbstractEventLoop, Client] = {}


def default_client() -> Client:
    """Return the client that all callers of the running event loop share. It is closed with the loop, or at exit.

    Returns:
        The client, the same one for each call in the same loop.

    Raises:
        RuntimeError: No event loop is running.
    """
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        for ended in [other for other in _clients if other.is_closed()]:
            _clients.pop(ended).discard()
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
    """Ask a model with the event loop's default client, and stream its answer.

    Args:
        model: A model, or "provider:model".
        context: The conversation and the tools.
        max_tokens: See `Options`, like all that follow.
        temperature: The sampling temperature.
        top_p: The probability mass to sample from.
        stop: Texts that end the reply.
        thinking: The level of thinking.
        tool_choice: "auto", "none", "required" or the name of a tool.
        output: A JSON Schema that the text of the reply must match.
        extra: Fields that are merged into the request body unchanged.

    Returns:
        A stream. Iterating it raises `ModelError` or `ProviderError`.

    Raises:
        ModelError: There is no such model.
        RuntimeError: No event loop is running.

    Example:
        >>> import asyncio
        >>> from planck_nb import ai
        >>> async def main():
        ...     async with ai.stream("demo", ai.Context(messages=[ai.UserMessage("hi")])) as stream:
        ...         texts = [event.text async for event in stream if event.type == "text_delta"]
        ...     return "".join(texts) == stream.message.text
        >>> asyncio.run(main())
        True
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
    """Ask a model with the event loop's default client, and wait for its whole answer.

    Args:
        model: A model, or "provider:model".
        context: The conversation and the tools.
        max_tokens: See `Options`, like all that follow.
        temperature: The sampling temperature.
        top_p: The probability mass to sample from.
        stop: Texts that end the reply.
        thinking: The level of thinking.
        tool_choice: "auto", "none", "required" or the name of a tool.
        output: A JSON Schema that the text of the reply must match.
        extra: Fields that are merged into the request body unchanged.

    Returns:
        The message.

    Raises:
        ModelError: There is no such model, or it cannot be used as asked.
        ProviderError: The server, or the connection to it, failed.

    Example:
        >>> import asyncio
        >>> from planck_nb import ai
        >>> reply = asyncio.run(ai.complete("demo", ai.Context(messages=[ai.UserMessage("hi")])))
        >>> reply.stop_reason
        'stop'
    """
    options = Options(max_tokens, temperature, top_p, stop, thinking, tool_choice, output, extra or {})
    return await default_client().complete(_model(model), context, options)


def _model(model: Model | str) -> Model:
    return get_model(model) if isinstance(model, str) else model


async def _close_default_client() -> None:
    if client := _clients.pop(asyncio.get_running_loop(), None):
        await client.aclose()


close_with_loop(_close_default_client)


call_in_forks(_clients.clear)


@atexit.register
def _close_all() -> None:
    """An HTTP client that is not closed complains on stderr, in whichever cell ran last."""
    while _clients:
        loop, client = _clients.popitem()
        if not loop.is_closed() and not loop.is_running():
            with contextlib.suppress(Exception):
                loop.run_until_complete(client.aclose())
        client.discard()
