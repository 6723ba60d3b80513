"""Models that the user describes: read from a file, left out with a reason, found by their alias."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.wire import CHAT_HELLO, replying

from planck_nb import Config, Workspace, ai
from planck_nb.ai.model_lookup import catalogue
from planck_nb.ai.model_lookup.user_models import read_models
from planck_nb.base.errors import MissingCredentialError, UnknownProviderError

NVIDIA = {"type": "openai", "base_url": "https://integrate.api.nvidia.com/v1", "identifier": "nvidia"}
FAST: dict[str, Any] = {
    "id": "fast",
    "model": "llama-3.3-70b",
    "provider": "nvidia",
    "context_window": 131_072,
    "max_output": 8192,
    "price": {"input": 0.5, "output": 1.5, "steps": [{"above": 100_000, "input": 1, "output": 3}]},
    "options": {"temperature": 0.6},
}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    catalogue._own.clear()


def test_an_entry_in_full() -> None:
    own = read_models({"providers": {"nvidia": NVIDIA}, "models": [FAST]})
    assert own.warnings == ()
    (model,) = own.models
    assert (model.alias, str(model)) == ("fast", "openai:llama-3.3-70b")
    assert (model.base_url, model.key_variable) == (NVIDIA["base_url"], "NVIDIA_API_KEY")
    assert (model.context_window, model.max_output) == (131_072, 8192)
    assert model.pricing == ai.Pricing(0.5, 1.5, steps=(ai.PriceStep(100_000, 1, 3),))
    assert model.options == ai.Options(temperature=0.6)


def test_what_an_entry_leaves_out_is_unknown() -> None:
    (model,) = read_models({"models": [{"id": "m", "provider": "openai", "base_url": "http://h/v1"}]}).models
    assert (model.id, model.name, model.has_api_key) == ("m", "m", False)
    assert (model.context_window, model.max_output, model.pricing, model.modalities) == (None, None, None, None)


def test_other_spellings() -> None:
    entry = {
        "id": "m",
        "provider": "openai",
        "base_url": "http://h/v1",
        "has_api_key": False,
        "max_tokens": 9,
        "supports_thinking": True,
        "input_types": ["text", "image", "video"],
        "cost": {"input": 1, "output": 2},
        "params": {"temperature": 0.6, "temprature": 1},
    }
    own = read_models({"models": [entry]})
    (model,) = own.models
    assert (model.max_output, model.thinking, model.modalities) == (9, True, ("text", "image"))
    assert (model.pricing, model.has_api_key) == (ai.Pricing(1, 2), False)
    assert model.options == ai.Options(temperature=0.6)
    assert [warning for warning in own.warnings if "'video'" in warning or "'temprature'" in warning] == list(
        own.warnings
    )
    assert len(own.warnings) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"provider": "nope"}, "there is no provider 'nope'. "),
        ({"provider": "nvidja"}, "Did you mean nvidia?"),
        ({"provider": "demo"}, "there is no provider 'demo'"),
        ({"provider": "broken"}, "is 'bogus', which is not a provider"),
        ({"provider": None}, "it has no provider"),
        ({"id": ""}, "id must not be empty"),
        ({"id": 5}, "id must be a valid string"),
        ({"id": "ollama"}, "a provider has this name"),
        ({"id": "anthropic:claude-sonnet-4-6"}, "a provider has this name"),
        ({"identifier": "ANTHROPIC"}, "ANTHROPIC_API_KEY is not for the server"),
        ({"identifier": "gemini"}, "GEMINI_API_KEY is not for the server"),
        ({"provider": "openai", "base_url": "http://h/v1", "has_api_key": True}, "needs an `identifier`"),
        ({"model": 5}, "model must be a valid string"),
        ({"identifier": "my-id"}, "identifier must be letters"),
        ({"base_url": "ftp://h"}, "'ftp://h' is not the address of a server"),
        ({"api": "smoke"}, "no wire format 'smoke'"),
        ({"context_window": "many"}, "context_window must be a valid integer"),
        ({"max_output": True}, "max_output must be a valid integer"),
        ({"has_api_key": "no"}, "has_api_key must be a valid boolean"),
        ({"price": {"input": 1}}, "price has no output"),
        ({"price": {"input": 1, "output": -1}}, "price.output must be greater than or equal to 0"),
        ({"price": {"input": 1, "output": 1, "steps": [{"input": 1, "output": 1}]}}, "price.steps.0 has no above"),
        ({"options": 5}, "options must be a table"),
        ({"options": {"thinking": "deep"}}, "options.thinking must be 'off', 'minimal', 'low'"),
        ({"options": {"temperature": True}}, "options.temperature must be a valid number"),
        ({"modalities": "text"}, "modalities must be a valid list"),
    ],
)
def test_an_entry_that_cannot_be_used_is_left_out_and_the_rest_stays(change: dict[str, Any], reason: str) -> None:
    providers = {"nvidia": NVIDIA, "broken": {"type": "bogus"}}
    others = [{**FAST, "id": "first"}, {**FAST, "id": "last"}]
    own = read_models({"providers": providers, "models": [others[0], {**FAST, **change}, others[1]]}, "models.json")
    assert [model.alias for model in own.models] == ["first", "last"]
    (warning,) = own.warnings
    assert warning.startswith("Model ")
    assert " of models.json was left out: " in warning
    assert reason in warning
    assert warning[-1] in ".?"
    assert not warning.endswith("..")


@pytest.mark.parametrize("data", [5, [], {"models": 5}, {"providers": [], "models": []}])
def test_a_description_that_is_not_one(data: object) -> None:
    own = read_models(data)
    assert own.models == ()
    assert len(own.warnings) == 1


def test_empty_and_duplicate_entries() -> None:
    own = read_models({"providers": {"nvidia": NVIDIA}, "models": [5, FAST, FAST, {**FAST, "id": "x", "tempo": 1}]})
    assert [model.alias for model in own.models] == ["fast", "x"]
    assert [warning[:30] for warning in own.warnings] == [
        "Model 1 of the models file was",
        "Model 'fast' of the models fil",
        "Model 'x' of the models file: ",
    ]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("kind", ["json", "toml"])
def test_the_file(tmp_path: Path, kind: str, named: bool) -> None:
    path = tmp_path / ("mine" if named else ".planck") / f"models.{kind}"
    path.parent.mkdir()
    if kind == "json":
        path.write_text(json.dumps({"providers": {"nvidia": NVIDIA}, "models": [FAST, {"id": "broken"}]}))
    else:
        path.write_text(
            '[providers.nvidia]\ntype = "openai"\nbase_url = "https://integrate.api.nvidia.com/v1"\n'
            '[[models]]\nid = "fast"\nmodel = "llama-3.3-70b"\nprovider = "nvidia"\n[[models]]\nid = "broken"\n'
        )
    environment = {"PLANCK_NB_MODELS_FILE": f"mine/models.{kind}"} if named else {}
    config = Config.load(directory=tmp_path, environment=environment, trust=True)
    assert [model.alias for model in config.models] == ["fast"]
    assert config.models_file == path
    assert config.warnings == (f"Model 'broken' of {path} was left out: it has no provider.",)


def test_files_that_are_not_there_or_broken(tmp_path: Path) -> None:
    config = Config.load(directory=tmp_path, environment={})
    assert (config.warnings, config.models_file) == ((), None)
    (warning,) = Config.load(directory=tmp_path, environment={"PLANCK_NB_MODELS_FILE": "none.json"}).warnings
    assert "there is no such file" in warning
    (tmp_path / "none.json").write_text("{")
    config = Config.load(directory=tmp_path, environment={"PLANCK_NB_MODELS_FILE": "none.json"})
    assert config.models == ()
    assert "none.json was not used" in config.warnings[0]


async def test_a_workspace_makes_them_known(tmp_path: Path) -> None:
    models = read_models({"providers": {"nvidia": NVIDIA}, "models": [FAST]}).models
    config = Config(tmp_path, default_model="fast", models=models)
    async with Workspace(config) as workspace:
        (model,) = models
        assert workspace.model("fast") == model
        assert await workspace.default_model() == (model, "")
        with pytest.raises(UnknownProviderError, match="Did you mean fast"):
            workspace.model("fasst")
        elsewhere = workspace.model("openai:llama-3.3-70b", base_url="http://other/v1")
        assert elsewhere.key_variable is None
    async with Workspace(Config(tmp_path)) as other:
        with pytest.raises(UnknownProviderError):
            other.model("fast")


def test_they_can_be_made_known_to_the_process() -> None:
    (model,) = read_models({"providers": {"nvidia": NVIDIA}, "models": [FAST]}).models
    ai.add_models([model])
    assert ai.get_model("fast") == model
    assert model in ai.list_models("openai")
    with pytest.raises(UnknownProviderError, match="Did you mean fast"):
        ai.get_model("fasst")


def test_facts_of_a_known_model_can_be_changed() -> None:
    ai.add_models(
        read_models(
            {"models": [{"id": "claude-sonnet-4-6", "provider": "anthropic", "price": {"input": 1, "output": 2}}]}
        ).models
    )
    model = ai.get_model("anthropic:claude-sonnet-4-6")
    assert (model.pricing, model.context_window) == (ai.Pricing(1, 2), 1_000_000)
    assert [found.pricing for found in ai.list_models("anthropic") if found.id == model.id] == [model.pricing]


def test_a_file_does_not_send_a_vendors_key_elsewhere() -> None:
    entry = {"id": "claude-sonnet-4-6", "provider": "anthropic", "base_url": "https://elsewhere.example"}
    ai.add_models(read_models({"models": [entry]}).models)
    assert ai.get_model("anthropic:claude-sonnet-4-6").base_url is None
    assert ai.get_model("claude-sonnet-4-6").base_url == "https://elsewhere.example"


EVIL = "https://evil.example/v1"


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "anthropic:claude-sonnet-4-6", "model": "claude-sonnet-4-6", "provider": "anthropic", "base_url": EVIL},
        {"id": "gpt-9-new", "provider": "openai", "base_url": EVIL},
        {"id": "fast", "provider": "openai", "base_url": EVIL},
        {"id": "fast", "provider": "openai", "base_url": EVIL, "identifier": "ANTHROPIC"},
        {"id": "fast", "provider": "google", "base_url": EVIL, "identifier": "gemini"},
    ],
    ids=["catalogued", "new", "alias", "identifier", "other-variable"],
)
def test_no_entry_gets_a_vendors_key(entry: dict[str, Any]) -> None:
    ai.add_models(own := read_models({"models": [entry]}).models)
    vendors = {f"{name}_API_KEY": "secret" for name in ("ANTHROPIC", "OPENAI", "GOOGLE", "GEMINI")}
    http = ai.Client(credentials=vendors)
    for model in (*own, ai.get_model("anthropic:claude-sonnet-4-6"), ai.get_model("openai", "gpt-9-new")):
        assert (model.base_url is None) != (http.key_for(model) is None)
    for model in own:
        assert ai.get_model(model.alias, api_key="mine").api_key == "mine"
        assert http.key_for(ai.get_model(model.alias, api_key="mine")) == "mine"


@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1"])
def test_the_vendors_own_address_gets_its_key(base_url: str | None) -> None:
    entry = {"id": "mini", "model": "gpt-4.1", "provider": "openai", "base_url": base_url}
    (model,) = read_models({"models": [entry]}).models
    assert ai.Client(credentials={"OPENAI_API_KEY": "sk-open"}).key_for(model) == "sk-open"
    assert ai.get_model("openai:gpt-4.1", own=[model]).alias == "mini"
    assert model.pricing is not None


def test_a_vendors_price_is_not_anothers() -> None:
    entry = {"id": "mine", "model": "gpt-4.1", "provider": "openai", "base_url": EVIL}
    (model,) = read_models({"models": [entry]}).models
    (priced,) = read_models({"models": [{**entry, "price": {"input": 1, "output": 2}}]}).models
    assert (model.pricing, priced.pricing) == (None, ai.Pricing(1, 2))
    assert ai.get_model("openai", "gpt-4.1", base_url=EVIL).pricing is None
    assert ai.get_model("openai", "gpt-4.1").pricing is not None


async def test_default_options_are_sent_and_a_call_has_the_last_word() -> None:
    (model,) = read_models({"providers": {"nvidia": {**NVIDIA, "has_api_key": False}}, "models": [FAST]}).models
    seen: list[Any] = []
    async with ai.Client(credentials={}, transport=replying(CHAT_HELLO, seen=seen)) as client:
        await client.complete(model, ai.Context())
        await client.complete(model, ai.Context(), ai.Options(temperature=0.0, max_tokens=5))
    assert [body["temperature"] for body in seen] == [0.6, 0.0]
    assert "max_tokens" not in seen[0]


SENT = {"top_k": 20, "min_p": 0.05, "extra_body": {"repetition_penalty": 1.1}, "extra": {"min_p": 0.1}}


@pytest.mark.parametrize(
    ("provider", "place", "sent"),
    [
        ("vllm", (), {"top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1}),
        ("ollama", ("options",), {"top_k": 20, "min_p": 0.1}),
        ("google", ("generationConfig",), {"topK": 20}),
    ],
)
async def test_options_that_only_the_server_knows_are_sent(
    provider: str, place: tuple[str, ...], sent: dict[str, object]
) -> None:
    own = read_models({"models": [{"id": "m", "provider": provider, "base_url": "http://h/v1", "options": SENT}]})
    assert own.warnings == ()
    body: Any = (await ai.Client().preview(own.models[0], ai.Context(messages=[ai.UserMessage("hi")]))).body
    for step in place:
        body = body[step]
    assert {name: body.get(name) for name in sent} == sent


def test_a_vendors_key_goes_to_its_own_host_only() -> None:
    entry = {"id": "m", "provider": "openai", "base_url": "https://api.groq.com/openai/v1", "identifier": "GROQ"}
    (model,) = read_models({"models": [entry]}).models
    assert ai.Client(credentials={"GROQ_API_KEY": "gsk_1"}).key_for(model) == "gsk_1"
    for elsewhere in ("http://api.groq.com/openai/v1", "https://groq.example/openai/v1", "https://api.groq.com:99/v1"):
        (warning,) = read_models({"models": [{**entry, "base_url": elsewhere}]}).warnings
        assert "GROQ_API_KEY is not for the server at its base_url" in warning


async def test_the_key_is_the_servers_own() -> None:
    (model,) = read_models({"providers": {"nvidia": NVIDIA}, "models": [FAST]}).models
    with pytest.raises(MissingCredentialError, match="NVIDIA_API_KEY"):
        ai.Client(credentials={"OPENAI_API_KEY": "sk-open"}).key_for(model)
    assert ai.Client(credentials={"NVIDIA_API_KEY": "nv"}).key_for(model) == "nv"
    (model,) = read_models({"providers": {"nvidia": {**NVIDIA, "has_api_key": False}}, "models": [FAST]}).models
    assert ai.Client(credentials={"NVIDIA_API_KEY": "nv"}).key_for(model) is None
