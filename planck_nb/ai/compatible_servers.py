"""Providers whose servers speak Chat Completions, with their rules.

Each rule names its source, a public report or page. They were not tried with the real servers. A `note` marks those
whose rules are unknown.
"""

from __future__ import annotations

from planck_nb.ai.aws_signature import sign_for_bedrock
from planck_nb.ai.registry import Provider
from planck_nb.ai.server_rules import FINISH_REASONS, THINK_TAGS, CallIds, ReportedCost, ServerRules

_ONLY_ITS_ADDRESS = "Only its address and the variable with its key are known; its own rules are not."

_OPENROUTER = ServerRules(
    # `reasoning_effort` hardly works: https://github.com/danny-avila/LibreChat/issues/11934
    thinking_control="reasoning",
    # Credits, which are US dollars: https://openrouter.ai/docs/use-cases/usage-accounting
    cost=ReportedCost("cost"),
)

_GROQ = ServerRules(
    # https://console.groq.com/docs/api-reference: max_tokens is deprecated
    limit_field="max_completion_tokens",
    # "property 'reasoning_content' is unsupported": https://github.com/janhq/jan/issues/8136. A model that does not
    # think refuses `reasoning` in the same words: https://github.com/vercel/ai/issues/8057
    reasoning="refused",
    refused_in_messages=frozenset({"reasoning_content", "reasoning"}),
    # "minItems is not supported": https://github.com/i-am-bee/beeai-framework/issues/1215
    refused_keywords=frozenset({"minItems", "maxItems"}),
)

_MISTRAL = ServerRules(
    # "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9":
    # https://github.com/langchain-ai/langchain/pull/24668
    call_ids=CallIds("a-zA-Z0-9", 9, exact=True),
    # "extra_forbidden" for assistant.reasoning_content: https://github.com/charmbracelet/crush/issues/1590
    reasoning="refused",
    refused_in_messages=frozenset({"reasoning_content", "reasoning"}),
    # "extra_forbidden" for stream_options.include_usage, which is the default there:
    # https://github.com/dnakov/anon-kode/issues/53
    refused_fields=frozenset({"stream_options"}),
    # "Unexpected role 'user' after role 'tool'": https://github.com/zed-industries/zed/issues/37021
    alternates=True,
    # https://docs.mistral.ai/api: finish_reason is stop, length, model_length, error or tool_calls
    finish_reasons={**FINISH_REASONS, "model_length": "length"},
)

_DEEPSEEK = ServerRules(
    # `{"type": "enabled"}`: https://api-docs.deepseek.com/guides/thinking_mode
    thinking_control="thinking",
    # "Thinking mode does not support this tool_choice", and thinking is the default:
    # https://github.com/deepseek-ai/DeepSeek-V3/issues/1376
    demands_while_thinking=False,
    # "This response_format type is unavailable now": https://github.com/UKGovernmentBEIS/inspect_ai/issues/4916
    output_control="json_object",
    # "The `reasoning_content` in the thinking mode must be passed back to the API":
    # https://github.com/earendil-works/pi/issues/3636
    reasoning="required",
    reasoning_field="reasoning_content",
)

_CEREBRAS = ServerRules(
    # https://inference-docs.cerebras.ai/api-reference/chat-completions
    limit_field="max_completion_tokens",
    # "property 'messages.1.assistant.reasoning_content' is unsupported", its own `reasoning` is not:
    # https://github.com/egoist/chatwise-releases/issues/1442, https://github.com/QwenLM/qwen-code/pull/11045
    reasoning_field="reasoning",
    refused_in_messages=frozenset({"reasoning_content"}),
    # https://github.com/RooCodeInc/Roo-Code/pull/10334
    refused_keywords=frozenset({"minItems"}),
)

_AZURE = ServerRules(
    # "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead":
    # https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning
    limit_field="max_completion_tokens",
)

_XAI = ServerRules(
    # "Argument not supported on this model: stop": https://github.com/BerriAI/litellm/issues/12635
    refused_fields=frozenset({"stop"}),
    # Ten thousand million ticks are a US dollar: https://github.com/Wei-Shaw/sub2api/issues/5771
    cost=ReportedCost("cost_in_usd_ticks", 1e-10),
)

