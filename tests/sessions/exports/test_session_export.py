from __future__ import annotations

import asyncio
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from support.stored import converse, reply

from planck_nb.ai.messages import (
    AssistantMessage,
    ImagePart,
    SummaryMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError
from planck_nb.sessions import (
    Session,
    SessionInfo,
    delete_session,
    export_session,
    import_session,
    list_sessions,
    query,
)

EVIL = '</pre><script>alert(1)</script>&"'


@pytest.fixture
def stored(tmp_path: Path) -> SessionInfo:
    """A session with everything that a message can hold."""

    async def fill() -> SessionInfo:
        with Session.create(tmp_path / "sessions", name="mine") as session:
            await converse(session)
            await session.append("a1", UserMessage((TextPart(EVIL), ImagePart(b"png"), ImagePart(url="http://x/y"))))
            calls = (ToolCallPart("1", "f", {}, invalid="{"), ToolCallPart("2", "g", {"é": 1}))
            await session.append("a1", AssistantMessage(calls, "error", error="It broke."))
            results = (ToolResultPart("1", "f", "```\nfence\n```", is_error=True, images=(ImagePart(b"x"),)),)
            await session.append("a1", ToolResultMessage(results))
            await session.append("b", SummaryMessage("in short"))
            taken_back = await session.append("a1", reply("taken back"))
            await session.truncate_after(taken_back)
            await session.save_metadata({"team": "x"})
            return session.info

    return asyncio.run(fill())


def test_jsonl_comes_back_as_it_was(stored: SessionInfo, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(export_session(stored, "jsonl"), encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    info = import_session(elsewhere, file)
    assert (info.name, info.parent) == ("mine", None)
    with Session.open(stored.path.parent, "mine") as old, Session.open(elsewhere, info.id) as new:
        assert new.messages() == old.messages()
        assert [event.type for event in new.events()] == [event.type for event in old.events()]
        assert new.get_metadata() == {"team": "x"}
        assert asyncio.run(new.append("a", UserMessage("more"))) > new.messages()[-2].db_id
    assert "taken back" not in file.read_text(encoding="utf-8")


def test_what_is_imported_under_a_name_has_it_alone(stored: SessionInfo, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(export_session(stored, "jsonl"), encoding="utf-8")
    assert import_session(stored.path.parent, file, name="other").name == "other"
    with pytest.raises(SessionError, match="named 'mine' already"):
        import_session(stored.path.parent, file, name="mine")


def test_what_is_imported_beside_a_session_of_its_name_gets_a_number(stored: SessionInfo, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    for name, numbered in (("mine", "mine-2"), ("mine", "mine-3"), ("x" * 80, "x" * 80), ("x" * 80, "x" * 78 + "-2")):
        file.write_text(export_session(stored, "jsonl").replace('"mine"', f'"{name}"', 1), encoding="utf-8")
        assert import_session(stored.path.parent, file).name == numbered


def test_what_is_imported_beside_its_original_is_not_counted_twice(stored: SessionInfo, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(export_session(stored, "jsonl"), encoding="utf-8")
    before = query(stored.path.parent, "select sum(cost_usd) as c from usage").c[0]
    assert import_session(stored.path.parent, file, name="copy").parent == stored.id
    assert query(stored.path.parent, "select sum(cost_usd) as c from usage").c[0] == before


def test_a_fork_that_comes_back_counts_what_is_its_own(stored: SessionInfo, tmp_path: Path) -> None:
    directory, file = stored.path.parent, tmp_path / "fork.jsonl"
    with Session.open(directory, "mine") as session, session.fork(name="fork") as fork:
        asyncio.run(fork.append("a1", reply("its own")))
        info = fork.info
    before = query(directory, "select sum(cost_usd) as c from usage").c[0]
    file.write_text(export_session(info, "jsonl"), encoding="utf-8")
    delete_session(info, confirm="fork")
    assert import_session(directory, file).parent == stored.id
    assert query(directory, "select sum(cost_usd) as c from usage").c[0] == before


@pytest.mark.parametrize(
    "damage", ["empty", "torn", "foreign", "name", "order", "newer", "kind", "rewind", "agent", "time", "missing"]
)
def test_a_file_that_is_not_an_export_is_refused_and_nothing_is_created(
    stored: SessionInfo, tmp_path: Path, damage: str
) -> None:
    text = export_session(stored, "jsonl")
    lines = text.splitlines(keepends=True)
    broken = {
        "empty": "",
        "torn": text[:-5],
        "foreign": '{"a": 1}\n' * 3,
        "name": text.replace('"name":"mine"', '"name":5', 1),
        "order": "".join([lines[0], *reversed(lines[1:])]),
        "newer": "".join([lines[0], lines[1].replace('"v":1', '"v":9')]),
        "kind": "".join([lines[0], lines[1].replace('"kind":"event"', '"kind":"what"')]),
        "rewind": text.replace('"kind":"message"', '"kind":"rewind"', 1),
        "agent": text.replace('"agent_id":"a1"', '"agent_id":["a1"]', 1),
        "time": text.replace('"time":1750000000.25,"role"', '"time":"then","role"', 1),
    }
    file = tmp_path / "file"
    if damage in broken:
        file.write_text(broken[damage], encoding="utf-8")
    with pytest.raises(SessionFormatError if damage in broken else SessionError, match=r"newer|file "):
        import_session(tmp_path / "new", file)
    assert not (tmp_path / "new").exists()


def test_markdown(stored: SessionInfo) -> None:
    text = export_session(stored, "markdown")
    assert text.startswith("# mine\n\nSession ")
    assert "## User · a1\n\nquestion 0\n" in text
    assert "## demo:small · a1\n\n> *Thinking*\n>\n> hm\n\nLet me look.\n\n- `weather Łódź`\n" in text
    assert "- `f` **failed**\n" in text
    assert "  ````text\n  ```\n  fence\n  ```\n  ````\n" in text
    assert "## Summary · b\n\nin short" in text
    assert "It broke." in text
    assert "taken back" not in text


def test_html_is_whole_and_runs_nothing(stored: SessionInfo) -> None:
    seen: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)
            assert not any((value or "").startswith("http") for _, value in attrs), "nothing is fetched"

        def handle_data(self, data: str) -> None:
            seen.append(data)

    text = export_session(stored, "html")
    Tags().feed(text)
    assert "script" not in seen
    assert EVIL in seen
    assert seen.count("article") == 5
    assert seen.count("img") == 2


def test_a_notebook_has_a_cell_for_each_prompt(stored: SessionInfo) -> None:
    notebook = cast("Any", nbformat).reads(export_session(stored, "ipynb"), as_version=4)
    cast("Any", nbformat).validate(notebook)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert sources[:2] == ["%load_ext planck_nb", "%%planck\nquestion 0"]
    assert sources[2].startswith(f"%%planck\n{EVIL}")
    assert len(sources) == 3
    [output] = notebook.cells[2].outputs
    assert "answer 0" in output.data["text/markdown"]


def test_a_session_can_be_exported_while_it_is_written(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        for form in ("jsonl", "markdown", "html", "ipynb"):
            assert export_session(session.info, cast("Any", form))
        asyncio.run(session.append("a", UserMessage("now")))
        assert json.loads(export_session(session.info, "jsonl").splitlines()[-1])["text"] == "now"
        with pytest.raises(SessionError, match="one of jsonl, markdown"):
            export_session(session.info, cast("Any", "pdf"))


def test_what_is_gone_is_not_exported(stored: SessionInfo) -> None:
    delete_session(stored, confirm="mine")
    with pytest.raises(SessionError, match="was it deleted"):
        export_session(stored, "markdown")


def test_deleting_needs_the_name_and_takes_every_file(stored: SessionInfo) -> None:
    directory = stored.path.parent
    Session.create(directory, name="other").close()
    for wrong in ("", "mi", stored.id):
        with pytest.raises(SessionError, match="Nothing was deleted"):
            delete_session(stored, confirm=wrong)
    with Session.open(directory, "mine") as session:
        session._writer.start_segment()
        with pytest.raises(SessionLockedError):
            delete_session(stored, confirm="mine")
        assert len(session.messages()) == 8
    delete_session(stored, confirm="mine")
    assert [session.name for session in list_sessions(directory)] == ["other"]
    assert not [path for path in directory.iterdir() if path.name.startswith(stored.id)]
