"""What is known of models, and what is said of those that are not known."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from support.loopback import Exchange, serving
from support.ports import free_port

from planck_nb import ai
from planck_nb.ai.model_lookup.data import generate
from planck_nb.base.errors import ConfigError, UnknownModelError, UnknownProviderError


def test_providers() -> None:
    ours = "anthropic azure bedrock cerebras deepseek demo fireworks github google groq huggingface litellm llama_cpp"
    assert ai.list_providers() == [
        *ours.split(),
        *"lm_studio mistral ollama openai openrouter sglang together vllm xai".split(),
    ]


def test_a_model_of_the_catalogue() -> None:
    model = ai.get_model("anthropic", "claude-sonnet-4-6")
    assert model == ai.get_model("anthropic:claude-sonnet-4-6")
    assert (model.api, model.context_window, model.max_output) == ("messages", 1_000_000, 128_000)
    assert model.pricing == ai.Pricing(3, 15, 0.3, 3.75)
    assert model.cost(ai.Usage(1_000_000, 100_000, 500_000, 100_000)) == pytest.approx(1.2 + 0.15 + 0.375 + 1.5)
    assert model in ai.list_models("anthropic")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("anthropic:claude-nova-9", {}),
        ("ollama:llama3:8b", {}),
        ("openai:gpt-4oo", {"base_url": "http://h/v1"}),
        ("llama_cpp:anything", {}),
    ],
)
def test_unknown_ids_work(name: str, settings: dict[str, str]) -> None:
    model = ai.get_model(name, **settings)  # type: ignore[arg-type]  # all settings are text
    assert str(model) == name
    assert model.context_window is None
    assert model.cost(ai.Usage(1, 1)) is None


@pytest.mark.parametrize(
    ("name", "expected", "hint"),
    [
        ("anthropic:claude-sonet-4-6", UnknownModelError, "claude-sonnet-4-6"),
        ("openai:gpt-4.0o", UnknownModelError, "gpt-4o"),
        ("openai", UnknownModelError, "as in openai:"),
        ("demo:nothing", UnknownModelError, "Known are: demo, script"),
        ("antropic:x", UnknownProviderError, "Did you mean anthropic"),
        ("claude-sonnet-4-6", UnknownProviderError, "Did you mean anthropic:claude-sonnet-4-6"),
        ("zzz:x", UnknownProviderError, "Known are: .*demo"),
    ],
)
def test_typos_are_named(name: str, expected: type[Exception], hint: str) -> None:
    with pytest.raises(expected, match=hint):
        ai.get_model(name)


@pytest.mark.parametrize("base_url", ["ftp://h/v1", "h:80", "http://[::1/v1", "http://", "nonsense"])
def test_an_invalid_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError, match="write base_url as in"):
        ai.get_model("openai", "m", base_url=base_url)


def api_key_function() -> str:
    return "sk-abc"


@pytest.mark.parametrize(
    ("name", "base_url"), [("openai:gpt-4o", None), ("openai:local", "http://127.0.0.1:9/v1"), ("short", None)]
)
def test_an_api_key_that_is_a_function_is_refused_at_once(name: str, base_url: str | None) -> None:
    key: Any = api_key_function
    own = [replace(ai.get_model("openai:gpt-4o"), alias="short")]
    with pytest.raises(ConfigError, match=r"^api_key must be a string, not function; .* auth= instead\.$"):
        ai.get_model(name, base_url=base_url, api_key=key, own=own)


@pytest.mark.parametrize("provider", ["anthropic", "llama_cpp", "demo"])
async def test_models_are_not_listed_with_a_function_as_api_key(provider: str) -> None:
    key: Any = api_key_function
    with pytest.raises(ConfigError, match="auth="):
        ai.list_models(provider, api_key=key)
    with pytest.raises(ConfigError, match="auth="):
        await ai.discover(provider, api_key=key)


def test_defaults_for_servers_that_hold_one_model() -> None:
    assert str(ai.get_model("llama_cpp")) == "llama_cpp:default"
    assert str(ai.get_model("demo")) == "demo:demo"


async def test_ollama_lists_what_it_has() -> None:
    async def tags(exchange: Exchange) -> None:
        assert exchange.path == "/api/tags"
        await exchange.answer("200 OK", '{"models": [{"name": "llama3:8b"}, {"name": "qwen3:4b"}]}')

    async with serving(tags) as server:
        for base_url in (server.url, f"{server.url}/v1"):
            found = await ai.discover("ollama", base_url)
            assert [str(model) for model in found] == ["ollama:llama3:8b", "ollama:qwen3:4b"]


@pytest.mark.parametrize("body", ["{}", "[]", "nonsense", '{"data": [1]}', '{"data": 5}'])
async def test_servers_that_answer_nonsense_have_no_models(body: str) -> None:
    async def nonsense(exchange: Exchange) -> None:
        await exchange.answer("200 OK", body)

    async with serving(nonsense) as server:
        assert await ai.discover("llama_cpp", server.url) == []


def test_servers_that_do_not_exist_have_no_models() -> None:
    assert ai.list_models("llama_cpp", base_url=f"http://127.0.0.1:{free_port()}") == []


def test_a_key_never_shows() -> None:
    assert "sk-secret" not in repr(ai.get_model("openai", "m", base_url="http://h/v1", api_key="sk-secret"))


def test_the_snapshot_says_where_it_comes_from() -> None:
    text = resources.files("planck_nb.ai.model_lookup.data").joinpath("models.json").read_text()
    snapshot = json.loads(text)
    assert snapshot["source"].endswith(generate.PACKAGE)
    assert snapshot["licence"] == "MIT"
    assert {"version", "date", "prices"} <= snapshot.keys()
    assert generate.render(snapshot) == text
    for table in snapshot["providers"].values():
        for row in table.values():
            assert row["context"] >= row["output"] > 0


@pytest.mark.process
def test_importing_loads_no_http_client() -> None:
    code = "import sys, planck_nb.ai as ai; ai.list_models('openai'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"httpx", "aiohttp", "pydantic", "openai", "anthropic", "duckdb", "pandas"} & set(loaded)
