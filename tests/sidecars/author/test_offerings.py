"""Resources, prompts, subscriptions and completion, in both protocols."""

from __future__ import annotations

import asyncio
import base64
import pathlib
from typing import Any

import pytest
from support.sidecar_server import MODES, Mode, served_here, write_sidecar

from planck_nb.base.errors import UsageError
from planck_nb.sidecars import Sidecar

pytestmark = pytest.mark.process

BODY = '''
from typing import Literal
import mcp_types as types

notes = {"today": "nothing yet"}

@sidecar.resource("notes://today")
def today() -> str:
    """The notes of today."""
    return notes["today"]

@sidecar.resource("notes://{day}/image", mime_type="image/png")
async def image(day: str) -> bytes:
    return day.encode()

@sidecar.resource("notes://broken")
def broken() -> str:
    raise ValueError("torn")

@sidecar.prompt
def review(code: str, style: Literal["short", "strict", "long"] = "short") -> list:
    """Review code.

    Args:
        code: What to review.
    """
    return [f"Review {code}.", ("assistant", style), types.TextContent(type="text", text="Thanks.")]

@sidecar.prompt(name="fails")
async def fails() -> str:
    raise RuntimeError("empty")

@sidecar.tool(process=False)
def note(text: str) -> str:
    notes["today"] = text
    resource_changed("notes://today")
    return "noted"

@sidecar.tool
def note_in_process() -> str:
    resource_changed("notes://today")
    return "noted"
'''


@pytest.mark.parametrize("mode", MODES)
async def test_resources_and_prompts(tmp_path: pathlib.Path, mode: Mode) -> None:
    write_sidecar(tmp_path, BODY)
    async with served_here(tmp_path, mode=mode) as client:
        resources = {item.uri: item for item in (await client.list_resources()).resources}
        assert set(map(str, resources)) == {"notes://today", "notes://broken"}
        assert resources["notes://today"].description == "The notes of today."
        templates = (await client.list_resource_templates()).resource_templates
        assert [item.uri_template for item in templates] == ["notes://{day}/image"]
        (content,) = (await client.read_resource("notes://today")).contents
        assert (content.text, content.mime_type) == ("nothing yet", "text/plain")
        (content,) = (await client.read_resource("notes://monday/image")).contents
        assert (base64.b64decode(content.blob), content.mime_type) == (b"monday", "image/png")
        with pytest.raises(Exception, match="There is no resource notes://other"):
            await client.read_resource("notes://other")
        with pytest.raises(Exception, match="ValueError: torn"):
            await client.read_resource("notes://broken")

        prompt = next(item for item in (await client.list_prompts()).prompts if item.name == "review")
        assert prompt.description == "Review code."
        assert [(item.name, item.description, item.required) for item in prompt.arguments] == [
            ("code", "What to review.", True),
            ("style", None, False),
        ]
        messages = (await client.get_prompt("review", {"code": "x = 1"})).messages
        assert [(item.role, item.content.text) for item in messages] == [
            ("user", "Review x = 1."),
            ("assistant", "short"),
            ("user", "Thanks."),
        ]
        for name, arguments, words in [
            ("review", {}, "needs the argument code"),
            ("review", {"code": "", "colour": "red"}, "has no argument colour"),
            ("fails", {}, "RuntimeError: empty"),
            ("ghost", {}, "There is no prompt ghost"),
        ]:
            with pytest.raises(Exception, match=words):
                await client.get_prompt(name, arguments)

        import mcp_types as types

        async def values(begun: str) -> Any:
            given = {"name": "style", "value": begun}
            return (await client.complete(types.PromptReference(name="review"), given)).completion.values

        assert await values("s") == ["short", "strict"]
        assert await values("") == ["short", "strict", "long"]
        assert await values("x") == []


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")  # in the newest protocol only
async def test_subscribers_hear_of_changes_from_threads_and_processes(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, BODY)
    changed: asyncio.Queue[str] = asyncio.Queue()

    async def notice(message: Any) -> None:
        if type(message).__name__ == "ResourceUpdatedNotification":
            changed.put_nowait(str(message.params.uri))

    async with served_here(tmp_path, mode="legacy", message_handler=notice) as client, asyncio.timeout(20):
        await client.subscribe_resource("notes://today")
        for name, args in (("note", {"text": "rain"}), ("note_in_process", {})):
            await client.call_tool(name, args)
            assert await changed.get() == "notes://today"
        assert (await client.read_resource("notes://today")).contents[0].text == "rain"
        await client.unsubscribe_resource("notes://today")
        await client.call_tool("note", {"text": "sun"})
        await client.list_tools()
        assert changed.empty()


async def test_listeners_of_the_newest_protocol(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, BODY)
    async with (
        served_here(tmp_path) as client,
        asyncio.timeout(20),
        client.listen(resource_subscriptions=["notes://today"]) as events,
    ):
        await client.call_tool("note", {"text": "rain"})
        assert (await anext(events)).uri == "notes://today"


def test_two_of_the_same_name_are_refused() -> None:
    sidecar = Sidecar("twice")
    sidecar.resource("a://b")(lambda: "")
    with pytest.raises(UsageError, match="two resources a://b"):
        sidecar.resource("a://b")(lambda: "")
    sidecar.prompt(name="p")(lambda: "")
    with pytest.raises(UsageError, match="two prompts named p"):
        sidecar.prompt(name="p")(lambda: "")
    with pytest.raises(UsageError, match="a name of its own"):
        sidecar.prompt(name="q")(lambda *words: "")


@pytest.mark.parametrize(("name", "processes"), [("", 1), (" ", 1), ("a", 0)])
def test_settings_of_a_sidecar_are_checked(name: str, processes: int) -> None:
    with pytest.raises(UsageError):
        Sidecar(name, processes=processes)
