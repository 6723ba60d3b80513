"""Exports of sessions in which agents work for each other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from support.stored import converse
from support.stored_teams import ask, delegate, idle, respond, running_team

from planck_nb.agent import events as ev
from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import Session, SessionInfo, export_session, import_session, query, read_open_tasks
from planck_nb.testing import Reply

EVIL = '</pre><script>alert(1)</script>[x](javascript:y)\n# heading "'


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> SessionInfo:
    """A session in which an orchestrator asks one worker and delegates to two, of which one fails."""

    async def fill() -> SessionInfo:
        with Session.create(tmp_path_factory.mktemp("team") / "sessions", name="work") as session:
            calls = Reply(calls=(ask("ann", "2+2?"), delegate("bob", "build it"), delegate("cy", EVIL)))
            scripts: dict[str, list[Reply | str]] = {
                "ann": ["It is 4."],
                "bob": [respond("built"), "over"],
                "cy": [Reply(error="It broke.")],
            }
            async with running_team(session, [calls, *["Noted."] * 5], **scripts) as agents:
                await agents["boss"].prompt("go")
                await idle(agents["boss"], messages=7)
            return session.info

    return asyncio.run(fill())


def test_markdown_has_the_senders_and_the_tasks(stored: SessionInfo) -> None:
    text = export_session(stored, "markdown")
    for heading in ("User · boss", "Question from boss · ann", "Task from boss · bob", "Response from bob · boss"):
        assert f"\n\n## {heading}\n\n" in text
    conversation, tasks = text.split("\n\n## Tasks between agents\n\n")
    lines = sorted(tasks.splitlines())
    assert [line.split(" after ")[0] for line in lines[:2]] == [
        "- boss asked ann: “2+2?”; answered",
        "- boss delegated to bob: “build it”; answered",
    ]
    assert lines[0].endswith(" s: “It is 4.”")
    assert lines[2].startswith("- boss delegated to cy: “")
    assert "; failed after " in lines[2]
    assert len(lines) == 3
    assert "<script>" not in tasks
    assert "\n# heading" not in conversation.split("Task from boss · cy")[0]


def test_html_has_them_as_text(stored: SessionInfo) -> None:
    text = export_session(stored, "html")
    assert "<h2>Question from boss · ann</h2>" in text
    section = text.split('<section class="delegations">')[1]
    assert section.count("<li>") == 3
    assert "<li>boss asked ann: “2+2?”; answered after " in section
    assert "<script" not in text


def test_a_notebook_has_a_cell_for_the_prompt_of_the_user_only(stored: SessionInfo) -> None:
    notebook = cast("Any", nbformat).reads(export_session(stored, "ipynb"), as_version=4)
    cast("Any", nbformat).validate(notebook)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"] == [
        "%load_ext planck_nb",
        "%%planck\ngo",
    ]
    assert notebook.cells[-1].cell_type == "markdown"
    assert notebook.cells[-1].source.startswith("## Tasks between agents\n\n- boss ")
    assert "Task from boss · bob" in notebook.cells[2].outputs[0].data["text/plain"]


def test_jsonl_comes_back_with_senders_tasks_and_members(stored: SessionInfo, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(export_session(stored, "jsonl"), encoding="utf-8")
    info = import_session(tmp_path / "elsewhere", file)
    with Session.read(stored.path.parent, "work") as old, Session.read(info.path.parent, "work") as new:
        before, after = ([ev.encode_event(event) for event in reader.events()] for reader in (old, new))
        assert [_portable(event) for event in after] == [_portable(event) for event in before]
    for view in ("delegations", "team_members"):
        sql = f"select * exclude (session_id) from {view} order by all"
        found = [query(directory, sql) for directory in (stored.path.parent, info.path.parent)]
        assert len(found[0]) > 2
        assert found[0].to_csv() == found[1].to_csv()
    for form in ("markdown", "html", "ipynb"):
        texts = [export_session(each, cast("Any", form)).replace(each.id, "") for each in (stored, info)]
        assert texts[0] == texts[1]


def _portable(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "session_id"}


async def test_open_automatic_and_repeated_tasks_and_equal_names(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="odd") as session:
        for agent, name in (("b1", "Bob"), ("b2", "Bob"), ("a", "Ada")):
            log = session.log(agent)
            log.record(ev.AgentStarted(agent, session.id, -1, 0, 1.0, name, "", "demo:x", "", (), team_id="t"))
        log = session.log("a")
        for task_id, target in (("1", "b1"), ("2", "b2"), ("2", "b2"), ("3", "gone")):
            log.record(ev.Delegated("a", session.id, 0, 0, 2.0, task_id, "delegate", target, "Old", "x" * 400))
        log.record(ev.Responded("a", session.id, 0, 0, 5.5, "1", "delegate", "b1", "Bob", "so\n\nfar"))
        log.record(ev.Responded("a", session.id, 0, 0, 7.0, "1", "delegate", "b1", "Bob", "done", automatic=True))
        log.record(ev.Responded("a", session.id, 0, 0, 7.0, "other", "delegate", "b1", "Bob", "of no task"))
        await session.append("b1", UserMessage("x", sender_id="a", sender_name="Ada"))
        await session.append("b2", UserMessage("x", sender_id="<a>"))
        text = export_session(session.info, "markdown")
    task = f"“{'x' * 299}…”"
    assert text.split("## Tasks between agents\n\n")[1].splitlines() == [
        f"- Ada delegated to Bob &#40;b1&#41;: {task}; answered automatically after 5.0 s: “so far done”",
        f"- Ada delegated to Bob &#40;b2&#41;: {task}; no response yet",
        f"- Ada delegated to Old: {task}; no response yet",
    ]
    assert "## Message from Ada · Bob &#40;b1&#41;\n" in text
    assert "## Message from &#60;a&#62; · Bob &#40;b2&#41;\n" in text


async def test_a_session_without_teams_has_no_section_on_them(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
        await converse(session, "b2")
        for form in ("markdown", "html", "ipynb"):
            text = export_session(session.info, cast("Any", form))
            assert "between agents" not in text
            assert "· a1" in text


async def test_metadata_of_teams_comes_back(tmp_path: Path) -> None:
    teams = {"t1": {"alias": "docs", "name": "Docs", "description": "writes", "source": ".planck/teams/docs"}}
    with Session.create(tmp_path, name="work") as session:
        await session.save_metadata({"other": 1})
        await session.save_metadata({"teams": teams})
        first = await session.append("a", UserMessage("x"))
        await session.truncate_after(first)
        file = tmp_path / "export.jsonl"
        file.write_text(session.export("jsonl"), encoding="utf-8")
        with session.fork() as fork:
            assert fork.get_metadata() == {"other": 1, "teams": teams}
    imported = import_session(tmp_path, file, name="imported")
    for name in ("work", imported.name):
        with Session.open(tmp_path, name) as again:
            assert json.dumps(again.get_metadata()["teams"]) == json.dumps(teams)
            assert await read_open_tasks(again) == ()
