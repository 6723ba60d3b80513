"""Requests about a run that is over, against a real workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.base.event_loops import has_running_loop
from planck_nb.config import Config
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.display.error_titles import key_variable
from planck_nb.jupyter.finished_run import FinishedRun
from planck_nb.jupyter.live.browser_requests import FORGOTTEN, reply_to
from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from planck_nb.sessions import Branch, Session, SessionReader
from planck_nb.testing import scripted_model
from planck_nb.workspace import Workspace


def place(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path, default_model="demo:demo"))


async def finished(controller: Controller, prompt: str, *, in_cell: bool = True) -> FinishedRun:
    started = await controller.start(prompt, {}, {})
    await started.run
    transcript = transcript_of(started.agent.name, "demo:script", started.run.events.since(0))
    return FinishedRun(controller, started.agent, started.run, Answer(transcript), in_cell=in_cell, names=dict)


def prompts_of(controller: Controller) -> list[str]:
    messages = controller.workspace.agents["planck"].state.messages
    return [entry.message.text for entry in messages if entry.message.type == "user"]


@pytest.mark.slow
async def test_going_back_and_returning(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.set_default_model(scripted_model(["a", "b"]))
        controller = Controller(here)
        first, second = await finished(controller, "one"), await finished(controller, "two", in_cell=False)
        with pytest.raises(UsageError, match="Nothing was undone here"):
            await second.undo_rewind()
        rewound = await second.rewind()
        assert (rewound.prompt, rewound.in_cell, rewound.undo) == ("two", False, True)
        assert prompts_of(controller) == ["one"]
        again = await second.rewind()
        assert "nothing to go back to" in again.notice
        assert again.undo
        assert await second.undo_rewind() == "The conversation is as it was before."
        assert prompts_of(controller) == ["one", "two"]
        assert "4 messages are set aside" in (await first.rewind()).notice
        assert not (await second.rewind()).undo


@pytest.mark.slow
async def test_a_rewind_reads_no_branches_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[bool] = []

    def branches(session: Session) -> list[Branch]:
        on_loop.append(has_running_loop())
        return SessionReader.branches(session)

    monkeypatch.setattr(Session, "branches", branches)
    async with place(tmp_path) as here:
        here.set_default_model(scripted_model(["a"]))
        run = await finished(Controller(here), "one")
        assert (await run.rewind()).undo
        await run.undo_rewind()
    assert on_loop == [False, False]


@pytest.mark.slow
async def test_nothing_is_changed_while_an_agent_works_or_in_another_session(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        release = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            await release.wait()
            return "done"

        here.set_default_model(scripted_model(["a"]))
        controller = Controller(here)
        first = await finished(controller, "one")
        busy = here.add_agent(
            "busy", model=scripted_model([{"calls": [{"name": "wait", "arguments": {}}]}, "b"]), tools=[wait]
        )
        run = busy.prompt("go")
        await run.events.wait_beyond(0)
        with pytest.raises(UsageError, match="busy is working; wait, or stop the run first"):
            await first.rewind()
        release.set()
        run.abort()
        await asyncio.wait([asyncio.ensure_future(run.wait())])
        await here.fork()
        with pytest.raises(UsageError, match="another session"):
            await first.rewind()
        assert prompts_of(controller) == ["one"]


async def test_replies_to_a_page(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.set_default_model(scripted_model(["a\ud800"]))
        first = await finished(Controller(here), "one")
        reply = await reply_to("p1", "markdown", first)
        assert (reply["type"], reply["id"]) == ("reply", "p1")
        assert reply["text"].startswith("**planck**")
        assert (await reply_to("p2", "anything", first))["error"].startswith("This version")
        assert (await reply_to("p3", "rewind", None))["error"] == FORGOTTEN
        assert len((await reply_to("x" * 9_999, "rewind", None))["id"]) == 100


@pytest.mark.parametrize(
    ("model", "kind", "variable"),
    [
        (Model("anthropic", "x", api="messages"), "MissingCredentialError", "ANTHROPIC_API_KEY"),
        (Model("anthropic", "x", api="messages"), "AuthenticationError", "ANTHROPIC_API_KEY"),
        (Model("anthropic", "x", api="messages"), "RateLimitError", ""),
        (Model("demo", "demo", api="demo"), "AuthenticationError", ""),
    ],
)
def test_the_variable_of_a_key(model: Model, kind: str, variable: str) -> None:
    assert key_variable(model, kind) == variable
