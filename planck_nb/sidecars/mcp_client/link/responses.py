"""Waiting for an answer, the connection's loss or the time limit."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, URL_ELICITATION_REQUIRED, CallToolResult, TextContent

from planck_nb.base.errors import SidecarError, SidecarLostError, SidecarTimeoutError, ToolError
from planck_nb.base.secrets import redact
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.link.call_progress import CallProgress
from planck_nb.sidecars.mcp_client.link.connection import Connection
from planck_nb.sidecars.mcp_client.link.state import OlderProtocolNeeded
from planck_nb.sidecars.mcp_client.transports.open_requests import is_not_mcp

T = TypeVar("T")

_CANCEL_SECONDS = 1.0
"""Seconds for sending the notice about a cancelled call."""

_REASON_CHARACTERS = 500
_TOO_LARGE = "it sent a message of more than"
_ASKS_IN_VAIN = re.compile(r"Cannot send '(?:elicitation|sampling|roots)/\w+': .*no back-channel")
"""A library's error about an old question in the newest protocol."""

_EVENT_FAILED = "SSE stream failed"
"""The SDK's report about a very large event."""


async def answer_to(
    connection: Connection,
    request: asyncio.Task[T],
    seconds: float,
    what: str,
    progress: CallProgress | None = None,
) -> T:
    """Wait for a request, with the connection's loss and a time limit.

    The request is a separate task: if the SDK loses the connection, it may cancel whatever waits for it, and the caller
    must not take this for a cancellation of its own task.
    """
    request.add_done_callback(_retrieve_exception)
    try:
        await connection.first_of(request, connection.lost, seconds=seconds, progress=progress)
    except asyncio.CancelledError:
        request.cancel()
        await asyncio.wait([request], timeout=_CANCEL_SECONDS)  # the notice to the sidecar is sent meanwhile
        raise
    if request.done() and not request.cancelled():
        try:
            return request.result()
        except Exception as error:  # noqa: BLE001 - whatever the SDK and the server make of it
            failure = _failure(connection, error, what)
        raise failure
    is_lost = connection.lost.done() or request.done()
    request.cancel()
    if is_lost:
        raise _lost(connection, what)
    await asyncio.wait([request], timeout=_CANCEL_SECONDS)
    limit = f"{round(seconds, 2):g} s"
    time = f"within {limit}" if progress is None or not progress.newest else f"in spite of its progress (limit {limit})"
    raise SidecarTimeoutError(
        f"{what} of the sidecar {connection.sidecar} did not answer {time}, and the call was cancelled; ask for less, "
        "or allow more time with timeout_ms."
    )


def require_back_channel(connection: Connection, result: CallToolResult) -> None:
    """Raise `OlderProtocolNeeded` for a call which failed because it could not ask."""
    if result.is_error and not connection.is_older:
        for item in result.content:
            if isinstance(item, TextContent) and _ASKS_IN_VAIN.search(item.text):
                raise OlderProtocolNeeded(item.text)


def _lost(connection: Connection, what: str) -> SidecarLostError:
    reason = connection.lost.result() if connection.lost.done() else "the connection was closed"
    return SidecarLostError(
        f"The sidecar {connection.sidecar} was lost during the call of {what} ({reason}); the call may or may not have "
        "run, so find out before you repeat it."
    )


def _failure(connection: Connection, error: Exception, what: str) -> Exception:  # noqa: PLR0911 - one a kind
    """Return the error for a request's exception."""
    if isinstance(error, SidecarError | ToolError):
        return error
    if not connection.is_older and _ASKS_IN_VAIN.search(str(error)):
        return OlderProtocolNeeded(str(error))
    where = f"{what} of the sidecar {connection.sidecar}"
    message = one_line(visible(redact(str(error))), _REASON_CHARACTERS).rstrip(".")
    if isinstance(error, MCPError):
        if is_not_mcp(error.error) and _TOO_LARGE not in message:
            return SidecarError(f"{where} answered with something that is not MCP: {message}.")
        if _TOO_LARGE in message or _EVENT_FAILED in message:
            return SidecarError(f"{where} sent a message of more than 10 MB; ask for less at once.")
        if connection.lost.done() or error.code == CONNECTION_CLOSED:
            connection.check()  # over HTTP it may have been this call's connection only
            return _lost(connection, what)
        if error.code == URL_ELICITATION_REQUIRED:
            return SidecarError(f"{where} needs the user to visit an address first: {_addresses(error)}.")
        return SidecarError(f"{where} answered with an error: {message or error.code}.")
    if isinstance(error, ValueError):  # pydantic's, about a part that is not repaired
        return SidecarError(f"{where} answered with something that is not MCP.")
    if isinstance(error, RuntimeError):  # the SDK's own checks, such as for the output schema
        return SidecarError(f"{where} answered with a result that cannot be used: {message}.")
    return SidecarLostError(f"{where} failed: {type(error).__name__}: {message}.")


def _addresses(error: MCPError) -> str:
    """Return the whole addresses to visit before a call."""
    data = error.error.data
    requests = data.get("elicitations", ()) if isinstance(data, dict) else ()
    urls = [str(item.get("url")) for item in requests if isinstance(item, dict)]
    return " and ".join(visible(url, lookalikes=True) for url in urls) or "it does not say which"


def _retrieve_exception(request: asyncio.Task[T]) -> None:
    """Retrieve an abandoned request's exception; otherwise Python would print it."""
    if not request.cancelled():
        request.exception()
