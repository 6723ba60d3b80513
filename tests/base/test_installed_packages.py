"""How an extra is installed, and what hides an installed package."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from planck_nb.base.installed_packages import hidden_by, install_command


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ({"url": "file:///home/ada/nb", "dir_info": {"editable": True}}, "`pip install -e '.[mcp]'` in /home/ada/nb"),
        ({"url": "file:///home/ada/my%20nb", "dir_info": {}}, "`pip install '.[mcp]'` in /home/ada/my nb"),
        (
            {"url": "file:///x/y.whl", "archive_info": {}},
            "`pip install '/x/y.whl[mcp]'`",
        ),
        ({"url": "https://example.org/x.git", "vcs_info": {}}, "`pip install 'planck-nb[mcp]'`"),
        (None, "`pip install 'planck-nb[mcp]'`"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(
    source: object, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "planck_nb-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: planck-nb\nVersion: 0.1.0\n")
    if source is not None:
        (folder / "direct_url.json").write_text(json.dumps(source))
    monkeypatch.syspath_prepend(tmp_path)
    assert install_command("mcp") == command


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("aiosqlite.py", "is hidden by ./aiosqlite.py; rename that file or folder"),
        ("aiosqlite/__init__.py", "is hidden by ./aiosqlite; rename that file or folder"),
        ("aiosqlite/notes.txt", ""),
        ("other.py", ""),
    ],
)
def test_what_hides_a_package_is_named_and_not_run(
    file: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("raise RuntimeError")
    assert hidden_by("aiosqlite") == sentence


def test_what_was_imported_in_its_place_stays_until_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "aiosqlite.py").touch()
    monkeypatch.setitem(sys.modules, "aiosqlite", import_module("aiosqlite"))
    assert hidden_by("aiosqlite").endswith("rename that file or folder, and restart the kernel")


@pytest.mark.parametrize("package", ["pytest", "nowhere_installed"])
def test_nothing_hides_what_is_in_its_own_place_or_in_none(package: str) -> None:
    assert hidden_by(package) == ""
