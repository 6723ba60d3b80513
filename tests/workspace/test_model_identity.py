"""A stored agent continues with exactly the model that it had, or with none: resume, fork, rewind and return.

Two servers on loopback record which key arrives: `vendor` is the own address of a provider, `mine` is the user's.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.agents import calling
from support.loopback import Exchange, Server, serving
from support.wire import CHAT_HELLO

from planck_nb import Compactor, Config, Rule, Session, Workspace, ai
from planck_nb.agent.agent_access import compactor_of
from planck_nb.agent.context.compactor import stored_compactor
from planck_nb.ai import Cassette
from planck_nb.ai.model_lookup.model_source import model_source
from planck_nb.ai.registry import REGISTRY
from planck_nb.base.errors import ConfigError, ModelError
from planck_nb.testing import scripted_model

KEYS = {"ACME_API_KEY": "the-vendors-key", "MINE_API_KEY": "the-key-of-mine", "OTHER_API_KEY": "the-other-key"}
SECRET = "sk-" + "0123456789abcdefghij"


async def hello(exchange: Exchange) -> None:
    await exchange.head()
    for chunk in CHAT_HELLO:
        await exchange.send(chunk)
    await exchange.end()


@dataclass
class World:
    """A folder, the vendor's server, and the user's."""

    folder: Path
    vendor: Server
    mine: Server
    patch: pytest.MonkeyPatch

    @property
    def address(self) -> str:
        return f"{self.mine.url}/v1"

    def workspace(self, *without: str, **settings: Any) -> Workspace:
        for name, key in KEYS.items():
            if name in without:
                self.patch.delenv(name)
            else:
                self.patch.setenv(name, key)
        return Workspace(Config.load(environment={}, directory=self.folder, trust=True, **settings))

    def describe(self, **model: object) -> None:
        """Write `models.json` with one alias."""
        file = self.folder / ".planck/models.json"
        file.parent.mkdir(exist_ok=True)
        entry = {"id": "mine", "model": "qwen", "provider": "acme", "base_url": self.address, **model}
        file.write_text(json.dumps({"models": [{key: value for key, value in entry.items() if value is not None}]}))

    def seen(self) -> dict[str, list[str | None]]:
        """The keys that arrived, by server."""
        return {
            name: [exchange.headers.get("authorization") for exchange in server.exchanges]
            for name, server in (("vendor", self.vendor), ("mine", self.mine))
            if server.exchanges
        }

    def forget(self) -> None:
        self.vendor.exchanges.clear()
        self.mine.exchanges.clear()

    def stored(self) -> str:
        """All that is stored, as text."""
        files = (file for file in (self.folder / ".planck/sessions").rglob("*") if file.is_file())
        return "\n".join(file.read_bytes().decode("latin-1") for file in files)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        vendor, mine = [await stack.enter_async_context(serving(hello)) for _ in range(2)]
        ai.register(
            ai.Provider("acme", "chat", base_url=f"{vendor.url}/v1", key_variables=("ACME_API_KEY",), needs_key=True)
        )
        try:
            yield World(tmp_path, vendor, mine, monkeypatch)
        finally:
            REGISTRY.unregister("acme")


Make = Callable[[World, Workspace], ai.Model]


def own_key(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=world.address, key_variable="MINE_API_KEY")


def without_key(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=world.address, has_api_key=False)


def vendors_key(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=world.address)


def of_the_vendor(_world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme:qwen")


def by_alias(_world: World, place: Workspace) -> ai.Model:
    return place.model("mine")


def own_facts(world: World, _: Workspace) -> ai.Model:
    return replace(
        ai.get_model("acme", "qwen", base_url=world.address, key_variable="MINE_API_KEY"),
        name="My Qwen",
        context_window=4321,
        max_output=99,
        pricing=ai.Pricing(1.0, 2.5, steps=(ai.PriceStep(1000, 2.0, 5.0),)),
        thinking=True,
        thinking_levels=("off", "high"),
        modalities=("text", "image"),
        settings={"quirk": {"level": 2, "on": True}},
        options=ai.Options(temperature=0.25, stop=["END"], extra={"seed": 7, "prompt_cache_key": "a-long-name"}),
    )


def replaced_alias(world: World, place: Workspace) -> ai.Model:
    return replace(by_alias(world, place), context_window=777)


def made_by_hand(world: World, _: Workspace) -> ai.Model:
    return ai.Model("acme", "qwen", "chat", base_url=world.address, key_variable="MINE_API_KEY", context_window=54321)


def discovered(_world: World, _: Workspace) -> ai.Model:
    return replace(ai.get_model("llama_cpp", "default", base_url=_world.address), context_window=8192)


FOUND: dict[Make, tuple[str, str | None]] = {
    own_key: ("mine", "Bearer the-key-of-mine"),
    without_key: ("mine", None),
    vendors_key: ("mine", "Bearer the-vendors-key"),
    of_the_vendor: ("vendor", "Bearer the-vendors-key"),
    by_alias: ("mine", "Bearer the-key-of-mine"),
    own_facts: ("mine", "Bearer the-key-of-mine"),
    replaced_alias: ("mine", "Bearer the-key-of-mine"),
    made_by_hand: ("mine", "Bearer the-key-of-mine"),
    discovered: ("mine", None),
}
"""For each model the server that it is at, and what that gets as authorization."""


async def check(world: World, place: Workspace, expected: Mapping[str, ai.Model]) -> None:
    """Check that the agents of the workspace have these models, and that requests go where they went before."""
    assert {name: agent.model for name, agent in place.agents.items()} == expected
    for make, (server, key) in FOUND.items():
        world.forget()
        agent = place.agent(make.__name__)
        assert agent.description == "Adds."
        assert model_source(agent.model) == model_source(expected[agent.name])
        assert (await agent.prompt("Again?")).text == "Hello"
        assert (agent.name, world.seen()) == (agent.name, {server: [key]})


@pytest.mark.slow
async def test_every_way_back_ends_at_the_same_server_with_the_same_key(world: World) -> None:
    world.describe(identifier="MINE", context_window=1000)
    async with world.workspace() as place:
        models = {make.__name__: make(world, place) for make in FOUND}
        for name, model in models.items():
            place.add_agent(name, model=model, description="Adds.")
        await check(world, place, models)
        session = place.session.name
    async with world.workspace() as place:
        assert await place.resume(session) == []
        await check(world, place, models)
        assert await place.fork("copy") == []
        await check(world, place, models)
        await place.rewind(min(agent.state.messages[2].id for agent in place.agents.values()))
        await check(world, place, models)
    async with world.workspace() as place:
        assert await place.resume("copy") == []
        await check(world, place, models)
    assert not [secret for secret in KEYS.values() if secret in world.stored()]


@pytest.mark.slow
async def test_a_branch_is_returned_to_with_the_models_that_it_had(world: World) -> None:
    async with world.workspace() as place:
        bob = place.add_agent("bob", model=scripted_model(["one"]))
        await bob.prompt("first")
        models = {
            "own": own_facts(world, place),
            "hand": ai.get_model("acme", "m", base_url=world.address, api_key="k" * 9),
        }
        for name, model in models.items():
            await place.add_agent(name, model=model).prompt("Hi")
        world.forget()
        await place.rewind(bob.state.messages[0].id)
        assert list(place.agents) == ["bob"]
        assert await place.return_to(place.session.branches()[-1].id) == []
        assert {name: place.agent(name).model for name in models} == models
        await place.agent("hand").prompt("Again?")
        assert world.seen() == {"mine": ["Bearer kkkkkkkkk"]}, "this process still has the key"
        await place.rewind(bob.state.messages[0].id)
        session, branch = place.session.name, place.session.branches()[-1].id
    async with world.workspace() as place:
        await place.resume(session)
        [problem] = await place.return_to(branch)
        assert "hand has no model, because acme:m cannot be used as it was: its key was given by hand" in problem
        assert f"`%planck resume {session} --model MODEL`" in problem
        world.forget()
        with pytest.raises(ConfigError, match=re.escape(problem)):
            await place.agent("hand").prompt("Again?")
        with pytest.raises(ConfigError, match=re.escape(problem)):
            await place.agent("hand").preview()
        assert world.seen() == {}
        assert await place.resume(session, model=own_key(world, place)) == []
        await place.agent("hand").prompt("Again?")
        assert world.seen() == {"mine": ["Bearer the-key-of-mine"]}
        assert place.agent("own").model == models["own"]


# What is refused.


def describe_elsewhere(world: World) -> None:
    world.describe(identifier="MINE", base_url=f"{world.vendor.url}/other")


def describe_other_key(world: World) -> None:
    world.describe(identifier="OTHER")


def describe_other_model(world: World) -> None:
    world.describe(identifier="MINE", model="llama")


def describe_nothing(world: World) -> None:
    world.describe(id="renamed", identifier="MINE")


def describe_as_before(world: World) -> None:
    world.describe(identifier="MINE")


def with_password(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=world.address.replace("//", f"//me:{SECRET}@"), has_api_key=False)


def with_query(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=f"{world.address}?token={SECRET}", has_api_key=False)


def key_by_hand(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=world.address, api_key=SECRET)


def vendors_key_by_hand(_world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", api_key=SECRET)


def own_function(world: World, _: Workspace) -> ai.Model:
    return ai.get_model("acme", "qwen", base_url=world.address, auth=lambda _: {"authorization": f"Bearer {SECRET}"})


def alias_with_key(_world: World, place: Workspace) -> ai.Model:
    return replace(place.model("mine"), api_key=SECRET)


def secret_setting(world: World, _: Workspace) -> ai.Model:
    return replace(own_key(world, _), settings={"deep": {"api_token": SECRET}})


def secret_option(world: World, _: Workspace) -> ai.Model:
    return replace(own_key(world, _), options=ai.Options(extra={"note": f"use {SECRET}"}))


def setting_that_is_no_data(world: World, _: Workspace) -> ai.Model:
    return replace(own_key(world, _), settings={"signer": object()})


NEVER_FOUND: dict[str, tuple[Make, str]] = {
    "by-hand": (key_by_hand, "its key was given by hand, which is never stored"),
    "vendors": (vendors_key_by_hand, "its key was given by hand, which is never stored"),
    "function": (own_function, "its credentials come from a function, which is never stored"),
    "alias": (alias_with_key, "its key was given by hand, which is never stored"),
    "password": (with_password, "its base_url cannot be stored"),
    "query": (with_query, "its base_url cannot be stored"),
    "secret": (secret_setting, "its settings.deep.api_token cannot be stored"),
    "option": (secret_option, "its options.extra.note cannot be stored"),
    "setting": (setting_that_is_no_data, "its settings.signer cannot be stored"),
}
"""What cannot be stored whole, by the names of agents, and the reason in the sentence."""


@pytest.mark.slow
async def test_what_cannot_be_stored_is_refused_elsewhere(world: World) -> None:
    world.describe(identifier="MINE")
    async with world.workspace() as place:
        models = {name: make(world, place) for name, (make, _) in NEVER_FOUND.items()}
        for name, model in models.items():
            await place.add_agent(name, model=model).prompt("Hi")
        session = place.session.name
        assert await place.fork("copy") == []
        assert {name: agent.model for name, agent in place.agents.items()} == models, "this process still has all of it"
    world.forget()
    for name in (session, "copy"):
        async with world.workspace() as place:
            present = place.add_agent("present", model=scripted_model(["yes"]))
            with pytest.raises(ModelError) as refused:
                await place.resume(name)
            for agent, (_, reason) in NEVER_FOUND.items():
                assert f"{agent} (acme:qwen): {reason}" in str(refused.value)
            assert f"`%planck resume {name} --model MODEL`" in str(refused.value)
            assert f"workspace.resume({name!r}, model=…)" in str(refused.value)
            assert (await present.prompt("Still there?")).text == "yes"
            assert await place.resume(name, model=scripted_model(["-", "from now on"])) == []
            for agent in NEVER_FOUND:
                assert (await place.agent(agent).prompt("Again?")).text == "from now on"
    assert world.seen() == {}
    assert SECRET not in world.stored()


CHANGES: dict[str, tuple[Callable[[World], None], tuple[str, ...], str]] = {
    "alias gone": (describe_nothing, (), "there is no model with the alias 'mine' any more"),
    "alias elsewhere": (describe_elsewhere, (), "the alias 'mine' stands for another model, server or key now"),
    "another key": (describe_other_key, (), "the alias 'mine' stands for another model, server or key now"),
    "another model": (describe_other_model, (), "the alias 'mine' stands for another model, server or key now"),
    "variable unset": (describe_as_before, ("MINE_API_KEY",), "MINE_API_KEY is not set"),
}


@pytest.mark.slow
async def test_a_model_that_is_another_one_now_is_refused(world: World) -> None:
    world.describe(identifier="MINE")
    async with world.workspace() as place:
        await place.add_agent("ann", model=by_alias(world, place)).prompt("Hi")
        session = place.session.name
    world.forget()
    for change, unset, reason in CHANGES.values():
        change(world)
        async with world.workspace(*unset) as place:
            with pytest.raises(ModelError, match=re.escape(f"ann (acme:qwen): {reason}")):
                await place.resume(session)
    async with world.workspace() as place:
        place.add_agent("bob", model=own_key(world, place))
        own = place.session.name
    async with world.workspace("MINE_API_KEY") as place:
        with pytest.raises(ModelError, match=re.escape("bob (acme:qwen): MINE_API_KEY is not set")):
            await place.resume(own)
    assert world.seen() == {}


async def test_no_key_is_needed_where_answers_are_replayed(world: World, tmp_path: Path) -> None:
    async with world.workspace() as place:
        place.cassette = Cassette(tmp_path / "recorded.jsonl", "record")
        ann = place.add_agent("ann", model=own_key(world, place))
        await ann.prompt("Hi")
        name = place.session.name
    async with world.workspace("MINE_API_KEY") as place:
        place.cassette = Cassette(tmp_path / "recorded.jsonl", "replay")
        assert await place.resume(name) == []


@pytest.mark.slow
async def test_one_model_replaces_those_that_are_lost_or_all(world: World) -> None:
    async with world.workspace() as place:
        kept = place.add_agent("kept", model=own_facts(world, place)).model
        place.add_agent("lost", model=key_by_hand(world, place))
        name = place.session.name
    chosen = scripted_model(["one"])
    async with world.workspace() as place:
        with pytest.raises(ModelError, match=r"as it was: lost .acme:qwen."):
            await place.resume(name)
        await place.resume(name, model=chosen)
        assert (place.agent("kept").model, place.agent("lost").model) == (kept, chosen)
    async with world.workspace() as place:
        assert await place.resume(name, model="demo:demo") == []
        assert {str(agent.model) for agent in place.agents.values()} == {"demo:demo"}


@pytest.mark.slow
async def test_fallbacks_are_no_way_around_a_refusal(world: World) -> None:
    async with world.workspace() as place:
        bob = place.add_agent("bob", model=scripted_model(["one"]))
        await bob.prompt("first")
        place.add_agent("ann", model=key_by_hand(world, place))
        await place.rewind(bob.state.messages[0].id)
        name, branch = place.session.name, place.session.branches()[-1].id
    async with world.workspace(fallbacks=("acme:qwen",)) as place:
        await place.resume(name)
        await place.return_to(branch)
        with pytest.raises(ConfigError, match="ann has no model"):
            await place.agent("ann").prompt("Hi")
        assert world.seen() == {}
        await place.fork("copy")
        assert place.agent("ann").model.unavailable is not None
    async with world.workspace() as place:
        with pytest.raises(ModelError, match="its key was given by hand"):
            await place.resume("copy")


# What else an agent keeps.


@pytest.mark.slow
async def test_models_that_an_agent_may_give_stay_where_they_are(world: World) -> None:
    async with world.workspace() as place:
        given = (own_facts(world, place), ai.get_model("acme", "second", base_url=world.address, api_key=SECRET))
        place.agent_factory.create("ann", model=scripted_model([]), available_models=given)
        name = place.session.name
        assert await place.fork("copy") == []
        assert place.agent("ann").available_models == given
    async with world.workspace() as place:
        [problem] = await place.resume(name)
        assert problem.startswith("ann cannot give acme:second to agents that it starts: its key was given by hand")
        assert place.agent("ann").available_models == given[:1]


@pytest.mark.slow
async def test_compactors_are_kept_or_named(world: World) -> None:
    def mine(messages: object) -> None: ...

    built = Compactor.build(own_key(world, world.workspace()), ratio=0.5, keep_recent=3)
    async with world.workspace() as place:
        place.add_agent("ann", model=scripted_model([]), on_compact=built)
        place.add_agent("bob", model=scripted_model([]))
        session = place.session.name
    async with world.workspace(compact_ratio=0.7) as place:
        assert await place.resume(session) == []
        kept = compactor_of(place.agent("ann"))
        assert kept is not None
        assert stored_compactor(kept) == stored_compactor(built)
        assert stored_compactor(kept)["model_source"]["key_variable"] == "MINE_API_KEY"
        carl = place.add_agent("carl", model=scripted_model([]), on_compact=mine)
        await place.fork("copy")
        assert compactor_of(place.agent("carl")) is compactor_of(carl)
    async with world.workspace() as place:
        with pytest.raises(ModelError, match=r"its compactor test_compactors.*mine is a function or class that is not"):
            await place.resume("copy")
        [problem] = await place.resume("copy", model="demo:demo")
        assert problem.startswith("carl continues with the built-in compactor: its compactor test_compactors")


@pytest.mark.slow
async def test_attributes_of_a_users_compactor_are_not_stored(world: World) -> None:
    class Forgetful(Compactor):
        description = "Forgets everything."
        stored = object()
        name = 3

        async def compact(self, messages: object, context_usage: object) -> None:
            """Leave the conversation as it is."""

    async with world.workspace() as place:
        ann = place.add_agent("ann", model=scripted_model(["Hello"]), on_compact=Forgetful())
        assert (await ann.prompt("Hi")).text == "Hello"
        session = place.session.name
        await place.fork("copy")
        assert compactor_of(place.agent("ann")) is compactor_of(ann)
    async with world.workspace() as place:
        [problem] = await place.resume(session, model="demo:demo")
        assert problem.startswith("ann continues with the built-in compactor: its compactor test_attributes")


async def test_a_fork_keeps_functions_and_its_tools_write_to_its_own_changes(world: World) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with world.workspace(allow=(Rule.parse("allow", "write"),)) as place:
        ann = place.add_agent(
            "ann",
            model=scripted_model([*calling(("add", {"a": 20, "b": 22}), ("write", {"path": "a.txt", "content": "x"}))]),
            tools=[add, *place.toolbox.named(["write"])],
        )
        assert await place.fork("copy") == []
        forked = place.agent("ann")
        forked.model = ann.model
        assert [tool.name for tool in forked.tools] == ["add", "write"]
        await forked.prompt("20 + 22?")
        assert "42" in str(forked.state.messages)
        assert len(place.changes) == 1


# The description of a model.


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1"),
        ("https://me@host/v1", "https://host/v1"),
        (f"https://me:{SECRET}@host/v1", "https://host/v1"),
        (f"https://host/v1?key={SECRET}", "https://host/v1"),
        (f"https://host/v1#{SECRET}", "https://host/v1"),
        (f"https://host/{SECRET}/v1", ""),
        (f"me:{SECRET}@host:11434", "host:11434"),
        ("localhost:11434", "localhost:11434"),
        ("http://[", ""),
    ],
)
def test_an_address_is_described_without_secrets(url: str, kept: str) -> None:
    source = model_source(ai.Model("ollama", "m", "ollama", base_url=url))
    assert source["base_url"] == kept
    assert ("left_out" in source) == (kept != url)


@pytest.mark.parametrize(
    "source",
    [
        {"api": "chat", "overrides": {"context_window": "many"}},
        {"api": "chat", "overrides": {"pricing": {"input": []}}},
        {"api": "chat", "overrides": {"options": {"stop": 3}}},
        {"api": "chat", "overrides": 3},
        {"api": "chat", "base_url": 3},
        {"api": "chat", "base_url": "nowhere"},
        {"api": "chat", "key_variable": 3},
        {"api": "chat", "alias": 3},
        {"api": "no-such-format"},
        {"api": 3},
        {"api": "chat", "left_out": 3},
        {"api": "chat", "credentials": [1]},
    ],
    ids=str,
)
def test_a_damaged_description_is_refused(source: Mapping[str, Any]) -> None:
    from planck_nb.ai.model_lookup.model_source import find_again

    with pytest.raises(ModelError):
        find_again("openai:gpt-5.4", source)


def test_a_model_that_nobody_changed_has_a_short_description() -> None:
    assert model_source(ai.get_model("anthropic:claude-sonnet-4-6")) == {"api": "messages"}
    assert model_source(scripted_model(["hello"])) == {"api": "demo", "has_api_key": False}


# Changes of the session that overlap.


@pytest.mark.slow
async def test_agents_are_added_before_or_after_a_change_of_the_session(world: World) -> None:
    async with world.workspace() as place:
        place.add_agent("ann", model=scripted_model(["one"]))
        first = place.session.name
    async with world.workspace() as place:
        place.add_agent("old", model=scripted_model(["one"]))
        stopping = place.agent("old").stop
        refused: list[str] = []

        async def stop(**options: Any) -> None:
            """Add an agent while the agents are stopped."""
            try:
                place.add_agent("ann", model=scripted_model(["two"]))
            except Exception as error:  # noqa: BLE001 - looked at below
                refused.append(str(error))
            await stopping(**options)

        object.__setattr__(place.agent("old"), "stop", stop)
        await place.resume(first)
        assert refused == ["The workspace is changing to another session; add the agent when that is done."]
        assert [(agent.name, agent.state.stopped) for agent in place.agents.values()] == [("ann", False)]
        await asyncio.gather(place.fork("one"), place.fork("two"), place.remove_agent("ann"))
        assert place.session.name == "two"
        assert list(place.agents) == []
        for name in ("one", "two"):
            with Session.read(place.sessions_dir, name) as session:
                assert session.name == name
