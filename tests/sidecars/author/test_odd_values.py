"""Values that JSON or UTF-8 cannot write, and other oddities, never end the connection."""

from __future__ import annotations

import asyncio
import itertools
import os
import pathlib
import sys
from typing import Any

import pytest
from support.sidecar_server import (
    MODES,
    Mode,
    importing_from,
    served,
    served_here,
    server_environment,
    text_of,
    write_sidecar,
)

from planck_nb.base.errors import PlanckError
from planck_nb.sidecars.author.live_offer import LiveOffer

pytestmark = pytest.mark.process

BODY = r"""
import decimal, time
import mcp_types as types

HALF = "half \ud800 of a character"

@sidecar.tool
async def text() -> str:
    return HALF

@sidecar.tool
def text_in_process() -> str:
    return HALF

@sidecar.tool
async def structured() -> dict:
    return {"é": [1, float("nan"), float("inf"), 2**70]}

@sidecar.tool
def structured_in_process() -> dict:
    return {"é": [1, float("nan"), float("inf"), 2**70]}

@sidecar.tool
async def structured_half() -> dict:
    return {HALF: [HALF]}

@sidecar.tool
async def error() -> str:
    raise ToolError(HALF)

@sidecar.tool
async def exception() -> str:
    open("\udcff")

@sidecar.tool
async def content() -> types.TextContent:
    return types.TextContent(type="text", text=HALF)

@sidecar.tool
async def progress(context: ToolContext) -> str:
    context.progress(HALF)
    return "done"

@sidecar.tool
async def nothing() -> None:
    return None

@sidecar.tool
async def itself() -> dict:
    value = {}
    value["self"] = value
    return value

@sidecar.tool
async def unwritable() -> dict:
    return {"an object": object()}

@sidecar.tool
async def ask() -> str:
    return (await elicit(HALF)).action

@sidecar.tool(process=False)
def cancel() -> str:
    import asyncio
    raise asyncio.CancelledError

@sidecar.resource("odd://text")
def resource() -> str:
    return HALF

@sidecar.prompt
def prompt() -> str:
    return HALF

@sidecar.tool
def span() -> list[float]:
    begun = time.monotonic()
    time.sleep(0.2)
    return [begun, time.monotonic()]
"""

FAILING = {"structured_half", "error", "exception", "itself", "cancel", "unwritable"}
NAMES = [
    "text",
    "text_in_process",
    "structured",
    "structured_in_process",
    "structured_half",
    "error",
    "exception",
    "content",
    "progress",
    "nothing",
    "itself",
    "unwritable",
    "ask",
    "cancel",
]


@pytest.mark.parametrize("mode", MODES)
async def test_the_connection_outlives_every_value(tmp_path: pathlib.Path, mode: Mode) -> None:
    import mcp_types as types

    async def answer(_context: object, _params: object) -> Any:
        return types.ElicitResult(action="accept", content={})

    write_sidecar(tmp_path, BODY)
    async with served(tmp_path, mode=mode, elicitation_callback=answer) as client, asyncio.timeout(60):
        for name in NAMES:
            result = await client.call_tool(name, {}, progress_callback=None)
            assert result.content, name
            assert result.is_error == (name in FAILING), (name, result)
        assert "half" in text_of(await client.call_tool("error", {}))
        content = (await client.call_tool("structured_in_process", {})).structured_content
        assert next(iter(content.values()))[3] == 2**70
        assert (await client.read_resource("odd://text")).contents[0].text.startswith("half ")
        assert (await client.get_prompt("prompt")).messages[0].content.text.startswith("half ")
        with pytest.raises(Exception, match="ghost"):
            await client.call_tool("ghost", {})
        assert (await client.call_tool("text", {})).is_error is False


async def test_processes_are_limited(tmp_path: pathlib.Path) -> None:
    file = write_sidecar(tmp_path, BODY)
    file.write_text(file.read_text().replace("Sidecar('my_sidecar')", "Sidecar('my_sidecar', processes=1)"))
    async with served_here(tmp_path) as client:
        results = await asyncio.gather(*(client.call_tool("span", {}) for _ in range(3)))
        spans = sorted(tuple(map(float, text_of(result).strip("[]").split(","))) for result in results)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


def install(folder: pathlib.Path, value: str) -> None:
    info = folder / "my_sidecar-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-sidecar\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[planck_nb.sidecars]\nmain = {value}\n", encoding="utf-8")


INSTALLED = """
@sidecar.tool
def add(a: int, b: int) -> int:
    return a + b

@sidecar.compactor
def short(messages):
    return None

class Entry(SidecarModule):
    def tools(self):
        return [add]
"""


@pytest.mark.parametrize("value", ["my_sidecar:sidecar", "my_sidecar"])
def test_an_installed_sidecar_is_loaded_without_its_name(tmp_path: pathlib.Path, value: str) -> None:
    install(tmp_path, value)
    write_sidecar(tmp_path, INSTALLED)
    with importing_from(tmp_path):
        assert len(LiveOffer(None).offer.tools) == 2


async def test_an_installed_sidecar_is_served_without_its_name(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "my_sidecar:Entry")
    write_sidecar(tmp_path, INSTALLED)
    environment = server_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    async with served(tmp_path, None, environment=environment) as client:
        assert len((await client.list_tools()).tools) == 1
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (None, "no sidecar entry module found"),
        ("my_sidecar:missing", "has no attribute 'missing'"),
        ("my_sidecar:three", "must return a list"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(tmp_path: pathlib.Path, reference: str | None, words: str) -> None:
    write_sidecar(tmp_path, "class three:\n    def tools(self):\n        return 3\n")
    with importing_from(tmp_path), pytest.raises(PlanckError, match=words):
        LiveOffer(reference)


async def test_what_cannot_be_served_is_one_sentence(tmp_path: pathlib.Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "planck_nb.sidecars", "no_such_module_x",
        cwd=tmp_path, env=server_environment(), stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert "There is no module no_such_module_x" in errors.decode()
    assert "Traceback" not in errors.decode()
