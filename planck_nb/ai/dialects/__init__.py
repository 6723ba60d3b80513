"""The wire formats, one module each, and the functions that another package needs to add one."""

from __future__ import annotations

from planck_nb.ai.dialect import Decoder, Dialect, LocalModel, Pause, WireRequest
from planck_nb.ai.dialects.json_wire import read_object
from planck_nb.ai.dialects.tool_fields import wire_tools
from planck_nb.ai.message_history.portable_history import prepare
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.status_errors import body_error, status_error, truncated

__all__ = [
    "Decoder",
    "Dialect",
    "LocalModel",
    "Pause",
    "WireRequest",
    "base_url_of",
    "body_error",
    "prepare",
    "read_object",
    "status_error",
    "truncated",
    "wire_tools",
]
