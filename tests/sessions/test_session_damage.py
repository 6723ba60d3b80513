"""Journals with damaged lines and repeated ids, and files that killed processes leave."""

import asyncio
import os
from pathlib import Path

import pytest

from planck_nb.ai.messages import UserMessage
from planck_nb.config import Config
from planck_nb.sessions import Session, read_damage
from planck_nb.workspace import Workspace


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A journal whose second row is damaged and whose third has the id of the first."""
    with Session.create(tmp_path, name="mine") as session:
        for text in ("one", "two", "three"):
            asyncio.run(session.append("a", UserMessage(text)))
    content = session.path.read_bytes()
    content = content.replace(b'{"v":1,"id":2,', b'{"v":1,"id"#2,').replace(b'{"v":1,"id":3,', b'{"v":1,"id":1,')
    session.path.write_bytes(content)
    session.info.database.unlink()
    return tmp_path


def test_of_rows_with_one_id_the_first_counts(damaged: Path) -> None:
    with Session.open(damaged, "mine") as session:
        assert [row.message for row in session.messages()] == [UserMessage("one")]
        assert [row.message for row in session.messages_from_latest_checkpoint("a").rows] == [UserMessage("one")]
        assert [message for _, message in session.log("a").messages()] == [UserMessage("one")]


def test_damage_is_counted(damaged: Path) -> None:
    assert str(read_damage(Session.read(damaged, "mine").info)) == (
        "The journal of mine is damaged: 1 line that cannot be read and 1 row with the id of an earlier row are left "
        "out; restore the file from a backup if you can."
    )
    with Session.create(damaged, name="good") as session:
        asyncio.run(session.append("a", UserMessage("one")))
    assert not str(read_damage(session.info))


async def test_resuming_says_what_is_damaged(damaged: Path) -> None:
    config = Config.load(environment={}, directory=damaged, home=damaged, sessions_dir=damaged)
    async with Workspace(config) as workspace:
        problems = await workspace.resume("mine")
    assert problems[0].startswith("The journal of mine is damaged: 1 line that cannot be read and 1 row")


def test_temporary_files_of_yesterday_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".planck-0123456789ab.tmp", tmp_path / ".planck-ba9876543210.tmp"
    others = [tmp_path / name for name in ("mine.tmp", ".planck-xyz.tmp", "x.part")]
    for path in (old, new, *others):
        path.touch()
    for path in (old, *others):
        os.utime(path, (1_000_000, 1_000_000))
    Session.create(tmp_path).close()
    assert not old.exists()
    assert all(path.exists() for path in (new, *others))
