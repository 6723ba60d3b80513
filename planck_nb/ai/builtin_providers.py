"""The built-in providers, registered in the same way as those of other packages."""

from __future__ import annotations

from planck_nb.ai.compatible_servers import COMPATIBLE
from planck_nb.ai.registry import REGISTRY, Provider
from planck_nb.ai.schemas.schema_rules import OF_GRAMMARS
from planck_nb.ai.server_rules import THINK_TAGS, USUAL, ServerRules

_BUILTIN = (
    (
        Provider(
            "anthropic",
            "messages",
            base_url="https://api.anthropic.com/v1",
            path="/v1",
            key_variables=("ANTHROPIC_API_KEY",),
            needs_key=True,
            rules=ServerRules(is_vendor=True, binds_thinking=True, think_tags=()),
            foreign_rules=ServerRules(binds_thinking=True),
        ),
        "planck_nb.ai.dialects.anthropic_messages:DIALECT",
    ),
    (
        Provider(
            "openai",
            "responses",
            base_url="https://api.openai.com/v1",
            path="/v1",
            key_variables=("OPENAI_API_KEY",),
            needs_key=True,
            foreign_api="chat",
            rules=ServerRules(is_vendor=True, think_tags=(), limit_field="max_completion_tokens"),
            foreign_rules=USUAL,
        ),
        "planck_nb.ai.dialects.openai_responses:DIALECT",
    ),
    (
        Provider(
            "google",
            "generate_content",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            path="/v1beta",
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            needs_key=True,
            rules=ServerRules(think_tags=(), takes_videos=True),
        ),
        "planck_nb.ai.dialects.google_generate_content:DIALECT",
    ),
    (
        Provider(
            "ollama",
            base_url="http://127.0.0.1:11434",
            path="/v1",
            key_variables=("OLLAMA_API_KEY",),
            discovered=True,
            rules=ServerRules(calls_in_text=True, think_tags=THINK_TAGS),
        ),
        "planck_nb.ai.dialects.ollama:DIALECT",
    ),
    (
        Provider(
            "llama_cpp",
            "chat",
            base_url="http://127.0.0.1:8080/v1",
            path="/v1",
            key_variables=("LLAMA_CPP_API_KEY",),
            discovered=True,
            # Its server answers with the one model it has loaded, whatever the request names.
            default_model="default",
            rules=ServerRules(
                thinking_control="enable_thinking",
                chooses_by_name=False,  # it ignores a choice by name
                takes_files=False,
                stop_in_responses=True,
                calls_in_text=True,
                think_tags=THINK_TAGS,
                tool_schemas=OF_GRAMMARS,
                reports_window=True,
            ),
        ),
        "planck_nb.ai.dialects.openai_chat:DIALECT",
    ),
    (
        Provider("demo", models=("demo", "script"), default_model="demo"),
        "planck_nb.ai.dialects.demo:DEMO",
    ),
)

_MORE_FORMATS = {"interactions": "planck_nb.ai.dialects.google_interactions:DIALECT"}
"""Wire formats that are used only if a model names them."""


def register_builtin_providers() -> None:
    """Register the built-in providers, and protect their names."""
    for provider, dialect in _BUILTIN:
        REGISTRY.register(provider, dialect)
    for provider in COMPATIBLE:
        REGISTRY.register(provider)
    for api, dialect in _MORE_FORMATS.items():
        REGISTRY.add_format(api, dialect)
    REGISTRY.seal()
