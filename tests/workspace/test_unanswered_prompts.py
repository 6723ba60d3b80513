"""Prompts that were waiting when a process was killed are listed on resume, whole, and sent or removed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import unanswered_child as child
from support.agents import Hold, calling, prompts

from planck_nb import Config, Session, Workspace, ai
from planck_nb.base.errors import AgentError
from planck_nb.sessions import list_sessions, read_unanswered
from planck_nb.testing import scripted_model
from planck_nb.workspace.workspace import INTERRUPTED

pytestmark = pytest.mark.process

QUEUE = {"queued", "unqueued", "steered", "turn_start", "turn_end"}
"""The events that say which prompts wait."""


def workspace(folder: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=folder))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program, which was killed when its prompts were stored."""
    folder = tmp_path_factory.mktemp("killed")
    path = os.pathsep.join(map(str, sys.path))
    with subprocess.Popen(
        [sys.executable, child.__file__, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    return folder


@pytest.fixture
def killed(original: Path, tmp_path: Path) -> str:
    """The name of the killed session, in a copy of its folder."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    [session] = list_sessions(tmp_path / ".planck/sessions")
    return session.name


async def test_after_kill_9_what_waited_is_offered_until_it_is_sent(tmp_path: Path, killed: str) -> None:
    for _ in range(2):  # what is offered and not used is offered again
        async with workspace(tmp_path) as place:
            problems = await place.resume(killed)
            assert [problem for problem in problems if problem.startswith("The session ended before")] == [
                (
                    "The session ended before ann answered 3 prompts: “What is this?”, “Steer left.”, “How many?”. "
                    "`%planck queue ann --send` sends them now, `%planck queue ann --drop` removes them."
                )
            ]
            waiting = place.unanswered
            assert [prompt.text for prompt in waiting] == ["What is this?", "Steer left.", "How many?"]
            assert waiting[0].content == (ai.TextPart("What is this?"), ai.ImagePart(child.IMAGE))
            assert [prompt.steer for prompt in waiting] == [False, True, False]
            assert [prompt.output for prompt in waiting] == [None, None, child.SCHEMA]
            assert all(prompt.complete and prompt.agent_id == place.agent("ann").id for prompt in waiting)
            assert prompts(place.agent("ann")) == ["First.", "Running.", INTERRUPTED]
    async with workspace(tmp_path) as place:
        await place.resume(killed)
        ann = place.agent("ann")
        ann.model = scripted_model(["-", "-", "an image", "left", '{"n": 3}'])
        with pytest.raises(AgentError, match="There is no unanswered prompt other"):
            place.send_unanswered("other")
        runs = place.send_unanswered()
        assert not place.unanswered
        assert [run.id for run in runs] == [prompt.id for prompt in waiting]
        results = [await run for run in runs]
        assert [result.output for result in results] == ["an image", "left", {"n": 3}]
        assert prompts(ann)[3:] == ["What is this?", "Steer left.", "How many?"]
        [message] = [
            message
            for message in (entry.message for entry in ann.state.messages)
            if message.type == "user" and message.text == "What is this?"
        ]
        assert message.content == waiting[0].content
        assert ann.state.queue == ()
    async with workspace(tmp_path) as place:
        await place.resume(killed)
        assert not place.unanswered


async def test_what_is_dropped_or_sent_is_not_offered_again(tmp_path: Path, killed: str) -> None:
    async with workspace(tmp_path) as place:
        await place.resume(killed)
        first, second, third = place.unanswered
        await place.drop_unanswered(first.id)
        assert place.unanswered == (second, third)
        ann = place.agent("ann")
        hold = Hold()
        ann.model = scripted_model(["-", "-", *calling(("hold", {})), "both"])
        ann.add_tool(hold.hold)
        running = ann.prompt("Now.")
        await hold.entered.wait()
        [sent] = place.send_unanswered(second.id)
        assert [prompt.text for prompt in ann.state.queue] == ["Steer left."]
        hold.release()
        await asyncio.gather(running, sent)
        assert prompts(ann)[-1] == "Steer left."
    async with workspace(tmp_path) as place:
        await place.resume(killed)
        assert place.unanswered == (third,)
        await place.drop_unanswered()
    async with workspace(tmp_path) as place:
        assert not [problem for problem in await place.resume(killed) if "ended before" in problem]


async def test_a_rewind_drops_what_waited_and_a_fork_of_the_past_offers_nothing(tmp_path: Path, killed: str) -> None:
    async with workspace(tmp_path) as place:
        await place.resume(killed)
        last = place.agent("ann").state.messages[-1].id
        await place.fork("now")
        assert len(place.unanswered) > 0
        await place.fork("past", before=last)
        assert not place.unanswered
    async with workspace(tmp_path) as place:
        await place.resume("past")
        assert not place.unanswered
    async with workspace(tmp_path) as place:
        await place.resume("now")
        assert len(place.unanswered) > 0
        await place.rewind(place.agent("ann").state.messages[-1].id)
        assert not place.unanswered
    async with workspace(tmp_path) as place:
        await place.resume("now")
        assert not place.unanswered


async def test_wherever_a_journal_is_cut_each_prompt_is_stored_or_offered(tmp_path: Path) -> None:
    hold = Hold()
    async with workspace(tmp_path) as place:
        replies: list[Any] = [*calling(("hold", {})), "two", "three", "four", "five"]
        ann = place.add_agent("ann", model=scripted_model(replies), tools=[hold.hold])
        running = ann.prompt("Running.")
        await hold.entered.wait()
        runs = [ann.prompt("B"), ann.steer("Steer"), ann.prompt("C"), ann.prompt("D")]
        removed = ann.prompt("Removed")
        ann.remove_queued(removed.id)
        hold.release()
        await asyncio.gather(running, *runs)
    [info] = list_sessions(place.sessions_dir)
    lines = info.path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) > 25
    all_rows = [json.loads(line) for line in lines]
    changing = [end for end, row in enumerate(all_rows, 1) if row.get("type") in QUEUE or row.get("role") == "user"]
    assert len(changing) > 15
    for end in changing:  # nothing changes between these lines
        cut = tmp_path / f"cut-{end}"
        cut.mkdir()
        (cut / info.path.name).write_text("".join(lines[:end]), encoding="utf-8")
        rows = all_rows[:end]
        sent = [row["data"] for row in rows if row.get("type") == "queued"]
        left = [row["data"]["prompt_id"] for row in rows if row.get("type") == "unqueued"]
        stored = [row["text"] for row in rows if row.get("role") == "user"]
        expected = [data["text"] for data in sent if data["text"] not in stored]
        if removed.id in left:
            expected.remove("Removed")
        with Session.open(cut, info.id) as session:
            offered = [prompt.text for prompt in await read_unanswered(session)]
        assert sorted(offered) == sorted(expected), f"cut after line {end}: {lines[end - 1]}"


@pytest.mark.parametrize("content", [None, [{"type": "unknown"}]])
async def test_of_a_damaged_prompt_the_text_is_left(content: object, tmp_path: Path, killed: str) -> None:
    [info] = list_sessions(tmp_path / ".planck/sessions")
    changed = []
    for line in info.path.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line)
        if row.get("type") == "queued":
            row["data"]["content"] = content
        changed.append(json.dumps(row) + "\n")
    info.path.write_text("".join(changed), encoding="utf-8")
    for file in info.path.parent.glob("*.duckdb*"):
        file.unlink()
    async with workspace(tmp_path) as place:
        problems = await place.resume(killed)
        assert any("Images and files cannot be read." in problem for problem in problems)
        assert [(prompt.text, prompt.complete) for prompt in place.unanswered] == [
            ("What is this?", False),
            ("Steer left.", False),
            ("How many?", False),
        ]


@pytest.mark.parametrize(
    "data",
    [
        {"prompt_id": 3, "text": "x", "content": [3]},
        {"prompt_id": "p", "text": "x", "content": [{"type": "script"}]},
        {"prompt_id": "p", "text": "x", "content": "x", "output": 3},
        {"text": "x"},
        {"prompt_id": "p", "text": ["x"]},
    ],
    ids=str,
)
async def test_damaged_rows_are_offered_as_text_or_not_at_all(data: dict[str, Any], tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        place.add_agent("ann", model=scripted_model([]))
        session_id, agent_id = place.session.id, place.agent("ann").id
    [info] = list_sessions(tmp_path / ".planck/sessions")
    last = json.loads(info.path.read_text(encoding="utf-8").splitlines()[-1])
    row = {
        "v": 1,
        "id": last["id"] + 1,
        "kind": "event",
        "agent_id": agent_id,
        "turn": -1,
        "ts": last["ts"],
        "type": "queued",
        "data": {"agent_id": agent_id, "session_id": session_id, "turn": -1, "seq": 9, "time": 1.0, **data},
    }
    with info.path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    with Session.open(info.path.parent, session_id) as session:
        found = await read_unanswered(session)
    assert [(prompt.text, prompt.complete) for prompt in found] == ([("x", False)] if data["text"] == "x" else [])
