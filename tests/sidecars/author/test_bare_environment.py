"""The author's module works where nothing is installed but `mcp` and what that requires."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support.sidecar_server import ROOT, text_of, write_sidecar

pytestmark = pytest.mark.process

BODY = '''
from planck_nb import Tool, ToolOutput
from planck_nb.ai import ImagePart

@sidecar.tool
def add(a: int, b: int = 2) -> dict[str, int]:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return {"sum": a + b}

@sidecar.tool
async def shout(text: str, context: ToolContext) -> str:
    context.progress("shouting")
    code, output = await run("echo", text.upper())
    return output

@sidecar.tool(process=False)
def image() -> ToolOutput:
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
    return ToolOutput("an image", (ImagePart(data, "image/png"),))

sidecar.add(Tool(name="strict", description="", execute_fn=lambda args: "ok",
                 parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))

@sidecar.compactor
def short(messages, model):
    return messages[0].text, messages[-1:]

@sidecar.observer
def watch(events):
    print(len(events))
'''


def required(
    name: str, found: dict[str, importlib.metadata.Distribution], extras: frozenset[str] = frozenset()
) -> None:
    """Add a distribution and what it requires, with these extras, to `found`."""
    from packaging.requirements import Requirement

    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found and not extras:
        return
    found[key] = importlib.metadata.distribution(name)
    for line in found[key].requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            required(requirement.name, found, frozenset(requirement.extras))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The folders of a `sys.path` with the standard library, `mcp` with its requirements, and planck_nb."""
    distributions: dict[str, importlib.metadata.Distribution] = {}
    required("mcp", distributions)
    folder = tmp_path_factory.mktemp("bare")
    for distribution in distributions.values():
        for file in distribution.files or ():
            top = file.parts[0]
            target = folder / top
            if top != ".." and not target.is_symlink():
                target.symlink_to(pathlib.Path(str(distribution.locate_file(top))).resolve())
    own = tmp_path_factory.mktemp("own")
    (own / "planck_nb").symlink_to(ROOT / "planck_nb")
    standard = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import json, sys; print(json.dumps(sys.path))"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return [*json.loads(standard), str(folder), str(own)]


def program(path: list[str], code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {path!r}; {code}"]


def test_the_environment_is_bare(bare: list[str]) -> None:
    code = (
        "import importlib.util as u; "
        "print([name for name in ('httpx', 'duckdb', 'IPython', 'pandas', 'imagesize', 'docstring_parser', 'yaml', "
        "'httpx_aiohttp', 'ipykernel', 'mcp', 'pydantic', 'planck_nb') if u.find_spec(name)])"
    )
    found = subprocess.run(program(bare, code), capture_output=True, check=True, text=True).stdout
    assert found == "['mcp', 'pydantic', 'planck_nb']\n"


def test_every_public_name_can_be_imported(bare: list[str]) -> None:
    code = "import planck_nb.sidecars as s; print(all(getattr(s, name) for name in s.__all__))"
    done = subprocess.run(program(bare, code), capture_output=True, check=False, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.skipif(os.name != "posix", reason="The environment is made of symbolic links.")
async def test_a_sidecar_is_imported_and_served(bare: list[str], tmp_path: pathlib.Path) -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    write_sidecar(tmp_path, BODY)
    command, *arguments = program(
        [*bare, str(tmp_path)], "from planck_nb.sidecars.__main__ import main; main(['my_sidecar:sidecar'])"
    )
    parameters = StdioServerParameters(command=command, args=arguments, cwd=tmp_path)
    async with Client(stdio_client(parameters)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"add", "shout", "image", "strict", "planck_compact_short", "planck_observe_watch"}
        assert tools["add"].description == "Add two numbers."
        assert tools["add"].input_schema["properties"]["a"] == {"type": "integer", "description": "The first."}
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"sum": 3}
        assert text_of(await client.call_tool("shout", {"text": "hi"})) == "HI\n"
        result = await client.call_tool("image", {})
        assert [block.type for block in result.content] == ["text", "image"]
        assert "'n' is a required property" in text_of(await client.call_tool("strict", {}))
        messages = [{"id": 7, "type": "user", "content": [{"type": "text", "text": "hello"}]}]
        result = await client.call_tool("planck_compact_short", {"messages": messages, "model": {"reference": "x"}})
        assert result.structured_content == {"action": "compact", "summary": "hello", "keep_ids": [7]}
        assert text_of(await client.call_tool("planck_observe_watch", {"events": []})) == "ok"
