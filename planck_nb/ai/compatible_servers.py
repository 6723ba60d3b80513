"""Providers whose servers speak Chat Completions, each with the rules in which it differs.

A rule names the public report or page that it comes from. No rule here was tried with the real server, unless it says
so; a provider whose `note` says that only its address is known has none.
"""

from __future__ import annotations

from planck_nb.ai.registry import Provider
from planck_nb.ai.server_rules import FINISH_REASONS, THINK_TAGS, CallIds, ReportedCost, ServerRules

_ONLY_ITS_ADDRESS = "Only its address and the variable of its key are known, and no rule of its own."

_OPENROUTER = ServerRules(
    thinking_control="reasoning",
    cost=ReportedCost("cost"),
)

_GROQ = ServerRules(
    limit_field="max_completion_tokens",
    refused_in_messages=frozenset({"reasoning_content"}),
    reasoning="refused",
)

_MISTRAL = ServerRules(
    call_ids=CallIds("a-zA-Z0-9", 9, exact=True),
    reasoning="refused",
    finish_reasons={**FINISH_REASONS, "model_length": "length"},
)

_DEEPSEEK = ServerRules(
    thinking_control="thinking",
    output_control="json_object",
    reasoning="required",
    reasoning_field="reasoning_content",
)

_CEREBRAS = ServerRules(
    limit_field="max_completion_tokens",
    reasoning_field="reasoning",
    refused_in_messages=frozenset({"reasoning_content"}),
    refused_keywords=frozenset({"minItems"}),
)

_AZURE = ServerRules(limit_field="max_completion_tokens")

_OWN_SERVER = ServerRules(
    thinking_control="enable_thinking",
    calls_in_text=True,
    think_tags=THINK_TAGS,
)

COMPATIBLE = (
    Provider(
        "openrouter",
        "chat",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        needs_key=True,
        rules=_OPENROUTER,
    ),
    Provider(
        "groq",
        "chat",
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        needs_key=True,
        rules=_GROQ,
    ),
    Provider(
        "mistral",
        "chat",
        base_url="https://api.mistral.ai/v1",
        path="/v1",
        key_variables=("MISTRAL_API_KEY",),
        needs_key=True,
        rules=_MISTRAL,
    ),
    Provider(
        "deepseek",
        "chat",
        base_url="https://api.deepseek.com/v1",
        path="/v1",
        key_variables=("DEEPSEEK_API_KEY",),
        needs_key=True,
        rules=_DEEPSEEK,
    ),
    Provider(
        "cerebras",
        "chat",
        base_url="https://api.cerebras.ai/v1",
        path="/v1",
        key_variables=("CEREBRAS_API_KEY",),
        needs_key=True,
        rules=_CEREBRAS,
    ),
    Provider("azure", "chat", path="/openai/v1", key_variables=("AZURE_OPENAI_API_KEY",), needs_key=True, rules=_AZURE),
    Provider(
        "vllm",
        "chat",
        base_url="http://127.0.0.1:8000/v1",
        path="/v1",
        key_variables=("VLLM_API_KEY",),
        discovered=True,
        rules=_OWN_SERVER,
    ),
    Provider(
        "sglang",
        "chat",
        base_url="http://127.0.0.1:30000/v1",
        path="/v1",
        key_variables=("SGLANG_API_KEY",),
        discovered=True,
        rules=_OWN_SERVER,
    ),
    Provider(
        "lm_studio",
        "chat",
        base_url="http://127.0.0.1:1234/v1",
        path="/v1",
        key_variables=("LM_STUDIO_API_KEY",),
        discovered=True,
        rules=_OWN_SERVER,
    ),
    Provider(
        "xai",
        "chat",
        base_url="https://api.x.ai/v1",
        path="/v1",
        key_variables=("XAI_API_KEY",),
        needs_key=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "together",
        "chat",
        base_url="https://api.together.xyz/v1",
        path="/v1",
        key_variables=("TOGETHER_API_KEY",),
        needs_key=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "fireworks",
        "chat",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
        needs_key=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "huggingface",
        "chat",
        base_url="https://router.huggingface.co/v1",
        path="/v1",
        key_variables=("HF_TOKEN",),
        needs_key=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "github",
        "chat",
        base_url="https://models.github.ai/inference",
        key_variables=("GITHUB_TOKEN",),
        needs_key=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "litellm",
        "chat",
        base_url="http://127.0.0.1:4000/v1",
        path="/v1",
        key_variables=("LITELLM_API_KEY",),
        discovered=True,
        note=_ONLY_ITS_ADDRESS,
    ),
)
"""All of them, in the order in which they are listed."""
