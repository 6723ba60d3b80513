"""Requests without an answer so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types import (
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION

_NOT_MCP = "dev.planck/not_mcp"
"""The data in an error which stands for an unusable answer."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request without an answer so far.

    Args:
        method: Its method.
        version: The protocol version in use.
        params: Its parameters.
    """

    method: str
    version: str = LATEST_HANDSHAKE_VERSION
    params: Mapping[str, Any] = field(default_factory=dict)


class OpenRequests:
    """A connection's open requests, by id.

    Ids are compared as JSON-RPC clients do: "7" is the same as 7.
    """

    def __init__(self) -> None:
        self.version = LATEST_HANDSHAKE_VERSION
        """The protocol version of requests which do not name theirs."""
        self._requests: dict[RequestId, OpenRequest] = {}
        self._issued: set[RequestId] = set()
        self._highest = 0

    def note_sent(self, message: JSONRPCMessage) -> None:
        """Note a message, which may open or withdraw a request."""
        params = getattr(message, "params", None) or {}
        if isinstance(message, JSONRPCRequest):
            version = (params.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY, self.version)
            request_id = _key(message.id)
            self._requests[request_id] = OpenRequest(message.method, version, params)
            if isinstance(request_id, int):
                self._highest = max(self._highest, request_id)
            else:
                self._issued.add(request_id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._requests.pop(_key(params.get("requestId", "")), None)

    def __contains__(self, request_id: object) -> bool:
        is_id = isinstance(request_id, int | str) and not isinstance(request_id, bool)
        return is_id and _key(request_id) in self._requests  # type: ignore[arg-type] # as just checked

    def answered(self, request_id: RequestId) -> OpenRequest | None:
        """Close a request, and return it if it was open."""
        return self._requests.pop(_key(request_id), None)

    def matching(self, request_id: object) -> RequestId | None:
        """Return the open request's id for an answer's id.

        An answer with an id which was never sent belongs to the only open request, if there is just one: servers
        [put null](https://github.com/helidon-io/helidon-mcp/issues/65),
        [zero](https://github.com/BaseIntelligence/bounty-challenge/issues/51392) or a word there.
        """
        if isinstance(request_id, float) and request_id.is_integer():
            request_id = int(request_id)
        if isinstance(request_id, int | str) and not isinstance(request_id, bool):
            request_id = _key(request_id)
            if request_id in self._requests:
                return request_id
            if request_id in self._issued or (isinstance(request_id, int) and 0 < request_id <= self._highest):
                return None  # a late answer
        return self.only()

    def only(self) -> RequestId | None:
        """Return the only open request's id, None without or with several."""
        return next(iter(self._requests)) if len(self._requests) == 1 else None


def not_mcp(request_id: RequestId, problem: str) -> JSONRPCError:
    """Return the answer in place of an unusable one.

    Args:
        request_id: The request.
        problem: Words about the unusable answer, such as "its result is null".
    """
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=PARSE_ERROR, message=problem, data=_NOT_MCP))


def is_not_mcp(error: object) -> bool:
    """Return whether an error stands for an unusable answer, as from `not_mcp`."""
    return isinstance(error, ErrorData) and error.code == PARSE_ERROR and error.data == _NOT_MCP


def _key(request_id: RequestId) -> RequestId:
    if isinstance(request_id, str):
        try:
            return int(request_id)
        except ValueError:
            return request_id
    return request_id
