"""What `new_sidecar` writes works: its test passes, and it can be served."""

from __future__ import annotations

import asyncio
import pathlib
import sys
import tomllib

import pytest
from support.sidecar_server import served, server_environment, text_of

from planck_nb.base.errors import UsageError
from planck_nb.sidecars import new_sidecar
from planck_nb.sidecars.conventions import ENTRY_POINT_GROUP

pytestmark = pytest.mark.process


async def test_a_new_sidecar_passes_its_test_and_is_served(tmp_path: pathlib.Path) -> None:
    name = "My-sidecar_2"
    folder = new_sidecar(name, tmp_path / "new folder")
    tests = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=folder,
        env=server_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await tests.communicate())[0].decode()
    assert "2 passed" in output, output
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == name
    (reference,) = project["entry-points"][ENTRY_POINT_GROUP].values()
    async with served(folder, reference) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["count_words", "run_tests", "planck_compact_newest"]
        assert text_of(await client.call_tool("count_words", {"text": "a b"})) == "2"


def test_it_is_written_to_a_folder_of_its_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_sidecar("web") == pathlib.Path("web")
    assert (tmp_path / "web" / "web" / "__init__.py").exists()


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "../up", "a/b", "-a", "a-", "é", "import", "mcp", "planck-nb", "a--b"]
)
def test_names_that_cannot_be_packages(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(UsageError):
        new_sidecar(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine").write_text("kept", encoding="utf-8")
    with pytest.raises(UsageError, match="not an empty folder"):
        new_sidecar("web", tmp_path)
    with pytest.raises(UsageError, match="not an empty folder"):
        new_sidecar("web", tmp_path / "mine")
    assert [item.name for item in tmp_path.iterdir()] == ["mine"]
