"""A prompt waits for sidecars that are being started, once, and says which tools it goes without."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.agents import calling
from support.sidecar_links import SERVERS, Impatient, until, until_file

from planck_nb import Config, Workspace
from planck_nb.agent.agent import Agent
from planck_nb.agent.approval import Rule
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller, StartedRun
from planck_nb.testing import scripted_model

pytestmark = pytest.mark.process

SLOW = 'echo begun >> "$0-begun"; until [ -e "$0" ]; do sleep 0.02; done; exec "$@"'
GOES_WITHOUT = "This prompt goes without the tools of desk, which is still starting."


def slow(mark: Path, mode: str = "") -> dict[str, object]:
    """A server that starts when a file is there."""
    server = [sys.executable, "-I", "-S", str(SERVERS / "hostile_sidecar.py"), mode]
    return {"command": "sh", "args": ["-c", SLOW, str(mark), *server], "env": {"STATE": str(mark.parent)}}


class Place:
    """A notebook's controller, whose user has sidecars of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.go = home / "go"
        self.view = Impatient()
        self._workspace: Workspace | None = None

    def configure(self, *, wait: str = "all", **servers: object) -> Controller:
        (self.home / ".planck").mkdir()
        (self.home / ".planck/mcp.json").write_text(json.dumps({"mcpServers": servers}))
        (self.home / "project").mkdir()
        environment = {"PLANCK_NB_SIDECAR_WAIT": wait}
        config = Config.load(environment=environment, directory=self.home / "project", home=self.home)
        self._workspace = Workspace(config)
        self._workspace.set_default_model(scripted_model(["fine"] * 20))
        return Controller(self._workspace)

    def show(self, names: Sequence[str]) -> AbstractContextManager[Impatient]:
        return nullcontext(self.view)

    async def aclose(self) -> None:
        self.go.touch()
        if self._workspace is not None:
            await self._workspace.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    yield made
    await made.aclose()


def names(agent: Agent) -> set[str]:
    return {tool.name for tool in agent.tools}


def lines(started: StartedRun) -> list[str]:
    return started.notice.splitlines()


async def test_the_first_prompt_has_the_tools_however_long_they_take(place: Place) -> None:
    controller = place.configure(desk=slow(place.go))
    controller.workspace.set_default_model(scripted_model(calling(("echo", {"text": "hi"}))))
    controller.workspace.approvals.remember(Rule.parse("allow", "execute:sidecar:desk/*"))
    starting = asyncio.create_task(controller.start("go", {}, {}, show_wait=place.show))
    await until_file(Path(f"{place.go}-begun"))
    assert not starting.done()
    assert place.view.waited_for[-1] == ["desk"]
    place.go.touch()
    started = await starting
    await started.run
    [result] = [e.message for e in started.agent.state.messages if isinstance(e.message, ToolResultMessage)]
    assert result.content[0].text == "hi"
    assert next(line for line in lines(started) if "desk" in line).startswith("The sidecar desk is connected, with ")
    assert not [line for line in lines(started) if "goes without" in line]


async def test_a_person_goes_on_without_it_once_and_has_it_later(place: Place) -> None:
    controller = place.configure(desk=slow(place.go))
    starting = asyncio.create_task(controller.start("one", {}, {}, show_wait=place.show))
    await until(lambda: place.view.waited_for)
    place.view.enough.set()
    started = await starting
    assert lines(started)[-1] == GOES_WITHOUT
    assert names(started.agent) == set()
    place.view.waited_for.clear()
    again = await controller.start("two", {}, {}, show_wait=place.show)
    assert place.view.waited_for == [], "this start is waited for once"
    assert lines(again) == [GOES_WITHOUT]
    place.go.touch()
    await until(lambda: "echo" in names(started.agent))
    third = await controller.start("three", {}, {}, show_wait=place.show)
    assert not [line for line in lines(third) if "goes without" in line]


async def test_a_sidecar_that_failed_delays_nobody_again(place: Place) -> None:
    controller = place.configure(desk=slow(place.go, "exit"), files={"command": "no-such-program-anywhere"})
    place.go.touch()
    first = await controller.start("one", {}, {})
    said = [line for line in lines(first) if "sidecar" in line]
    assert sorted(line.partition(" did")[0].partition(" cannot")[0] for line in said) == [
        "The sidecar desk",
        "The sidecar files",
    ]
    second = await controller.start("two", {}, {}, show_wait=place.show)
    assert place.view.waited_for == []
    assert lines(second) == [
        "This prompt goes without the tools of desk, files, which are not running; see `%planck sidecar`."
    ]


