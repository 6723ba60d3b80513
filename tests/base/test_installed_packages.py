"""How an extra is installed, and what hides an installed package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planck_nb.base.installed_packages import install_command


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
