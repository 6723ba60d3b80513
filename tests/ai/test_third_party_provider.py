"""A provider of another package, in one module: its own wire format, signed requests, found by its entry point."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.loopback import Exchange, serving

from planck_nb import Agent, Config, Workspace, ai
from planck_nb.ai.model_lookup.user_models import read_models
from planck_nb.ai.providers import auth_of
from planck_nb.ai.registry import REGISTRY
from planck_nb.base.threads import run_in_thread
from planck_nb.errors import AuthenticationError, CassetteError, ProviderStatusError, StreamTruncated

SOURCE = Path(__file__).with_name("third_party_provider")
SECRET = "the-secret-of-acme"
HI = ai.Context("Be brief.", [ai.UserMessage("hi")])


def install(target: Path) -> None:
    """What `pip install --target` makes of the package, without the build backend that it would need."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    information = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in project["entry-points"].items()
    )
    (information / "entry_points.txt").write_text(points)
    (target / "planck_acme.py").write_text((SOURCE / "planck_acme.py").read_text())


@pytest.fixture(autouse=True)
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    packages = tmp_path / "packages"
    install(packages)
    REGISTRY.unregister("acme")  # of an example in a docstring
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("ACME_SECRET", SECRET)
    yield packages
    REGISTRY.unregister("acme")
    sys.modules.pop("planck_acme", None)


def signature(exchange: Exchange) -> str:
    # The server sees the body parsed; Acme's bodies are compact JSON.
    body = json.dumps(exchange.body, separators=(",", ":"), ensure_ascii=False).encode()
    signed = f"POST http://{exchange.headers['host']}{exchange.path}\n".encode() + body
    return hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()


async def answer(exchange: Exchange) -> None:
    """Checks the signature, calls `add` if it is offered, and reports its result."""
    if exchange.headers.get("authorization") != f"ACME {signature(exchange)}":
        await exchange.answer("401 Unauthorized", '{"message": "The signature is wrong."}')
        return
    last = exchange.body["messages"][-1]
    lines: list[dict[str, object]] = [{"text": "Hel"}, {"text": "lo"}]
    if last["role"] == "tool":
        lines = [{"text": f"It is {last['text']}."}]
    elif exchange.body["tools"]:
        lines = [{"text": "So."}, {"call": {"id": "c1", "name": "add", "arguments": '{"a": 1, "b": 2}'}}]
    await exchange.head(kind="application/x-ndjson")
    for line in [*lines, {"done": True, "tokens": [12, 5]}]:
        await exchange.send(json.dumps(line).encode() + b"\n")
    await exchange.end()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_its_name_is_known_like_any_other() -> None:
    assert "acme" in ai.list_providers()
    model = ai.get_model("acme:any-model")
    assert (model, str(model)) == (ai.get_model("acme", "any-model"), "acme:any-model")
    assert model.api == "acme"
    assert ai.list_models("acme") == []


async def test_it_streams() -> None:
    async with serving(answer) as server:
        model = ai.get_model("acme", "any-model", base_url=server.url)
        async with ai.stream(model, HI, max_tokens=9) as stream:
            texts = [event.text async for event in stream if event.type == "text_delta"]
    assert texts == ["Hel", "lo"]
    assert (stream.message.text, stream.message.stop_reason, stream.message.usage) == ("Hello", "stop", ai.Usage(12, 5))
    assert server.exchanges[0].body["limit"] == 9


async def test_an_agent_calls_tools_with_it() -> None:
    async with serving(answer) as server:
        model = ai.get_model("acme", "any-model", base_url=server.url)
        async with Agent(model=model, tools=[add]) as agent:
            result = await agent.prompt("Add 1 and 2.")
    assert result.text == "It is 3."
    assert [message["role"] for message in server.exchanges[1].body["messages"]] == ["user", "assistant", "tool"]


async def test_a_workspace_and_its_sessions_know_it(tmp_path: Path) -> None:
    async with serving(answer) as server, Workspace(Config(tmp_path)) as workspace:
        model = workspace.model("acme:any-model", base_url=server.url)
        assert (await workspace.add_agent("helper", model=model).prompt("hi")).text == "Hello"


async def test_a_recording_holds_no_credentials_and_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tape.jsonl"
    async with serving(answer) as server, ai.Client(cassette=ai.Cassette(path, "record")) as client:
        await client.complete(ai.get_model("acme", "any-model", base_url=server.url), HI)
    recorded = path.read_text()
    assert signature(server.exchanges[0]) not in recorded
    assert SECRET not in recorded
    monkeypatch.delenv("ACME_SECRET")
    async with ai.Client(cassette=ai.Cassette(path, "replay")) as client:
        assert (await client.complete(ai.get_model("acme:any-model"), HI)).text == "Hello"


async def test_an_answer_that_repeats_the_credentials_is_not_recorded(tmp_path: Path) -> None:
    async def repeats(exchange: Exchange) -> None:
        text = json.dumps({"text": exchange.headers["authorization"]}) + '\n{"done": true, "tokens": [1, 1]}\n'
        await exchange.answer("200 OK", text, "application/x-ndjson")

    async with serving(repeats) as server, ai.Client(cassette=ai.Cassette(tmp_path / "tape", "record")) as client:
        with pytest.raises(CassetteError, match="contains the API key, so it is not written"):
            await client.complete(ai.get_model("acme", "any-model", base_url=server.url), HI)


