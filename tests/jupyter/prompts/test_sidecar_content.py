"""What sidecars give to prompts: resources as `@sidecar:uri`, prompts as `%planck SIDECAR:PROMPT`, and notices."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from planck_nb import Config, Workspace
from planck_nb.ai.messages import ImagePart, UserMessage
from planck_nb.base.errors import SidecarError, SidecarLostError, UsageError
from planck_nb.jupyter.completion import suggest
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.magics import PlanckMagics
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import read_prompt_arguments
from planck_nb.jupyter.prompts.resource_mentions import resource_mentions
from planck_nb.jupyter.verbs import VERBS
from planck_nb.testing import scripted_model

pytestmark = pytest.mark.process

CODE = '''
import base64
from mcp import types
from planck_nb.sidecars import Sidecar

sidecar = Sidecar("notes")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

@sidecar.tool
async def add(text: str) -> str:
    """Add a note."""
    return text

@sidecar.resource("notes:///today.md")
def today() -> str:
    """What happened today."""
    return "It rained.\\n```\\n@secret"

@sidecar.resource("notes:///long.txt")
def long() -> str:
    """A long text."""
    return "long " * 100_000

@sidecar.resource("notes:///pixel.png", mime_type="image/png")
def pixel() -> bytes:
    """An image."""
    return base64.b64decode(PIXEL)

@sidecar.resource("notes:///of/{day}")
def of(day: str) -> str:
    """The notes of a day."""
    return f"notes of {day}"

@sidecar.prompt
def review(path: str, tone: str = "kind") -> str:
    """Review a file."""
    return f"Review @add in {path}, in a {tone} tone."
'''


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    """A notebook whose user has a sidecar of their own, and whose project has one that is not trusted."""
    (tmp_path / "home/code").mkdir(parents=True)
    (tmp_path / "home/code/notes.py").write_text(CODE)
    server = {"command": sys.executable, "args": ["-m", "planck_nb.sidecars", "notes"]}
    env = {"PYTHONPATH": f"{Path(__file__).parents[3]}:{tmp_path}/home/code"}
    for file, servers in {
        "home/.planck/mcp.json": {"notes": {**server, "env": env}, "taken": {"command": "mine"}},
        "project/.planck/mcp.json": {"taken": {"command": "theirs"}},
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(json.dumps({"mcpServers": servers}))
    config = Config.load(environment={}, directory=tmp_path / "project", home=tmp_path / "home")
    async with Workspace(config) as workspace:
        workspace.set_default_model(scripted_model(["fine"] * 20))
        yield Notebook(Controller(workspace), {"day": "Monday"})


async def sent(notebook: Notebook, prompt: str) -> tuple[UserMessage, str]:
    """The message that a model was sent for a prompt, and the notice."""
    started = await notebook.controller.start(prompt, {"new": True}, notebook.names)
    await started.run
    message = started.agent.state.messages[0].message
    assert isinstance(message, UserMessage)
    return message, started.notice


async def test_resources_are_handed_over_and_shown_and_a_missing_one_is_one_sentence(notebook: Notebook) -> None:
    with pytest.raises(SidecarError) as caught:
        await notebook.controller.start("Look at @notes:notes:///gone.md", {}, {})
    assert "notes:///gone.md" in str(caught.value)
    assert "\n" not in str(caught.value)
    many = " ".join(f"@notes:notes:///of/{number}" for number in range(21))
    with pytest.raises(UsageError, match=r"mentions 21 resources, more than 20"):
        await notebook.controller.start(many, {}, {})
    assert notebook.workspace.agents == {}, "nothing was sent"

    message, notice = await sent(notebook, "Look at @notes:notes:///today.md, and at @notes:notes:///of/may; and @day.")
    assert message.text.startswith("Look at @notes:notes:///today.md, and at")
    assert (
        "`@notes:notes:///today.md` is a resource of the sidecar notes:\n\n````\nIt rained.\n```\n@secret\n````"
        in message.text
    )
    assert "\nnotes of may\n" in message.text
    assert "Monday" in message.text
    lines = notice.splitlines()
    assert "With: day (str, 6 characters)" in lines
    assert "With: @notes:notes:///today.md (22 characters), @notes:notes:///of/may (12 characters)" in lines
    assert "secret" not in notice, "what is in a resource mentions nothing"

    message, notice = await sent(notebook, "What is @notes:notes:///pixel.png?")
    assert [part.mime for part in message.content if isinstance(part, ImagePart)] == ["image/png"]
    assert "1 image)" in notice

    message, _ = await sent(notebook, "@notes:notes:///long.txt")
    assert len(message.text) < 60_000
    assert "left out" in message.text


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("@notes:a", [("notes", "a")]),
        ("see (@notes:file:///a_(b).md).", [("notes", "file:///a_(b).md")]),
        ("@notes:a, @notes:a and @big-files:x/y?z=1!", [("notes", "a"), ("big-files", "x/y?z=1")]),
        ("@notes: later", []),
        ("@other:a and me@notes:a", []),
        ("`@notes:a`", []),
        ('He said "@notes:a".', []),
        ("```\n@notes:a\n```", []),
        ("\\@notes:a", []),
    ],
)
def test_only_what_was_typed_is_a_resource(prompt: str, found: list[tuple[str, str]]) -> None:
    assert resource_mentions(prompt, ["notes", "big-files"]) == found


async def test_a_prompt_of_a_sidecar_is_filled_in_and_sent(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    magics = PlanckMagics(InteractiveShell(), notebook.controller)

    async def run(line: str) -> Any:
        return await magics.run(line, None, {}, blocking=True)

    await run('notes:review path="a b.py" --quiet')
    message = notebook.workspace.agents["planck"].state.messages[0].message
    assert isinstance(message, UserMessage)
    assert message.text == "Review @add in a b.py, in a kind tone.", "nobody typed the mention in it"
    await run("notes:review --quiet path=b tone=dry")
    assert "in a dry tone" in str(notebook.workspace.agents["planck"].state.messages[2].message)
    for line, sentence in {
        "notes:review": r"The prompt notes:review needs path=…\.$",
        "notes:review path=a extra=1": "has no argument extra; its arguments are: path, tone",
        "notes:reveiw path=a": "has no prompt reveiw. Did you mean review",
        "notes:review a.py": "needs arguments like NAME=VALUE, not 'a.py'",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            await run(line)
    assert len(notebook.workspace.agents["planck"].state.messages) == 4, "nothing was sent"
    capsys.readouterr()


def test_options_stand_between_the_arguments_of_a_prompt() -> None:
    options, arguments = read_prompt_arguments("-q a=1 --model demo b='x y' c=", "s:p")
    assert (options, arguments) == ({"quiet": True, "model": "demo"}, {"a": "1", "b": "x y", "c": ""})


async def test_what_a_sidecar_offers_is_listed_and_completed(notebook: Notebook) -> None:
    with pytest.raises(UsageError, match="The sidecar notes is idle, so what it offers is not known"):
        await VERBS["sidecar"].run(notebook, "list notes")
    await VERBS["sidecar"].run(notebook, "start notes")
    listed = await VERBS["sidecar"].run(notebook, "list notes")
    assert isinstance(listed, pd.DataFrame)
    rows = {(row["kind"], row["name"]): row["description"] for row in listed.to_dict("records")}
    assert rows["tool", "add"] == "Add a note."
    assert rows["prompt", "review path=… [tone=…]"] == "Review a file."
    assert rows["resource", "notes:///today.md"] == "What happened today."
    assert ("resource template", "notes:///of/{day}") in rows
    line = "%planck look at @notes:notes:///to"
    assert suggest(line, 0, line, notebook) == ("@notes:notes:///to", {"@notes:notes:///today.md": "today"})
    assert "notes:review" in suggest("%planck not", 0, "%planck not", notebook)[1]


async def test_what_happened_to_sidecars_is_said_once(notebook: Notebook) -> None:
    _, notice = await sent(notebook, "hello")
    lines = notice.splitlines()
    assert "The sidecar notes is connected, with 1 tool (add)." in lines
    untrusted = [line for line in lines if "not trusted" in line]
    sentence = "The sidecar taken of this folder is not started, because it is not trusted; look with "
    assert untrusted == [f"{sentence}`%planck trust --list`, then run `%planck trust`."]
    [hidden] = [line for line in lines if "takes the name of your own" in line]
    assert hidden.startswith("The project's sidecar taken in ")
    _, notice = await sent(notebook, "hello again")
    assert "sidecar" not in notice

    link = notebook.workspace.sidecars.manager.link("notes")
    process = link.status().process
    assert process is not None
    os.kill(process, signal.SIGKILL)
    with suppress(SidecarLostError):  # if it was not noticed yet
        await link.call("add", {"text": "x"})
    assert (await link.call("add", {"text": "x"})).text == "x"
    _, notice = await sent(notebook, "and now?")
    assert "The sidecar notes was lost (" in notice
    assert "The sidecar notes is connected again, with 1 tool (add)." in notice
