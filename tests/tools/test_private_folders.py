"""Temporary folders: private, and removed once the process that made them has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from planck_nb.tools.private_folders import make_private_folder, remove_stale_folders

pytestmark = pytest.mark.process

LEAVING = """
import asyncio, os
from planck_nb import BuiltinTools
tool = BuiltinTools.bash(sandbox=os.environ["MODE"])
asyncio.run(tool.run({"command": "seq 1 100000"}))
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_the_folder_of_a_killed_process_is_removed_at_the_next_start(temporary: Path, mode: str) -> None:
    environment = {**os.environ, "MODE": mode}
    assert subprocess.run([sys.executable, "-c", LEAVING], env=environment, check=False).returncode == -9
    (stale,) = temporary.glob("planck-nb-*")
    assert stale.stat().st_mode & 0o777 == 0o700
    assert list(stale.glob("output-*"))
    plain = LEAVING.replace("os.kill(os.getpid(), 9)", "").replace("seq 1 100000", "true")
    subprocess.run([sys.executable, "-c", plain], env=environment, check=True)
    assert list(temporary.glob("planck-nb-*")) == []


def named(folder: Path, process: int, start: int, namespace: int | None = None) -> Path:
    number = Path("/proc/self/ns/pid").stat().st_ino if namespace is None else namespace
    made = folder / f"planck-nb-{process}-{start}-{number}-abc"
    made.mkdir(mode=0o700)
    (made / "output-x.txt").write_text("x")
    return made


def test_only_ours_and_only_stale_ones(temporary: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").write_text("x")
    mine = make_private_folder()
    stale = named(temporary, 2**22 + 7, 5)
    reused = named(temporary, os.getpid(), 5)
    other_namespace = named(temporary, 2**22 + 8, 5, namespace=3)
    open_to_others = named(temporary, 2**22 + 9, 5)
    open_to_others.chmod(0o770)
    link = temporary / stale.name.replace("-abc", "-link")
    link.symlink_to(elsewhere)
    (stale / "inside").symlink_to(elsewhere)
    unrelated = temporary / "planck-nb-notes"
    unrelated.mkdir()
    remove_stale_folders()
    assert sorted(temporary.iterdir()) == sorted([mine, other_namespace, open_to_others, link, unrelated])
    assert not reused.exists()
    assert (elsewhere / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a folder of another user")
def test_a_folder_of_another_user_stays(temporary: Path) -> None:
    stale = named(temporary, 2**22 + 7, 5)
    os.chown(stale, 12_345, 12_345)
    remove_stale_folders()
    assert stale.exists()