_LITELLM = ServerRules(
    # `include_cost_in_streaming_usage`, later the default: https://github.com/BerriAI/litellm/pull/39069
    cost=ReportedCost("cost"),
)

# A switch for the chat template: https://qwen.readthedocs.io/en/latest/deployment/vllm.html#thinking-non-thinking-modes
_VLLM = ServerRules(
    thinking_control="enable_thinking",
    # https://github.com/pydantic/pydantic-ai/blob/main/pydantic_ai_slim/pydantic_ai/providers/vllm.py
    takes_files=False,
    calls_in_text=True,
    think_tags=THINK_TAGS,
)

# https://qwen.readthedocs.io/en/latest/deployment/sglang.html#thinking-non-thinking-modes
_SGLANG = ServerRules(thinking_control="enable_thinking", calls_in_text=True, think_tags=THINK_TAGS)

_LM_STUDIO = ServerRules(
    # "Invalid tool_choice type: 'object'. Supported string values: none, auto, required":
    # https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/670
    chooses_by_name=False,
    # Calls as text instead of `tool_calls`: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2115
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
        discovered=True,
        rules=_OPENROUTER,
    ),
    Provider(
        "groq",
        "chat",
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        needs_key=True,
        discovered=True,
        rules=_GROQ,
    ),
    Provider(
        "mistral",
        "chat",
        base_url="https://api.mistral.ai/v1",
        path="/v1",
        key_variables=("MISTRAL_API_KEY",),
        needs_key=True,
        discovered=True,
        rules=_MISTRAL,
    ),
    Provider(
        "deepseek",
        "chat",
        base_url="https://api.deepseek.com/v1",
        path="/v1",
        key_variables=("DEEPSEEK_API_KEY",),
        needs_key=True,
        discovered=True,
        rules=_DEEPSEEK,
    ),
    Provider(
        "cerebras",
        "chat",
        base_url="https://api.cerebras.ai/v1",
        path="/v1",
        key_variables=("CEREBRAS_API_KEY",),
        needs_key=True,
        discovered=True,
        rules=_CEREBRAS,
    ),
    Provider("azure", "chat", path="/openai/v1", key_variables=("AZURE_OPENAI_API_KEY",), needs_key=True, rules=_AZURE),
    Provider(
        "bedrock",
        "chat",
        path="/openai/v1",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        auth=sign_for_bedrock,
        note="base_url names its region; its own rules are not known.",
    ),
    Provider(
        "vllm",
        "chat",
        base_url="http://127.0.0.1:8000/v1",
        path="/v1",
        key_variables=("VLLM_API_KEY",),
        discovered=True,
        rules=_VLLM,
    ),
    Provider(
        "sglang",
        "chat",
        base_url="http://127.0.0.1:30000/v1",
        path="/v1",
        key_variables=("SGLANG_API_KEY",),
        discovered=True,
        rules=_SGLANG,
    ),
    Provider(
        "lm_studio",
        "chat",
        base_url="http://127.0.0.1:1234/v1",
        path="/v1",
        key_variables=("LM_STUDIO_API_KEY",),
        discovered=True,
        rules=_LM_STUDIO,
    ),
    Provider(
        "xai",
        "chat",
        base_url="https://api.x.ai/v1",
        path="/v1",
        key_variables=("XAI_API_KEY",),
        needs_key=True,
        discovered=True,
        rules=_XAI,
    ),
    Provider(
        "together",
        "chat",
        base_url="https://api.together.xyz/v1",
        path="/v1",
        key_variables=("TOGETHER_API_KEY",),
        needs_key=True,
        discovered=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "fireworks",
        "chat",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
        needs_key=True,
        discovered=True,
        note=_ONLY_ITS_ADDRESS,
    ),
    Provider(
        "huggingface",
        "chat",
        base_url="https://router.huggingface.co/v1",
        path="/v1",
        key_variables=("HF_TOKEN",),
        needs_key=True,
        discovered=True,
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
        rules=_LITELLM,
    ),
)
"""All of them, in the order in which they are listed."""
