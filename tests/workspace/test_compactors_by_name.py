"""Compactors that are chosen by name, in Python and in magics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Compactor, Config, Workspace
from planck_nb.agent.agent_access import compactor_of
from planck_nb.agent.context.compactor import Compact, ContextUsage, stored_compactor
from planck_nb.ai.messages import Message, SummaryMessage
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError, UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.testing import scripted_model


def last_two(messages: Sequence[Message]) -> tuple[str, Sequence[Message]] | None:
    return ("In short.", messages[-1:]) if len(messages) > 2 else None


class Ahead(Compactor):
    def should(self, context_usage: ContextUsage) -> bool:
        return context_usage.tokens > 10**9

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        return None


def small(replies: Sequence[str]) -> Model:
    return replace(scripted_model(replies), context_window=100_000)


def place(tmp_path: Path, **settings: Any) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path, default_model="demo:demo", **settings))


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squeeze_package.py").write_text("def squeeze(messages):\n    return None\n")
    info = tmp_path / "squeeze-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: squeeze\nVersion: 1.0\n")
    points = "[planck_nb.compactors]\nsqueeze = squeeze_package:squeeze\nbroken = squeeze_package:missing\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.slow
async def test_a_package_offers_compactors_that_a_resume_finds_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch)
    async with place(tmp_path / "w") as here:
        ann = here.add_agent("ann", model=scripted_model([]), on_compact="squeeze")
        compactor = compactor_of(ann)
        assert compactor is not None
        assert stored_compactor(compactor) == {"name": "squeeze"}
        with pytest.raises(ConfigError, match="The compactor broken of the package squeeze cannot be used: Attribute"):
            here.add_agent("bob", model=scripted_model([]), on_compact="broken")
        with pytest.raises(UsageError, match=r"no compactor named squeze.*Did you mean squeeze"):
            here.add_agent("bob", model=scripted_model([]), on_compact="squeze")
        session = here.session.id
    async with place(tmp_path / "w") as here:
        problems = await here.resume(session, model="demo:demo")
        assert not any("compactor" in problem for problem in problems)
        found = compactor_of(here.agent("ann"))
        assert found is not None
        assert stored_compactor(found) == {"name": "squeeze"}


async def test_a_compactor_with_another_one_before_it_is_found_again_with_both(tmp_path: Path) -> None:
    built = Compactor.build("demo:demo", ratio=0.4, keep_recent=3, first=last_two, timeout=7)
    nested = Compactor.build(ratio=0.3, first=Compactor.build("demo:demo", ratio=0.6), timeout=9)
    async with place(tmp_path) as here:
        here.add_agent("ann", model=scripted_model([]), on_compact=built)
        here.add_agent("bob", model=scripted_model([]), on_compact=nested)
        session = here.session.id
    stored = stored_compactor(built)
    assert stored["name"] == "last_two"
    async with place(tmp_path) as here:
        here.compactors.own = {"last_two": last_two}
        assert not any("compactor" in problem for problem in await here.resume(session, model="demo:demo"))
        found = compactor_of(here.agent("ann"))
        assert found is not None
        assert stored_compactor(found) == stored == {**stored, "ratio": 0.4, "keep_recent": 3, "timeout": 7}
        assert stored["model"] == "demo:demo"
        assert stored_compactor(compactor_of(here.agent("bob")) or Ahead()) == stored_compactor(nested)


async def test_the_magics_use_a_function_of_the_notebook(tmp_path: Path) -> None:
    names: dict[str, object] = {"last_two": last_two, "Ahead": Ahead, "number": 3}
    async with place(tmp_path) as here:
        controller = Controller(here)
        await (await controller.start("one", {"compactor": "last_two"}, names)).run
        agent = here.agent("planck")
        assert stored_compactor(compactor_of(agent) or Ahead()) == {"name": "last_two"}
        await (await controller.start("two", {}, names)).run
        assert any(isinstance(entry.message, SummaryMessage) for entry in agent.state.messages)
        await (await controller.start("three", {"compactor": "Ahead"}, names)).run
        compactor = compactor_of(agent)
        assert compactor is not None
        assert compactor.compacts_ahead
        await (await controller.start("four", {"compactor": "default"}, names)).run
        assert stored_compactor(compactor_of(agent) or Ahead())["ratio"] == 0.8
        count = len(agent.state.messages)
        for name, words in (("number", "number is of type int"), ("lost", "There is no compactor named lost")):
            with pytest.raises(UsageError, match=words):
                await controller.start("five", {"compactor": name, "agent": "new"}, names)
        assert len(agent.state.messages) == count
        assert "new" not in here.agents
        session = here.session.id
    async with place(tmp_path) as here:
        here.compactors.own = names
        assert await here.resume(session) == []
        assert stored_compactor(compactor_of(here.agent("planck")) or Ahead()) == {"name": "last_two"}


async def test_tokens_of_the_next_request_are_estimated_with_a_prompt(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        ann = here.add_agent("ann", model=small(["ok"]), system_prompt="Be brief.", tools=[last_two_tool])
        alone = ann.estimate_tokens()
        assert alone > 10
        longer = ann.estimate_tokens("word " * 100)
        assert 80 < longer - alone < 150
        assert ann.state.messages == ()
        with pytest.raises(UsageError):
            ann.estimate_tokens(3)  # type: ignore[arg-type]


def last_two_tool(city: str) -> str:
    """Find two."""
    return city
