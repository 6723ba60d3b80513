"""`%planck sidecar`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import ConfigError, PlanckError, TrustError, UsageError
from planck_nb.jupyter.completion import suggest
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS

pytestmark = pytest.mark.process

CODE = '''
import sys
from planck_nb.sidecars import Sidecar

sidecar = Sidecar("weather")

@sidecar.tool
async def forecast(city: str) -> str:
    """Forecast the weather of a city."""
    print("asked for", city, file=sys.stderr)
    return f"sun in {city}"

@sidecar.compactor
def short(messages, model):
    return "It was about weather.", messages[-1:]
'''


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    """A notebook in a folder with a sidecar that is not trusted yet."""
    (tmp_path / "weather.py").write_text(CODE)
    (tmp_path / ".planck").mkdir()
    server = {"command": sys.executable, "args": ["-m", "planck_nb.sidecars", "weather"]}
    server["env"] = {"PYTHONPATH": str(Path(__file__).parents[3])}  # type: ignore[assignment]
    (tmp_path / ".planck/mcp.json").write_text(json.dumps({"mcpServers": {"weather": server}}))
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path / "home")
    async with Workspace(config) as workspace:
        yield Notebook(Controller(workspace), {})


async def said(notebook: Notebook, line: str) -> Any:
    name, _, rest = line.partition(" ")
    return await VERBS[name].run(notebook, rest)


async def test_a_sidecar_is_listed_trusted_started_used_and_stopped(notebook: Notebook) -> None:
    listed = await said(notebook, "sidecar")
    assert isinstance(listed, pd.DataFrame)
    assert listed.to_dict("records") == [
        {
            "sidecar": "weather",
            "state": "idle",
            "transport": "stdio",
            "tools": 0,
            "source": ".planck/mcp.json",
            "remark": "not trusted; look at it, then run `%planck trust`",
        }
    ]
    assert await said(notebook, "sidecar logs weather") == "The sidecar weather has written nothing."
    with pytest.raises(TrustError, match=r"The sidecar weather .* is not trusted"):
        await said(notebook, "sidecar start weather")
    await said(notebook, "trust --list")
    await said(notebook, "trust")
    started = await said(notebook, "sidecar start")
    assert started == "weather: connected, 1 tool (forecast), compactors: short."
    run = await notebook.controller.start('forecast "Paris"', {"compactor": "short", "tools": ["weather"]}, {})
    assert [tool.name for tool in run.agent.tools] == ["forecast"]
    run.run.abort()
    [tool] = run.agent.tools
    assert (await tool.run({"city": "Paris"})).text == "sun in Paris"
    assert (await said(notebook, "sidecar logs weather")).endswith("asked for Paris")
    assert await said(notebook, "sidecar restart weather") == started
    assert (await tool.run({"city": "Rome"})).text == "sun in Rome", "the same tool after the restart"
    assert await said(notebook, "sidecar stop") == "Stopped: all sidecars."
    assert list((await said(notebook, "sidecar list"))["state"]) == ["idle"]
    assert run.agent.tools == ()


async def test_a_file_of_another_client_is_added(notebook: Notebook, tmp_path: Path) -> None:
    other = {"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}, "empty": {}}}
    (tmp_path / "client.json").write_text(json.dumps(other))
    added = (await said(notebook, "sidecar add client.json")).splitlines()
    assert added[0] == "Added: far. `%planck sidecar start` starts them."
    assert added[1].startswith("The sidecar empty")
    assert "far: failed." in await said(notebook, "sidecar start far")


@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        ("sidecar start wether", UsageError, "There is no sidecar wether; known are: weather"),
        ("sidecar logs", UsageError, "needs the name of one sidecar"),
        ("sidecar logs wether", UsageError, "There is no sidecar wether; known are: weather"),
        ("sidecar stop wether", UsageError, "There is no sidecar wether; known are: weather"),
        ("sidecar add", UsageError, "needs one JSON file"),
        ("sidecar add nowhere.json", ConfigError, "There is no file"),
        ("sidecar list --lines 3", UsageError, "--lines is for"),
        ("sidecar strat weather", UsageError, "start"),
    ],
)
async def test_what_cannot_be_done_is_one_sentence(
    notebook: Notebook, line: str, error: type[PlanckError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        await said(notebook, line)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_are_completed(notebook: Notebook) -> None:
    line = "%planck sidecar start we"
    shown, suggestions = suggest(line, 0, line, notebook)
    assert shown == "we"
    assert "weather" in str(suggestions)