async def test_a_sidecar_that_failed_before_the_first_prompt_is_not_started_again(place: Place) -> None:
    controller = place.configure(desk=slow(place.go, "exit"))
    place.go.touch()
    [status] = await controller.workspace.sidecars.start()
    assert status.state == "failed"
    started = await controller.start("one", {}, {}, show_wait=place.show)
    await started.run
    assert place.view.waited_for == []
    assert place.go.with_name("go-begun").read_text() == "begun\n"


async def test_each_sidecar_is_waited_for_until_its_own_start_has_ended(place: Place) -> None:
    other = place.home / "other"
    controller = place.configure(desk=slow(place.go), files=slow(other), dead={"command": "no-such-program-anywhere"})
    starting = asyncio.create_task(controller.start("one", {}, {}, show_wait=place.show))
    other.touch()
    await until(lambda: place.view.waited_for[-1:] == [["desk"]])
    place.view.enough.set()
    assert lines(await starting)[-1] == GOES_WITHOUT


@pytest.mark.parametrize(
    ("prompt", "options", "waits"),
    [
        ("What is new?", {}, False),
        ("Ask the desk.", {}, True),
        ("Go", {"tools": ["desk"]}, True),
        ("Go", {"tools": ["echo"]}, True),
        ("Go", {"tools": ["read"]}, False),
        ("Go", {"allow": [Rule.parse("allow", "execute:sidecar:desk/*")]}, True),
        ("Go", {"allow": [Rule.parse("allow", "echo")]}, True),
        ("Go", {"allow": [Rule.parse("allow", "write:src/**")]}, False),
    ],
)
async def test_by_a_setting_only_what_a_prompt_names_is_waited_for(
    place: Place, prompt: str, options: dict[str, Any], waits: bool
) -> None:
    controller = place.configure(wait="named", desk=slow(place.go))
    starting = asyncio.create_task(controller.start(prompt, options, {}, show_wait=place.show))
    if waits:
        await until(lambda: place.view.waited_for)
        place.go.touch()
    started = await starting
    assert [line for line in lines(started) if "goes without" in line] == ([] if waits else [GOES_WITHOUT])
    assert ("echo" in names(started.agent)) == waits


async def test_an_interrupt_ends_the_wait_and_sends_nothing(place: Place) -> None:
    controller = place.configure(desk=slow(place.go))
    starting = asyncio.create_task(controller.start("one", {}, {}, show_wait=place.show))
    await until(lambda: place.view.waited_for)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert controller.workspace.agents == {}
    place.go.touch()
    started = await controller.start("two", {}, {}, show_wait=place.show)
    assert "echo" in names(started.agent)


async def test_agents_without_sidecars_wait_for_none(place: Place) -> None:
    controller = place.configure(desk=slow(place.go))
    controller.workspace.add_agent("own", model=scripted_model(["fine"]))
    started = await controller.start("go", {"agent": "own"}, {}, show_wait=place.show)
    assert (await started.run).text == "fine"
    assert place.view.waited_for == []
    assert started.notice == ""


async def test_an_error_in_the_prompt_is_said_before_the_wait(place: Place) -> None:
    controller = place.configure(desk=slow(place.go))
    with pytest.raises(UsageError, match=r"nowhere\.png"):
        await controller.start("go", {"image": [Path("nowhere.png")]}, {}, show_wait=place.show)
    assert place.view.waited_for == []


async def test_names_of_tools_are_kept_when_a_person_goes_on(place: Place) -> None:
    other = place.home / "other"
    controller = place.configure(desk=slow(place.go), files=slow(other))
    other.touch()
    starting = asyncio.create_task(controller.start("one", {}, {}, show_wait=place.show))
    await until(lambda: place.view.waited_for[-1:] == [["desk"]])
    place.view.enough.set()
    await starting
    place.go.touch()
    await until(lambda: "desk__echo" in controller.workspace.sidecars.tools())
    assert controller.workspace.sidecars.manager.owner("echo") == ("files", "echo")
