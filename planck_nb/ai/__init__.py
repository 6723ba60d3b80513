"""Models of all providers behind one interface: send a conversation, and stream the answer.

    model = ai.get_model("anthropic", "claude-sonnet-4-6")
    context = ai.Context(system="Be brief.", messages=[ai.UserMessage("hi")])
    async with ai.stream(model, context) as stream:
        async for event in stream: ...
    stream.message.text

Importing this loads no HTTP client; the first request does.
"""

from __future__ import annotations

from planck_nb.ai.auth import Auth, OutgoingRequest
from planck_nb.ai.builtin_providers import register_builtin_providers
from planck_nb.ai.cassettes import Cassette
from planck_nb.ai.client import Client, RequestPreview, Stream
from planck_nb.ai.dialect import Decoder, Dialect, LocalModel, Pause, WireRequest
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    StopReason,
    SummaryMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    UserPart,
    VideoPart,
    decode_message,
    encode_message,
)
from planck_nb.ai.model_lookup.catalogue import add_models, discover, get_model, list_models, list_providers
from planck_nb.ai.models import Model, PriceStep, Pricing
from planck_nb.ai.registry import Provider, register
from planck_nb.ai.request import Context, Options, ToolSpec
from planck_nb.ai.retries.retry import RetryPolicy, Timeouts
from planck_nb.ai.server_rules import CallIds, ReportedCost, ServerRules
from planck_nb.ai.server_tools import ServerTool
from planck_nb.ai.shortcuts import complete, default_client, stream
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    StreamRetry,
    StreamWarning,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
    UsageUpdate,
)

__all__ = [
    "AssistantMessage",
    "AssistantPart",
    "Auth",
    "CallIds",
    "Cassette",
    "Client",
    "Context",
    "Decoder",
    "Dialect",
    "FilePart",
    "Finish",
    "ImagePart",
    "LocalModel",
    "Message",
    "Model",
    "Options",
    "OutgoingRequest",
    "Part",
    "PartEnd",
    "Pause",
    "PriceStep",
    "Pricing",
    "Provider",
    "ReportedCost",
    "RequestPreview",
    "RetryPolicy",
    "ServerRules",
    "ServerTool",
    "StopReason",
    "Stream",
    "StreamEvent",
    "StreamRetry",
    "StreamWarning",
    "SummaryMessage",
    "TextChunk",
    "TextPart",
    "ThinkingChunk",
    "ThinkingPart",
    "Timeouts",
    "ToolArgsChunk",
    "ToolCallPart",
    "ToolCallStart",
    "ToolResultMessage",
    "ToolResultPart",
    "ToolSpec",
    "Usage",
    "UsageUpdate",
    "UserMessage",
    "UserPart",
    "VideoPart",
    "WireRequest",
    "add_models",
    "complete",
    "decode_message",
    "default_client",
    "discover",
    "encode_message",
    "get_model",
    "list_models",
    "list_providers",
    "register",
    "stream",
]

register_builtin_providers()
