"""The protocol between `planck-nb mcp` and a kernel.

It has one JSON value a line over a Unix socket.

A connection is one call. The client sends `{"token", "method", "params"}`; the kernel sends progress lines
`{"progress": text}` and then `{"result": value}` or `{"error": {"kind", "message"}}`. If the client closes the
connection earlier, the call is cancelled.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from planck_nb.base.errors import AgentError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line in bytes, in either direction."""

_CLOSED = (
    "The connection was closed before the call was complete; try again. If the kernel has ended, run `%planck serve` "
    "in a notebook."
)


def encode_line(value: JsonObject) -> bytes:
    """Encode a JSON object as one line."""
    return encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode() + b"\n"


async def read_line(reader: asyncio.StreamReader) -> JsonObject:
    """Read one line.

    Raises:
        AgentError: The connection was closed, or the line is too long or not a JSON object.
    """
    try:
        line = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, OSError) as error:  # OSError: the process at the other end was killed
        raise AgentError(_CLOSED) from error
    except asyncio.LimitOverrunError as error:
        raise AgentError(f"A message has more than {MAX_LINE_BYTES:,} bytes.") from error
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AgentError("A message is not JSON.") from error
    if not isinstance(value, dict):
        raise AgentError("A message is not a JSON object.")
    return value