async def test_errors_are_worded_like_ours_and_show_no_credentials() -> None:
    async def fails(exchange: Exchange) -> None:
        body = json.dumps({"message": f"No: {exchange.headers['authorization']}"})
        await exchange.answer("400 Bad Request", body)

    async def breaks_off(exchange: Exchange) -> None:
        await exchange.answer("200 OK", '{"text": "Hel"}\n', "application/x-ndjson")

    async with serving(fails, breaks_off) as server, ai.Client() as client:
        model = ai.get_model("acme", "any-model", base_url=server.url)
        with pytest.raises(ProviderStatusError, match=r'acme refused .* "No: ACME \[key\]"'):
            await client.complete(model, HI)
        with pytest.raises(StreamTruncated, match="The answer of acme:any-model ended before it was complete"):
            await client.complete(model, HI)


async def test_a_wrong_secret_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_SECRET", "another-secret")
    async with serving(answer) as server, ai.Client() as client:
        with pytest.raises(AuthenticationError, match="The signature is wrong"):
            await client.complete(ai.get_model("acme", "any-model", base_url=server.url), HI)


@pytest.mark.process
async def test_a_fresh_interpreter_finds_it(acme: Path) -> None:
    script = (
        "import asyncio, sys\nfrom planck_nb import ai\n"
        "async def main():\n"
        "    assert 'planck_acme' not in sys.modules\n"
        "    model = ai.get_model('acme', 'any-model', base_url=sys.argv[1])\n"
        "    print((await ai.complete(model, ai.Context(messages=[ai.UserMessage('hi')]))).text)\n"
        "asyncio.run(main())\n"
    )
    root = Path(ai.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(acme)])}
    async with serving(answer) as server:
        done = await run_in_thread(
            lambda: subprocess.run(
                [sys.executable, "-c", script, server.url], env=environment, capture_output=True, text=True, check=False
            )
        )
    assert (done.stdout, done.stderr) == ("Hello\n", "")


TINY = """from planck_nb import ai


def with_seed(body):
    return {**body, "seed": 7}


def register():
    ids = ai.CallIds("a-z", 6, exact=True)
    rules = ai.ServerRules(limit_field="limit", call_ids=ids, refused_fields=frozenset({"stop"}), change=with_seed)
    tiny = ai.Provider("tiny", "chat", base_url="https://llm.tiny.example/v1", key_variables=("TINY_KEY",), rules=rules)
    ai.register(tiny)
"""


async def test_a_provider_with_rules_of_its_own_is_twelve_lines(acme: Path) -> None:
    lines = TINY.splitlines()
    assert len([line for line in lines if line]) <= 12
    (acme / "planck_tiny.py").write_text(TINY)
    information = acme / "planck_tiny-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: planck-tiny\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[planck_nb.providers]\ntiny = planck_tiny:register\n")
    call = ai.ToolCallPart("toolu_01A09q90qw90lq917835lq9", "add", {"a": 1})
    result = ai.ToolResultPart(call.id, "add", "2")
    messages: list[ai.Message] = [ai.UserMessage("hi"), ai.AssistantMessage((call,)), ai.ToolResultMessage((result,))]
    try:
        model = ai.get_model("tiny:any/model")
        request = await ai.Client(credentials={"TINY_KEY": "key-of-tiny"}).preview(
            model, ai.Context(messages=messages), ai.Options(max_tokens=9, stop=["END"])
        )
        assert request.url == "https://llm.tiny.example/v1/chat/completions"
        assert request.headers["authorization"] == "Bearer [key]"
        body: dict[str, Any] = dict(request.body)
        assert (body["limit"], body["seed"], "stop" in body) == (9, 7, False)
        assert request.warnings == ("tiny does not accept stop, so it was not sent.",)
        sent = body["messages"][1]["tool_calls"][0]["id"]
        assert re.fullmatch("[a-z]{6}", sent)
        assert body["messages"][2]["tool_call_id"] == sent
    finally:
        REGISTRY.unregister("tiny")
        sys.modules.pop("planck_tiny", None)


async def test_a_models_file_does_not_get_requests_signed_for_another_server() -> None:
    entry = {"id": "mine", "provider": "acme", "base_url": "http://elsewhere.example"}
    (model,) = read_models({"models": [entry, {**entry, "id": "acme"}]}).models
    (with_key,) = read_models({"models": [{**entry, "identifier": "MINE"}]}).models
    assert auth_of(model) is auth_of(with_key) is None
    assert auth_of(ai.get_model("acme:any-model")) is not None


def test_a_broken_package_is_one_warning_and_the_others_keep_working(acme: Path) -> None:
    broken = acme / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text(
        "[planck_nb.providers]\nbroken = no_such_module:register\nidle = os:getcwd\nowner = os.path:sep\n"
    )
    with pytest.warns(UserWarning, match="of another package is not available") as caught:
        assert "acme" in ai.list_providers()
    reasons = [str(warning.message).removeprefix("The provider ").split(" of another ")[0] for warning in caught]
    assert sorted(reasons) == ["'broken'", "'idle'", "'owner'"]
    said = "\n".join(sorted(str(warning.message) for warning in caught)).splitlines()
    assert said[0].endswith("is not available: ModuleNotFoundError: No module named 'no_such_module'.")
    assert said[1].endswith("is not available: os:getcwd did not register it.")
    assert said[2].endswith("is not available: TypeError: 'str' object is not callable.")
    assert "broken" not in ai.list_providers()  # without a second warning
    assert str(ai.get_model("acme:any-model")) == "acme:any-model"
