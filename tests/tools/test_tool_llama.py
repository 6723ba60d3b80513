"""A real llama.cpp server drives read, edit and bash in a project folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.llama import llama_server

from planck_nb import Agent, BuiltinTools, ai
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.tools.files import Files

SCRIPT: list[dict[str, object]] = [
    {
        "thinking": "I look at the file first.",
        "calls": [
            {"name": "read", "arguments": {"path": "greeting.py"}},
            {"name": "bash", "arguments": {"command": "ls"}},
        ],
    },
    {
        "calls": [
            {
                "name": "edit",
                "arguments": {"path": "greeting.py", "old_string": "hello", "new_string": "grüß dich 🎉"},
            }
        ]
    },
    {"calls": [{"name": "bash", "arguments": {"command": "python3 greeting.py; exit 3", "timeout": 20000}}]},
    {"text": "The greeting is German now."},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("server"), SCRIPT) as url:
        yield url


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_a_real_server_drives_the_tools(tmp_path: Path, server: str, api: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "greeting.py").write_text('print("hello")\n')
    files = Files()
    model = ai.get_model("llama_cpp", base_url=server, api=api)
    async with Agent(model=model, tools=BuiltinTools.all(cwd=project, files=files)) as agent:
        result = await agent.prompt("Make the greeting German.")
    found = [message for message in result.messages if isinstance(message, ToolResultMessage)]
    (read, listed), (edited,), (ran,) = ([part.text for part in message.content] for message in found)
    assert read == 'print("hello")\n'
    assert listed == "greeting.py\n"
    assert '-print("hello")\n+print("grüß dich 🎉")\n' in edited
    assert ran == "Error: Process exited with status 3\ngrüß dich 🎉\n"
    assert result.text.strip() == "The greeting is German now."
    assert (project / "greeting.py").read_text() == 'print("grüß dich 🎉")\n'
    files.changes.undo()
    assert (project / "greeting.py").read_text() == 'print("hello")\n'
