"""The vendors' SDKs, imported on first use: every process of a run collects all tests, and few use these."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter


class _Module:
    """A module whose import waits for its first attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or attribute == "_mock_name":  # pytest asks every name in a file of tests
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


anthropic = _Module("anthropic")
anthropic_schemas = _Module("anthropic.lib._parse._transform")
genai = _Module("google.genai")
genai_types = _Module("google.genai.types")
interactions = _Module("google.genai.interactions")
ollama = _Module("ollama")
openai = _Module("openai")


@cache
def chat_params() -> TypeAdapter[Any]:
    """OpenAI's own type of a Chat Completions request."""
    return TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)


@cache
def responses_params() -> TypeAdapter[Any]:
    """OpenAI's own type of a Responses request."""
    return TypeAdapter(openai.types.responses.response_create_params.ResponseCreateParamsStreaming)


@cache
def messages_params() -> TypeAdapter[Any]:
    """Anthropic's own type of a Messages request."""
    return TypeAdapter(anthropic.types.message_create_params.MessageCreateParamsStreaming)
