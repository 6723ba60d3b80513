"""Every provider answers by its name: in Python, in workspaces, sessions, teams, models files and magics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.ports import free_port
from support.wire import CHAT_HELLO

from planck_nb import Config, Workspace, ai
from planck_nb.ai.compatible_servers import COMPATIBLE
from planck_nb.errors import MissingCredentialError, UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS

ADDRESSES = {
    "azure": "https://mine.openai.azure.com",
    "bedrock": "https://bedrock-mantle.eu-central-1.api.aws",
}
"""The addresses of the providers that have none in common."""

KEYS = {variable: f"key-of-{known.name}" for known in COMPATIBLE for variable in known.key_variables}
NAMES = [known.name for known in COMPATIBLE]


def answering(seen: list[httpx.Request]) -> ai.Client:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    return ai.Client(credentials=KEYS, transport=httpx.MockTransport(handle), retries=ai.RetryPolicy(retries=0))


@pytest.mark.parametrize("name", NAMES)
async def test_a_model_that_no_list_has_answers_and_is_found_again(name: str, tmp_path: Path) -> None:
    known = next(each for each in COMPATIBLE if each.name == name)
    reference, address = f"{name}:some/any-model:free", ADDRESSES.get(name)
    seen: list[httpx.Request] = []
    config = Config.load(environment={}, directory=tmp_path)
    assert str(ai.get_model(reference)) == reference
    async with Workspace(config, client=answering(seen)) as place:
        agent = place.add_agent("a", model=await place.find_model(reference, base_url=address))
        assert (await agent.prompt("hi")).text == "Hello"
        session = place.session.name
        spec = {"type": "orchestrator", "name": "Lead", "provider": name, "model_id": "some/any-model:free"}
        (tmp_path / "team.json").write_text(json.dumps([{**spec, **({"base_url": address} if address else {})}]))
        team = await place.start_team(tmp_path / "team.json")
        assert (await team.prompt("hi")).text == "Hello"
    async with Workspace(config, client=answering(seen)) as place:
        await place.resume(session)
        assert (await place.agent("a").prompt("again")).text == "Hello"
    assert {request.headers["authorization"] for request in seen} == {f"Bearer key-of-{name}"}
    assert {json.loads(request.content)["model"] for request in seen} == {"some/any-model:free"}
    urls = {str(request.url).removesuffix("/chat/completions") for request in seen}
    assert urls == {known.base_url or f"{address}{known.path}"}


async def run_verb(line: str, client: ai.Client, directory: Path) -> str:
    """What a verb says."""
    config = Config.load(environment={}, directory=directory)
    async with Workspace(config, client=client) as place:
        name, _, rest = line.partition(" ")
        return str(await VERBS[name].run(Notebook(Controller(place), {}), rest))


async def test_a_model_is_chosen_by_a_magic(tmp_path: Path) -> None:
    assert "groq:any-model answers from now on." in await run_verb("model groq:any-model", answering([]), tmp_path)
    with pytest.raises(MissingCredentialError, match="MISTRAL_API_KEY is not set, so mistral:any-model"):
        await run_verb("model mistral:any-model", ai.Client(credentials={}), tmp_path)


async def test_the_key_of_a_server_is_in_the_variable_that_is_named(tmp_path: Path) -> None:
    line = "model openai:qwen --base-url https://llm.example/v1 --key-var MY_TOKEN"
    with pytest.raises(MissingCredentialError, match="MY_TOKEN is not set, so openai:qwen"):
        await run_verb(line, ai.Client(credentials=KEYS), tmp_path)
    assert "answers from now on" in await run_verb(line, ai.Client(credentials={"MY_TOKEN": "secret-1"}), tmp_path)
    seen: list[httpx.Request] = []
    client = answering(seen)
    client._credentials = {"MY_TOKEN": "secret-1"}
    options: dict[str, Any] = {"model": "openai:qwen", "base-url": "https://llm.example/v1", "key-var": "MY_TOKEN"}
    async with Workspace(Config.load(environment={}, directory=tmp_path), client=client) as place:
        await (await Controller(place).start("hi", options, {})).run
    assert seen[0].headers["authorization"] == "Bearer secret-1"


@pytest.mark.parametrize("typed", ["gsk_abcdefghijklmnopqrstuvwxyz0123456789abcdefghijkl", "sk-proj-1234567890", "a b"])
async def test_a_key_that_is_typed_as_a_variable_is_not_shown(typed: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--key-var needs the name of an environment variable") as caught:
        await run_verb(f"model openai:x --base-url https://h.example --key-var '{typed}'", answering([]), tmp_path)
    assert typed not in str(caught.value)


@pytest.mark.parametrize("name", ["vllm", "llama_cpp", "ollama"])
async def test_a_server_that_is_not_there_is_said_when_it_is_chosen(name: str, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}/v1"
    told = await run_verb(f"model {name}:any --base-url {address}", ai.Client(credentials={}), tmp_path)
    url = address.removesuffix("/v1") if name == "ollama" else address
    assert f"No server answers at {url} ({name}) now; start it before you prompt." in told
