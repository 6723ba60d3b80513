"""The folder of an open session is renamed or moved: the session keeps one history, in the folder where it is now."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored import with_updates

from planck_nb import Config, Workspace
from planck_nb.ai.messages import UserMessage, text_of
from planck_nb.errors import SessionLockedError
from planck_nb.sessions import Session, list_sessions, query
from planck_nb.testing import scripted_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says where an open file is now")

Move = Callable[[Path], Path]
"""Moves the project at a path, and returns where it is then."""


def rename(project: Path) -> Path:
    return project.rename(project.with_name("renamed"))


def move_below_another_folder(project: Path) -> Path:
    (project.parent / "other").mkdir()
    return project.rename(project.parent / "other" / "deep")


def rename_sessions_folder(project: Path) -> Path:
    kept = project / ".planck"
    (project.with_name("moved")).mkdir()
    kept.rename(project.with_name("moved") / ".planck")
    return project.with_name("moved")


def rename_and_make_another(project: Path) -> Path:
    moved = rename(project)
    (project / ".planck" / "sessions").mkdir(parents=True)
    return moved


def rename_and_copy_back(project: Path) -> Path:
    """A copy of an older state takes the old place, as `git worktree` or a backup would do."""
    moved = rename(project)
    shutil.copytree(moved, project)
    return moved


MOVES = [rename, move_below_another_folder, rename_sessions_folder, rename_and_make_another, rename_and_copy_back]


def texts(directory: Path) -> list[str]:
    return list(query(directory, "select text from messages order by id").text)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def exists(path: Path) -> bool:
    return path.exists()


def state_of(folder: Path) -> dict[str, bytes]:
    """What a folder contains, by path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("segments", [False, True], ids=["one segment", "segments"])
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
async def test_one_history_stays_in_the_folder_that_was_moved(
    tmp_path: Path, move: Move, caplog: pytest.LogCaptureFixture, *, segments: bool
) -> None:
    project = tmp_path / "project"
    session = Session.create(project / ".planck" / "sessions", name="mine")
    if segments:
        with_updates(session, segment_bytes=500)
    expected = [f"before {number} " + "x" * 200 for number in range(4)]
    for text in expected:
        await session.append("a", UserMessage(text))
        session.materialize()
    moved = move(project)
    there = state_of(project)
    with caplog.at_level(logging.WARNING):
        for number in range(6):
            expected.append(f"after {number}")
            assert await session.append("a", UserMessage(expected[-1])) == len(expected)
    directory = moved / ".planck" / "sessions"
    assert session.directory == directory
    assert [text_of(row.message.content) for row in session.messages()] == texts(directory) == expected
    session.materialize()
    with pytest.raises(SessionLockedError):
        Session.open(directory, "mine")
    with session.fork(name="copy") as fork:
        assert fork.directory == directory
    session.close()
    assert state_of(project) == there, "nothing is written in the old place"
    assert exists(project) == (move not in {rename, move_below_another_folder})
    assert not list(directory.glob("*.bad")) + list(directory.glob("*.replaced-*"))
    assert session.info.database.exists()
    [said] = [record.getMessage() for record in caplog.records]
    assert said == (
        f"The folder {project / '.planck' / 'sessions'} was renamed or moved, and session 'mine' goes on in "
        f"{directory}; restart the kernel or program there, because everything else in it still uses the old path."
    )
    with Session.open(directory, "mine") as again:
        assert [text_of(row.message.content) for row in again.messages()] == expected


async def test_it_may_move_before_the_first_row_and_again_later(tmp_path: Path) -> None:
    with Session.create(tmp_path / "a", name="mine") as session:
        (tmp_path / "a").rename(tmp_path / "b")
        await session.append("a", UserMessage("one"))
        (tmp_path / "b").rename(tmp_path / "c")
        assert [text_of(row.message.content) for row in session.messages()] == ["one"], "reading notices it, too"
        (tmp_path / "c").rename(tmp_path / "d")
    assert names_in(tmp_path) == ["d"]
    assert session.directory == tmp_path / "d"
    assert texts(tmp_path / "d") == ["one"]


async def test_a_journal_that_is_moved_by_itself_is_written_again(tmp_path: Path) -> None:
    """Its other files stay, so this is not where the session is now."""
    with Session.create(tmp_path / "a", name="mine") as session:
        await session.append("a", UserMessage("one"))
        (tmp_path / "b").mkdir()
        session.path.rename(tmp_path / "b" / session.path.name)
        await session.append("a", UserMessage("two"))
        assert session.directory == tmp_path / "a"
    assert texts(tmp_path / "a") == ["one", "two"]


async def test_a_folder_that_is_deleted_after_its_move_is_written_again(tmp_path: Path) -> None:
    with Session.create(tmp_path / "a", name="mine") as session:
        await session.append("a", UserMessage("one"))
        (tmp_path / "a").rename(tmp_path / "b")
        await session.append("a", UserMessage("two"))
        shutil.rmtree(tmp_path / "b")
        await session.append("a", UserMessage("three"))
    assert texts(tmp_path / "b") == ["one", "two", "three"]
    assert names_in(tmp_path) == ["b"]


async def test_a_workspace_goes_on_where_its_sessions_are(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    config = Config.load(environment={}, directory=project, home=tmp_path, trust=True)
    async with Workspace(config) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(["one", "two"]))
        await agent.prompt("1")
        with workspace.changes.recording(tmp_path / "a", None, b"1", tool="write"):
            pass
        moved = project.rename(tmp_path / "renamed")
        await agent.prompt("2")
        shown = await workspace.query_async("select text from messages where role = 'user' order by id")
        assert shown.text.tolist() == ["1", "2"]
        assert workspace.sessions_dir == moved / ".planck" / "sessions"
        assert [info.name for info in workspace.sessions()] == [workspace.session.name]
        with workspace.changes.recording(tmp_path / "b", None, b"1", tool="write"):
            pass
        assert [change.path.name for change in workspace.changes] == ["a", "b"]
        await workspace.fork("copy")
        assert workspace.session.directory == workspace.sessions_dir
    assert not exists(project)
    assert len(list_sessions(moved / ".planck" / "sessions")) == 2
